import { AsyncLocalStorage } from 'node:async_hooks';

/** For which tenant this process works at a moment: known in all that a piece of work begins, awaited or not. */
export class CurrentTenant {
  readonly #uid = new AsyncLocalStorage<string>();

  /** UID of a VirtualCluster; undefined where work is nobody's or everybody's. */
  get uid(): string | undefined {
    return this.#uid.getStore();
  }

  run<T>(uid: string, act: () => T): T {
    return this.#uid.run(uid, act);
  }

  /** The rest of what is under way is for this tenant. */
  enter(uid: string): void {
    this.#uid.enterWith(uid);
  }
}
