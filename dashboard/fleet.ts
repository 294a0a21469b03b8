import type { VirtualCluster } from '../api/virtual-cluster.ts';
import { isUnclaimed } from '../api/warm-pool.ts';
import {
  type KubeClient,
  messageOf,
  namespacedName,
  Reflector,
  resources,
  Store,
  systemClock,
} from '../kube/index.ts';
import type { Assessment, TenantRef } from './backend.ts';
import type { TenantRow } from './types.ts';
import { tenantRow } from './views.ts';

/** So many deletions are remembered for pages that were away. */
const maxGone = 10_000;

export interface Changes {
  /** Where the next call goes on. */
  readonly version: number;
  readonly rows: readonly TenantRow[];
  /** `namespace/name` of those that are gone. */
  readonly gone: readonly string[];
  /** All there is, not what has changed. */
  readonly isWhole: boolean;
}

/** All tenants, as this program sees them, with a version that grows with every change. */
export class Fleet {
  readonly #store = new Store<VirtualCluster>();
  readonly #assess: (vc: VirtualCluster) => Assessment;
  readonly #versions = new Map<string, number>();
  readonly #gone = new Map<string, { version: number; namespace: string }>();
  readonly #rows = new WeakMap<VirtualCluster, TenantRow>();
  readonly #listeners = new Set<() => void>();
  readonly #synced = Promise.withResolvers<void>();
  /** What has failed last, and when on the monotonic clock. */
  #failure: { message: string; atMs: number } | undefined;
  #reflector: Reflector<VirtualCluster> | undefined;
  #version: number;
  /** Changes before it are forgotten. */
  #since: number;

  /**
   * `startedMs`: versions count from there, so that one of another process, or of another replica, is too old or too new
   * here, and never taken for one of this fleet.
   */
  constructor(assess: (vc: VirtualCluster) => Assessment, startedMs: number) {
    this.#assess = assess;
    this.#version = 1_000 * startedMs;
    this.#since = this.#version;
    this.#store.subscribe(({ type, object }) => {
      if (isUnclaimed(object)) return;
      const name = namespacedName(object.metadata);
      this.#version += 1;
      if (type === 'deleted') {
        this.#versions.delete(name);
        this.#gone.set(name, { version: this.#version, namespace: object.metadata.namespace ?? '' });
        if (this.#gone.size > maxGone) this.#forget();
      } else {
        this.#gone.delete(name);
        this.#versions.set(name, this.#version);
      }
      for (const listener of this.#listeners) listener();
    });
  }

  get version(): number {
    return this.#version;
  }

  /** Watches until aborted. `onProblem` is called when something else than before keeps it from knowing: `problem` says what. */
  async run(client: KubeClient, signal: AbortSignal, onProblem: () => void): Promise<void> {
    const { virtualClusters: resource } = resources;
    const reflector = new Reflector({
      client,
      resource,
      store: this.#store,
      cutManagedFields: true,
      onProblem: ({ error }) => {
        const message = `the super cluster cannot be watched: ${messageOf(error)}`;
        const isKnown = message === this.problem;
        this.#failure = { message, atMs: systemClock.monotonic() };
        if (isKnown) return;
        onProblem();
        for (const listener of this.#listeners) listener();
      },
    });
    this.#reflector = reflector;
    reflector.synced(signal).then(
      () => this.#synced.resolve(),
      () => undefined,
    );
    await reflector.run(signal);
  }

  /** Why what it knows may be old; undefined as soon as the super cluster has answered again. */
  get problem(): string | undefined {
    if (this.#failure === undefined || this.#reflector === undefined) return undefined;
    return this.#reflector.lastActivityMs > this.#failure.atMs ? undefined : this.#failure.message;
  }

  /** Resolves when all tenants are known. */
  get synced(): Promise<void> {
    return this.#synced.promise;
  }

  /** One that waits for an owner is no tenant. */
  get(ref: TenantRef): VirtualCluster | undefined {
    const vc = this.#store.get(ref);
    return vc === undefined || isUnclaimed(vc) ? undefined : vc;
  }

  namespaces(): string[] {
    const tenants = [...this.#store.list()].filter((vc) => !isUnclaimed(vc));
    return [...new Set(tenants.map(({ metadata }) => metadata.namespace ?? ''))].sort();
  }

  assess(vc: VirtualCluster): Assessment {
    return this.#assess(vc);
  }

  /** What has changed since a version, in the namespaces that count; all of it for a version that is too old. */
  changes(since: number, isVisible: (namespace: string) => boolean): Changes {
    const isWhole = since < this.#since || since > this.#version || since === 0;
    const rows: TenantRow[] = [];
    for (const vc of this.#store.list()) {
      if (isUnclaimed(vc) || !isVisible(vc.metadata.namespace ?? '')) continue;
      if (!isWhole && (this.#versions.get(namespacedName(vc.metadata)) ?? 0) <= since) continue;
      rows.push(this.#row(vc));
    }
    const gone = isWhole
      ? []
      : [...this.#gone]
          .filter(([, { version, namespace }]) => version > since && isVisible(namespace))
          .map(([name]) => name);
    return { version: this.#version, rows, gone, isWhole };
  }

  /** Called after each change. Returns how to stop that. */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Objects of the store are never changed, only replaced. */
  #row(vc: VirtualCluster): TenantRow {
    const known = this.#rows.get(vc);
    if (known !== undefined) return known;
    const row = tenantRow(vc, this.#assess(vc));
    this.#rows.set(vc, row);
    return row;
  }

  #forget(): void {
    this.#gone.clear();
    this.#since = this.#version;
  }
}
