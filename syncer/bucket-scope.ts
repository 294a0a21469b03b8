import type { VirtualCluster } from '../api/virtual-cluster.ts';
import { type Clock, type KubeObject, onAbort } from '../kube/index.ts';
import { bucketCount, bucketOf } from './mapping/labels.ts';
import type { BucketHolder } from './sharding/shards.ts';
import type { SuperScope } from './super-side.ts';
import type { TenantFilter } from './tenants/directory.ts';

export interface BucketScopeOptions {
  /** Makes the caches of the super cluster hold what is in this scope; resolves when they do. */
  cover: (scope: SuperScope, signal: AbortSignal) => Promise<void>;
  /** What was refused for a while is let out again. */
  onResumed: () => void;
  clock: Pick<Clock, 'sleep'>;
}

/** How long all is followed when no tenant needs that any more: its owner can begin and end it at will, and all is listed each time. */
const keptAllMs = 10 * 60_000;

type Listener = () => Promise<void>;

/**
 * Between the buckets that this replica has and the tenants that it serves: a tenant is served when the caches of
 * the super cluster hold all of its bucket, and they let go of a bucket when none of its tenants is served any more.
 */
export class BucketScope implements BucketHolder, TenantFilter {
  readonly #options: BucketScopeOptions;
  readonly #held = new Set<number>();
  #expected: ReadonlySet<number> | undefined;
  /** What the caches are known to hold, whatever they may hold beside it. */
  #covered: ReadonlySet<number> = new Set();
  /** Whether the caches hold all buckets, of all replicas. */
  #coversAll = false;
  /** Whether the objects of all tenants are followed for any tenant, or were a while ago; unknown at first. */
  #wantsAll: boolean | undefined;
  /** Whether any tenant requires them now. */
  #needsAll = false;
  #isKept = false;
  readonly #ending = new AbortController();
  /** Whether those who have to see all have been able to, once; until then no tenant is served. */
  #hasSeen = false;
  #listeners: readonly Listener[] = [];
  #changed = Promise.withResolvers<void>();

  constructor(options: BucketScopeOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#held.size;
  }

  /** Works until aborted. */
  async run(signal: AbortSignal): Promise<void> {
    onAbort(signal, () => {
      this.#ending.abort(signal.reason);
      this.#changed.resolve();
    });
    let present: string | undefined;
    while (!signal.aborted) {
      const scope = this.#wanted();
      const next = scope && textOf(scope);
      if (scope === undefined || next === present) {
        await this.#changed.promise;
        if (!signal.aborted) this.#changed = Promise.withResolvers();
        continue;
      }
      await this.#change(scope, signal);
      present = next;
    }
  }

  expect(buckets: ReadonlySet<number>): void {
    this.#expected = buckets;
    this.#changed.resolve();
  }

  take(buckets: ReadonlySet<number>): void {
    for (const bucket of buckets) this.#held.add(bucket);
    this.#expected = undefined;
    this.#changed.resolve();
    void this.#tell();
  }

  async drop(buckets: ReadonlySet<number>): Promise<void> {
    for (const bucket of buckets) this.#held.delete(bucket);
    this.#expected = undefined;
    await this.#tell();
    this.#changed.resolve();
  }

  resumed(): void {
    this.#options.onResumed();
    void this.#tell();
  }

  serves(vc: KubeObject): boolean {
    const bucket = bucketOf(vc.metadata.uid ?? '');
    return this.#hasSeen && this.#held.has(bucket) && this.#covered.has(bucket);
  }

  get seesAll(): boolean {
    return this.#coversAll;
  }

  /** Which addresses may be a tenant's endpoints depends on what the others have: then nothing may be out of sight. */
  see(virtualClusters: Iterable<VirtualCluster>): void {
    this.#needsAll = false;
    for (const { status } of virtualClusters) {
      if ((status?.policy?.endpointCIDRs?.length ?? 0) > 0) this.#needsAll = true;
    }
    if (this.#wantsAll === true && !this.#needsAll) void this.#keep();
    else this.#want(this.#needsAll);
  }

  async #keep(): Promise<void> {
    if (this.#isKept) return;
    this.#isKept = true;
    await this.#options.clock.sleep(keptAllMs, this.#ending.signal).catch(() => undefined);
    this.#isKept = false;
    if (!this.#ending.signal.aborted) this.#want(this.#needsAll);
  }

  #want(wantsAll: boolean): void {
    const before = this.#wantsAll;
    this.#wantsAll = wantsAll;
    this.#noteSeen();
    if (this.#wantsAll === before) return;
    this.#changed.resolve();
    void this.#tell();
  }

  subscribe(listener: Listener): () => void {
    this.#listeners = [...this.#listeners, listener];
    return () => {
      this.#listeners = this.#listeners.filter((each) => each !== listener);
    };
  }

  #wanted(): SuperScope | undefined {
    if (this.#wantsAll === true) return 'all';
    const buckets = this.#expected ?? this.#held;
    if (this.#expected === undefined && this.#held.size === 0 && this.#wantsAll === undefined)
      return undefined;
    return buckets.size === bucketCount ? 'all' : new Set(buckets);
  }

  async #change(scope: SuperScope, signal: AbortSignal): Promise<void> {
    const buckets = scope === 'all' ? new Set(Array(bucketCount).keys()) : scope;
    // While they change, only what is in both is surely there.
    this.#covered = new Set([...this.#covered].filter((bucket) => buckets.has(bucket)));
    this.#coversAll &&= scope === 'all';
    await this.#tell();
    await this.#options.cover(scope, signal).catch((error: unknown) => {
      if (!signal.aborted) throw error;
    });
    if (signal.aborted) return;
    this.#covered = buckets;
    this.#coversAll = scope === 'all';
    this.#noteSeen();
    await this.#tell();
  }

  #noteSeen(): void {
    this.#hasSeen ||= this.#wantsAll === false || (this.#wantsAll === true && this.#coversAll);
  }

  async #tell(): Promise<void> {
    await Promise.all(this.#listeners.map((listener) => listener()));
  }
}

function textOf(scope: SuperScope): string {
  return scope === 'all' ? scope : [...scope].toSorted((a, b) => a - b).join();
}
