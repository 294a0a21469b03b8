const newline = 0x0a;

/** Cuts a stream into lines without decoding them. A line is only good until the next chunk is pushed. */
export class BufferLines {
  #parts: Buffer[] = [];

  /** Returns the last line that this chunk has completed. */
  push(chunk: Buffer, onLine: (line: Buffer) => void): Buffer | undefined {
    let start = 0;
    let last: Buffer | undefined;
    for (let end = chunk.indexOf(newline); end !== -1; end = chunk.indexOf(newline, start)) {
      let line = chunk.subarray(start, end);
      if (this.#parts.length > 0) {
        line = Buffer.concat([...this.#parts, line]);
        this.#parts = [];
      }
      if (line.length > 0) {
        onLine(line);
        last = line;
      }
      start = end + 1;
    }
    if (start < chunk.length) this.#parts.push(chunk.subarray(start));
    return last;
  }
}
