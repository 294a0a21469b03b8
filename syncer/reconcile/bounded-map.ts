interface ByteLimit<V> {
  readonly bytesOf: (value: V) => number;
  readonly maxBytes: number;
}

/** A map that forgets its oldest entries beyond a size: for memory that only saves work. */
export class BoundedMap<V> {
  readonly #entries = new Map<string, V>();
  readonly #limit: number;
  readonly #byteLimit: ByteLimit<V> | undefined;
  /** By key; empty without a limit of bytes. */
  readonly #sizes = new Map<string, number>();
  #bytes = 0;

  /** `byteLimit`: of all values together; one that is larger alone is not kept. */
  constructor(limit: number, byteLimit?: ByteLimit<V>) {
    if (!Number.isInteger(limit) || limit < 1) throw new RangeError(`limit must be at least 1, got ${limit}`);
    this.#limit = limit;
    this.#byteLimit = byteLimit;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** Whether something may have been forgotten. */
  get isFull(): boolean {
    return this.#entries.size >= this.#limit;
  }

  get(key: string): V | undefined {
    // Most are empty most of the time, and a key that was just made has no hash yet.
    return this.#entries.size === 0 ? undefined : this.#entries.get(key);
  }

  set(key: string, value: V): void {
    this.delete(key);
    this.#entries.set(key, value);
    if (this.#byteLimit !== undefined) {
      const bytes = this.#byteLimit.bytesOf(value);
      this.#sizes.set(key, bytes);
      this.#bytes += bytes;
    }
    while (this.#entries.size > this.#limit || this.#bytes > (this.#byteLimit?.maxBytes ?? 0)) {
      const oldest = this.#entries.keys().next();
      if (oldest.done === true) return;
      this.delete(oldest.value);
    }
  }

  delete(key: string): void {
    this.#entries.delete(key);
    if (this.#byteLimit === undefined) return;
    this.#bytes -= this.#sizes.get(key) ?? 0;
    this.#sizes.delete(key);
  }

  deleteAll(matches: (key: string) => boolean): void {
    for (const key of this.#entries.keys()) if (matches(key)) this.delete(key);
  }

  clear(): void {
    this.#entries.clear();
    this.#sizes.clear();
    this.#bytes = 0;
  }
}
