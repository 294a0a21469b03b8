import { Writable } from 'node:stream';

/** A stream that keeps what was written to it. */
export class Captured extends Writable {
  readonly isTTY: boolean;
  readonly columns: number;
  text = '';

  constructor(options: { isTTY?: boolean; columns?: number } = {}) {
    super();
    this.isTTY = options.isTTY ?? false;
    this.columns = options.columns ?? 80;
  }

  override _write(chunk: Buffer, _: BufferEncoding, done: () => void): void {
    this.text += chunk.toString();
    done();
  }
}
