import type { KeyRef } from '../kinds/index.ts';
import { keyId } from './key.ts';

/** Keys that wait until another one is in agreement. */
export class Waiters {
  /** By the id of the key they wait for; no map in here is empty. */
  readonly #waiters = new Map<string, Map<string, KeyRef>>();

  /** How many keys are waited for. */
  get size(): number {
    return this.#waiters.size;
  }

  add(dependency: KeyRef, waiter: KeyRef): void {
    const id = keyId(dependency);
    let waiters = this.#waiters.get(id);
    if (waiters === undefined) {
      waiters = new Map();
      this.#waiters.set(id, waiters);
    }
    waiters.set(keyId(waiter), waiter);
  }

  has(dependency: KeyRef): boolean {
    return this.#waiters.size > 0 && this.#waiters.has(keyId(dependency));
  }

  /** The keys that waited for this one; they wait no longer. */
  take(dependency: KeyRef): KeyRef[] {
    const id = keyId(dependency);
    const waiters = this.#waiters.get(id);
    this.#waiters.delete(id);
    return waiters === undefined ? [] : [...waiters.values()];
  }

  /** For somebody who looks at every key next: what still has to wait says so again. */
  clear(): void {
    this.#waiters.clear();
  }
}
