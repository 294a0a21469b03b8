import { PassThrough } from 'node:stream';

/** A stream that keeps what was written to it. */
export class Captured extends PassThrough {
  readonly isTTY: boolean;
  readonly columns: number;
  text = '';

  constructor(options: { isTTY?: boolean; columns?: number } = {}) {
    super();
    this.isTTY = options.isTTY ?? false;
    this.columns = options.columns ?? 80;
    this.on('data', (chunk: Buffer) => {
      this.text += chunk.toString();
    });
  }
}
