/** Part of the heap's limit beyond which a thread that is stuck may die within seconds. */
const fullShare = 0.6;

/**
 * Whether the heap of another thread is nearly full, by what that thread says of it with each beat: resident memory
 * alone is also what a process has freed and not given back, and what is no heap at all.
 */
export class HeapWatch {
  readonly #limitBytes: number;
  #beat: number | undefined;
  #heapBytes = 0;
  #residentBytes = 0;

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
  }

  /**
   * To be called with the beats so far, the heap as it was said to be at the last one, and resident memory now. `isFull`:
   * with what the process has grown by since that beat. `wasFull`: it was so at that beat, before the work that is under way.
   */
  look(beat: number, heapBytes: number, residentBytes: number): { isFull: boolean; wasFull: boolean } {
    if (beat !== this.#beat)
      [this.#beat, this.#heapBytes, this.#residentBytes] = [beat, heapBytes, residentBytes];
    const grownBytes = Math.max(0, residentBytes - this.#residentBytes);
    const full = fullShare * this.#limitBytes;
    return { isFull: this.#heapBytes + grownBytes > full, wasFull: this.#heapBytes > full };
  }
}
