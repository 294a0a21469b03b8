/** Finds keys by values computed from their objects. Holds keys only, so a change that keeps the values costs nothing. */
export class StoreIndex<T> {
  readonly #valuesOf: (object: T) => readonly string[];
  /** No set in here is empty. */
  readonly #keys = new Map<string, Set<string>>();

  constructor(valuesOf: (object: T) => readonly string[]) {
    this.#valuesOf = valuesOf;
  }

  keys(value: string): ReadonlySet<string> | undefined {
    return this.#keys.get(value);
  }

  /** `before` and `after` are the same key's objects; undefined where there is none. */
  update(key: string, before: T | undefined, after: T | undefined): void {
    const old = before === undefined ? none : this.#valuesOf(before);
    const current = after === undefined ? none : this.#valuesOf(after);
    if (same(old, current)) return;
    for (const value of old) {
      const keys = this.#keys.get(value);
      if (keys?.delete(key) && keys.size === 0) this.#keys.delete(value);
    }
    for (const value of current) {
      const keys = this.#keys.get(value);
      if (keys === undefined) this.#keys.set(value, new Set([key]));
      else keys.add(key);
    }
  }
}

const none: readonly string[] = [];

function same(a: readonly string[], b: readonly string[]): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}
