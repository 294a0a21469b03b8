import type { Operation } from './protocol.ts';

interface Pending {
  operation: Operation;
  number: number;
}

/**
 * Which operations have been shown by a watch on the other side. An event carries the number of the
 * operation that the object's state is of: it shows that one and all before it of the same object.
 */
export class ShownTracker {
  readonly #run: string;
  readonly #onShown: ((operation: Operation) => void) | undefined;
  #next = 0;
  #pendingCount = 0;
  /** Number to the object it was done to; objects that are gone on both sides are forgotten. */
  readonly #objects = new Map<number, string>();
  readonly #pending = new Map<string, Pending[]>();
  lastShownMs = 0;

  /** `run` sets apart the objects of this run from what may be left of another. */
  constructor(run: string, onShown?: (operation: Operation) => void) {
    this.#run = run;
    this.#onShown = onShown;
  }

  /** Operations that have not been shown yet. */
  get pending(): number {
    return this.#pendingCount;
  }

  /** To be called before the call is sent. Returns what the object is to be annotated with. */
  sent(object: string, operation: Operation): string {
    const number = this.#next++;
    this.#objects.set(number, object);
    const pending = this.#pending.get(object) ?? [];
    pending.push({ operation, number });
    this.#pending.set(object, pending);
    this.#pendingCount++;
    return `${this.#run}.${number}`;
  }

  seen(annotation: string, isDeleted: boolean, atMs: number): void {
    const [run, text] = annotation.split('.', 2);
    const number = Number(text);
    const object = run === this.#run ? this.#objects.get(number) : undefined;
    const pending = object === undefined ? undefined : this.#pending.get(object);
    if (object === undefined || pending === undefined) return;
    const isEnd = isDeleted && pending.some(({ operation }) => operation.verb === 'delete');
    const left = pending.filter((each) => {
      if (!isEnd && (each.number > number || each.operation.verb === 'delete')) return true;
      each.operation.shownMs = atMs;
      this.#pendingCount--;
      this.lastShownMs = atMs;
      this.#onShown?.(each.operation);
      return false;
    });
    this.#pending.set(object, left);
    if (isEnd) this.#forget(object);
  }

  #forget(object: string): void {
    this.#pending.delete(object);
    for (const [number, of] of this.#objects) if (of === object) this.#objects.delete(number);
  }
}
