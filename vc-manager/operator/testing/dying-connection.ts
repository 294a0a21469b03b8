import { AsyncLocalStorage } from 'node:async_hooks';
import { Connection } from '../../../kube/index.ts';

type Call = Parameters<Connection['request']>[0];
type Answer = Awaited<ReturnType<Connection['request']>>;

/**
 * The connection of a manager that dies right after a write: it has been done, nobody hears of it, and nothing follows.
 * Writes are those to the super cluster and what `counting` makes of others.
 */
export class DyingConnection extends Connection {
  /** Resolves at the death, or never. */
  readonly died: Promise<void>;
  readonly #die: () => void;
  readonly #last: number;
  /** In the last write: call it when that calls back, and comes no further. */
  readonly #inLast = new AsyncLocalStorage<() => void>();
  #writes = 0;
  #dead = false;

  /** Infinity: it lives. */
  constructor(options: ConstructorParameters<typeof Connection>[0], writes: number) {
    super(options);
    this.#last = writes;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.died = promise;
    this.#die = resolve;
  }

  /** How many it has begun. */
  get writes(): number {
    return this.#writes;
  }

  /** The last write has begun. */
  get isDying(): boolean {
    return this.#dead;
  }

  override async request(call: Call): Promise<Answer> {
    // What is not about VirtualClusters and theirs is not part of the count: its order is left to chance.
    if (call.resource === 'leases') return super.request(call);
    // Of the usage meter, which writes by the clock.
    const isCounted = call.resource !== 'configmaps';
    const isRead = call.verb === 'get' || call.verb === 'list' || call.verb === 'other';
    if (isRead || !isCounted) return this.#dead ? this.#silence(call.signal) : super.request(call);
    return this.#write(call.signal, (isLast) =>
      super.request(isLast ? { ...call, signal: undefined } : call),
    );
  }

  /** The same object, of which these methods are writes too. Their last argument may have a signal. */
  counting<T extends object>(target: T, methods: readonly (keyof T)[]): T {
    return new Proxy(target, {
      get: (_, property) => {
        const value: unknown = Reflect.get(target, property, target);
        if (typeof value !== 'function') return value;
        const method = value.bind(target) as (...args: unknown[]) => Promise<unknown>;
        if (!methods.includes(property as keyof T)) return method;
        return (...args: unknown[]) => {
          const { signal } = (args.at(-1) ?? {}) as { signal?: AbortSignal };
          return this.#write(signal, () => method(...args));
        };
      },
    });
  }

  async #write<T>(signal: AbortSignal | undefined, work: (isLast: boolean) => Promise<T>): Promise<T> {
    if (this.#dead) return this.#silence(signal);
    this.#writes += 1;
    if (this.#writes < this.#last) return work(false);
    this.#dead = true;
    const { promise: calledBack, resolve } = Promise.withResolvers<void>();
    // Nobody hears of a failure, either.
    const done = this.#inLast.run(resolve, () => work(true)).catch(() => undefined);
    await Promise.race([done, calledBack]);
    this.#die();
    return this.#silence(signal);
  }

  #silence(signal: AbortSignal | undefined): Promise<never> {
    this.#inLast.getStore()?.();
    return silence(signal);
  }
}

/** As from a host that is gone. */
function silence(signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_resolve, reject) => {
    if (signal === undefined) reject(new Error('a call without a signal would hang for ever'));
    else if (signal.aborted) reject(signal.reason);
    else signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}
