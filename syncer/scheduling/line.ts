/** First come, first served, with removal from the middle. All in O(1), however many are in it. */
export class Line<Item> {
  readonly #items = new Set<Item>();
  /** Goes on where it stopped: an iteration from the start would walk over all that have left. */
  #next = this.#items.values();

  get size(): number {
    return this.#items.size;
  }

  has(item: Item): boolean {
    return this.#items.has(item);
  }

  add(item: Item): void {
    this.#items.add(item);
  }

  remove(item: Item): void {
    this.#items.delete(item);
  }

  /** Takes the first out. */
  shift(): Item | undefined {
    while (this.#items.size > 0) {
      const { value, done } = this.#next.next();
      if (done === true) {
        this.#next = this.#items.values();
        continue;
      }
      this.#items.delete(value);
      return value;
    }
    return undefined;
  }
}
