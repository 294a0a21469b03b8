const newline = 0x0a;

/**
 * Cuts a stream of Buffers into lines. Bytes are decoded only when a line is complete, so a
 * character split across chunks stays whole; parts are joined once, so a line of several MB costs
 * no more than its size.
 */
export class LineSplitter {
  /** Bytes of the line that is not complete yet; no part holds a newline. */
  #parts: Buffer[] = [];
  #pendingBytes = 0;
  readonly #maxLineBytes: number;

  constructor(maxLineBytes = 128 * 1024 * 1024) {
    this.#maxLineBytes = maxLineBytes;
  }

  /** How many bytes wait for their newline. Not zero at the end of a stream: the last line was cut. */
  get pendingBytes(): number {
    return this.#pendingBytes;
  }

  /** Takes the next chunk and returns the lines that it completes, without newline; empty lines are left out. */
  push(chunk: Buffer): string[] {
    const lines: string[] = [];
    let start = 0;
    for (let end = chunk.indexOf(newline); end !== -1; end = chunk.indexOf(newline, start)) {
      if (this.#pendingBytes > 0) {
        this.#parts.push(chunk.subarray(start, end));
        lines.push(Buffer.concat(this.#parts).toString());
        this.#parts = [];
        this.#pendingBytes = 0;
      } else if (end > start) {
        lines.push(chunk.toString('utf8', start, end));
      }
      start = end + 1;
    }
    if (start < chunk.length) {
      this.#parts.push(start === 0 ? chunk : chunk.subarray(start));
      this.#pendingBytes += chunk.length - start;
      if (this.#pendingBytes > this.#maxLineBytes) {
        throw new RangeError(`a line is longer than ${this.#maxLineBytes} bytes`);
      }
    }
    return lines;
  }
}
