import { PassThrough } from 'node:stream';

/** What an answer is written to, without a server. It takes nothing more while nobody reads it. */
export class FakeResponse extends PassThrough {
  statusCode = 0;
  readonly #begun = Promise.withResolvers<void>();
  /** Resolves with the first line of an answer. */
  readonly begun = this.#begun.promise;

  constructor() {
    super({ highWaterMark: 1 });
  }

  writeHead(statusCode: number): this {
    this.statusCode = statusCode;
    this.#begun.resolve();
    return this;
  }
}
