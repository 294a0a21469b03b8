import {
  type Clock,
  type KubeClient,
  type KubeObject,
  Reflector,
  type Resource,
  resources,
  Store,
} from '../../../kube/index.ts';
import { componentLabel } from './names.ts';
import type { Pod, StatefulSet } from './types.ts';

/** What runs in one namespace, kept up to date until it is closed. */
export class NamespaceView implements AsyncDisposable {
  readonly #statefulSets = new Store<StatefulSet>();
  readonly #pods = new Store<Pod>();
  readonly #ending = new AbortController();
  readonly #running: Promise<unknown>;
  readonly #synced: Promise<unknown>;
  #changed = Promise.withResolvers<void>();

  constructor(client: KubeClient, namespace: string, clock: Clock) {
    const follow = <T extends KubeObject>(resource: Resource, store: Store<T>): Reflector<T> => {
      store.subscribe(() => this.#tell());
      return new Reflector<T>({
        client,
        clock,
        resource,
        store,
        namespace,
        labelSelector: componentLabel,
        consistentStart: true,
      });
    };
    const { signal } = this.#ending;
    const reflectors = [
      follow(resources.statefulSets, this.#statefulSets),
      follow(resources.pods, this.#pods),
    ];
    this.#running = Promise.all(reflectors.map((reflector) => reflector.run(signal)));
    this.#synced = Promise.all(reflectors.map((reflector) => reflector.synced(signal)));
    this.#synced.catch(() => undefined);
  }

  statefulSet(component: string): StatefulSet | undefined {
    return [...this.#statefulSets.list()].find(({ metadata }) => metadata.name === component);
  }

  pods(component: string): Pod[] {
    return [...this.#pods.list()]
      .filter(({ metadata }) => metadata.labels?.[componentLabel] === component)
      .sort((a, b) => ((a.metadata.name ?? '') < (b.metadata.name ?? '') ? -1 : 1));
  }

  /** Looks now and after every change, until `look` gives something; undefined when it has not within `timeoutMs`. */
  async until<T>(
    look: () => T | undefined,
    { signal, clock, timeoutMs }: { signal: AbortSignal; clock: Clock; timeoutMs: () => number },
  ): Promise<T | undefined> {
    const over = new AbortController();
    const either = AbortSignal.any([signal, over.signal]);
    try {
      await Promise.race([this.#synced, aborted(either)]);
      for (;;) {
        signal.throwIfAborted();
        const { promise } = this.#changed;
        const found = look();
        if (found !== undefined) return found;
        const leftMs = timeoutMs();
        if (leftMs <= 0) return undefined;
        const waiting = new AbortController();
        const late = clock.sleep(leftMs, AbortSignal.any([either, waiting.signal]));
        late.catch(() => undefined);
        await Promise.race([promise, late]).finally(() => waiting.abort());
      }
    } finally {
      over.abort();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ending.abort();
    await this.#running;
  }

  #tell(): void {
    const { resolve } = this.#changed;
    this.#changed = Promise.withResolvers<void>();
    // While a list is taken over, the store is neither the old state nor the new one.
    queueMicrotask(resolve);
  }
}

function aborted(signal: AbortSignal): Promise<never> {
  const { promise, reject } = Promise.withResolvers<never>();
  promise.catch(() => undefined);
  if (signal.aborted) reject(signal.reason);
  else signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  return promise;
}
