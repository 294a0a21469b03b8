/** Smaller chunks are copied together: a view of a few bytes may hold 64 KiB that were read at once. */
const smallBytes = 16 * 1024;
const largestTail = 4 * smallBytes;

/**
 * The chunks of a stream until they are needed in one piece. What it holds is in proportion to the bytes in it, however
 * small the chunks are; only the first may be a view of all that was read with it. One chunk alone is not copied, large ones
 * only when they are joined.
 */
export class Chunks {
  #whole: Buffer[] = [];
  /** Small chunks that came last, in the first `#tailLength` bytes. It grows by doubling. */
  #tail: Buffer = empty;
  #tailLength = 0;
  #length = 0;

  /** In bytes. */
  get length(): number {
    return this.#length;
  }

  add(chunk: Buffer): void {
    if (chunk.length === 0) return;
    this.#length += chunk.length;
    if (chunk.length >= smallBytes || this.#length === chunk.length) {
      this.#endTail();
      this.#whole.push(chunk);
      return;
    }
    const needed = this.#tailLength + chunk.length;
    if (needed > largestTail) {
      this.#endTail();
      this.#growTail(chunk.length);
    } else if (needed > this.#tail.length) this.#growTail(needed);
    chunk.copy(this.#tail, this.#tailLength);
    this.#tailLength += chunk.length;
  }

  /** All of them in one piece. Afterwards it is empty. Throws a RangeError when that is longer than a Buffer can be. */
  take(): Buffer {
    this.#endTail();
    const [first = empty] = this.#whole;
    const all = this.#whole.length > 1 ? Buffer.concat(this.#whole, this.#length) : first;
    this.clear();
    return all;
  }

  clear(): void {
    this.#whole = [];
    this.#tail = empty;
    this.#tailLength = 0;
    this.#length = 0;
  }

  #growTail(needed: number): void {
    const larger = Buffer.allocUnsafeSlow(Math.min(largestTail, Math.max(needed, 2 * this.#tail.length)));
    this.#tail.copy(larger, 0, 0, this.#tailLength);
    this.#tail = larger;
  }

  #endTail(): void {
    if (this.#tailLength > 0) this.#whole.push(this.#tail.subarray(0, this.#tailLength));
    this.#tail = empty;
    this.#tailLength = 0;
  }
}

const empty = Buffer.alloc(0);
