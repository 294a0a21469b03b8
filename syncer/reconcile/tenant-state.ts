import { labelKeys } from '../../api/labels.ts';
import {
  estimateBytes,
  type KubeClient,
  type KubeObject,
  type ObjectRef,
  type Resource,
  resources,
} from '../../kube/index.ts';
import type { KeyRef, SyncContext, TenantInfo } from '../context.ts';
import type { DownKind, SuperObjects, SyncedKind, UpKind } from '../kinds/contract.ts';
import { namespaceKind } from '../kinds/namespaces.ts';
import { type PayloadSummary, payloadSummary, withSummary } from '../kinds/payload.ts';
import { isReferenced } from '../kinds/references.ts';
import { allKinds } from '../kinds/registry.ts';
import { isOurs, originalUid } from '../mapping/labels.ts';
import { superNamespaceName } from '../mapping/names.ts';
import { BoundedMap } from './bounded-map.ts';
import { byTenantIndex, type Caches } from './caches.ts';
import { ContestedWrites } from './contested-writes.ts';
import { EventRecorder } from './event-recorder.ts';
import { Expectations } from './expectations.ts';
import { type DefinitionGuard, IdentityGuard, MassDeletionGuard, type Unmatched } from './guards.ts';
import { downKeyOf, keyId, tenantKeyOf } from './keys.ts';
import { OwnPolicyWrites } from './own-policy-writes.ts';

interface Written {
  readonly uid: string | undefined;
  readonly resourceVersion: string | undefined;
  readonly summary: PayloadSummary;
}

/**
 * What we have written into the copies of one tenant, until the cache shows them: the watch has their metadata alone. One
 * that is forgotten is read once more.
 */
class WrittenPayloads {
  /** By key id. */
  readonly #written = new BoundedMap<Written>(5_000);

  /** `answer`: what the server has said that the copy is now. */
  add(id: string, answer: KubeObject, summary: PayloadSummary): void {
    const { uid, resourceVersion } = answer.metadata;
    this.#written.set(id, { uid, resourceVersion, summary });
  }

  /** Has a copy, as the cache shows it, carry the summary of what we have written, if it is that. */
  recognize(id: string, superObject: KubeObject): void {
    const written = this.#written.get(id);
    if (written === undefined) return;
    const { uid, resourceVersion } = superObject.metadata;
    if (uid !== written.uid || resourceVersion !== written.resourceVersion) return;
    withSummary(superObject, written.summary, 'written');
    this.#written.delete(id);
  }
}

/** In memory, of super objects that are gone: of a pod some 10 KiB are kept until the tenant object has its last status. */
const maxTombstoneBytes = 64 * 1024 * 1024;

/** Keys that wait until another one is in agreement. */
export class Dependents {
  /** By the id of the key they wait for; no map in here is empty. */
  readonly #waiters = new Map<string, Map<string, KeyRef>>();
  #waiting = 0;

  /** How many keys are waited for. */
  get size(): number {
    return this.#waiters.size;
  }

  /** How many keys wait, once for each that they wait for. */
  get waiting(): number {
    return this.#waiting;
  }

  add(dependency: KeyRef, waiter: KeyRef): void {
    const id = keyId(dependency);
    let waiters = this.#waiters.get(id);
    if (waiters === undefined) {
      waiters = new Map();
      this.#waiters.set(id, waiters);
    }
    const before = waiters.size;
    waiters.set(keyId(waiter), waiter);
    this.#waiting += waiters.size - before;
  }

  has(dependency: KeyRef): boolean {
    return this.#waiters.size > 0 && this.#waiters.has(keyId(dependency));
  }

  /** The keys that waited for this one; they wait no longer. */
  take(dependency: KeyRef): KeyRef[] {
    const id = keyId(dependency);
    const waiters = this.#waiters.get(id);
    this.#waiters.delete(id);
    if (waiters === undefined) return [];
    this.#waiting -= waiters.size;
    return [...waiters.values()];
  }

  /** For a caller that looks at every key next: what still has to wait registers again. */
  clear(): void {
    this.#waiters.clear();
    this.#waiting = 0;
  }
}

/** The status of a key is written at most once in this time. */
const statusIntervalMs = 10_000;
const maxStatusKeys = 5_000;

/**
 * Limits how often the status of a tenant object says why it has no super object. What the tenant's server shows does not
 * count: it may hide or drop what was written. Bounded: while `maxStatusKeys` were written within the interval, others
 * wait.
 */
export class StatusRateLimiter {
  /** When each key was written, oldest first; by key id. */
  readonly #written = new Map<string, number>();
  readonly #nowMs: () => number;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** Call it before the status is written. 0: write it; else not before so many ms. */
  take(id: string): number {
    const nowMs = this.#nowMs();
    for (const [key, atMs] of this.#written) {
      // A clock that was set back must not make it wait.
      if (nowMs >= atMs && nowMs - atMs < statusIntervalMs) break;
      this.#written.delete(key);
    }
    const atMs = this.#written.get(id);
    if (atMs !== undefined) return Math.min(statusIntervalMs, atMs + statusIntervalMs - nowMs);
    // Not when the next one may be written: all that wait would come for that.
    if (this.#written.size >= maxStatusKeys) return statusIntervalMs;
    this.#written.set(id, nowMs);
    return 0;
  }
}

/** How many looks a tenant has at once, and how many more with each second. */
const liveCheckBurst = 1_000;
const liveChecksPerSecond = 50;

/**
 * How often the super cluster is asked live for what an object of a tenant says it is a copy of: the tenant can write such
 * objects at will.
 */
export class LiveCheckBudget {
  readonly #nowMs: () => number;
  #left = liveCheckBurst;
  #atMs: number;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
    this.#atMs = nowMs();
  }

  /** Takes one look; false: there is none left at the moment. */
  take(): boolean {
    const nowMs = this.#nowMs();
    // Clocks may be set back.
    const passedMs = Math.max(0, nowMs - this.#atMs);
    this.#left = Math.min(liveCheckBurst, this.#left + (passedMs * liveChecksPerSecond) / 1_000);
    this.#atMs = nowMs;
    if (this.#left < 1) return false;
    this.#left -= 1;
    return true;
  }
}

/** A watched DELETED event: which object went, and what is kept of its last state (`lastState`). */
export interface Tombstone {
  readonly uid: string;
  readonly object: KubeObject;
}

interface TenantStateOptions {
  info: TenantInfo;
  client: KubeClient;
  caches: Caches;
  superCaches: Caches;
  /** UID of the tenant's kube-system, from VirtualCluster status. */
  identity: string | undefined;
  /** The same of the super cluster that the tenant was made on; `undefined`: any. */
  superIdentity?: string | undefined;
  nowMs: () => number;
}

/** A kind that comes and goes while the tenant is served, and the definition that its objects live by. */
export interface CustomKind {
  readonly kind: DownKind;
  readonly definition: DefinitionGuard;
}

/** What the engine holds for one tenant while it is served. */
export class TenantState {
  readonly client: KubeClient;
  readonly caches: Caches;
  readonly superCaches: Caches;
  readonly identity: IdentityGuard;
  /** Of super objects whose tenant object is missing. */
  readonly superDeletions: MassDeletionGuard;
  /** Of tenant objects whose super object is missing. */
  readonly tenantDeletions: MassDeletionGuard;
  /** Watched deletions on either side that have not been carried over yet, by key id. */
  readonly tombstones = {
    tenant: new BoundedMap<Tombstone>(20_000),
    super: new BoundedMap<Tombstone>(20_000, {
      bytesOf: ({ object }) => estimateBytes(object),
      maxBytes: maxTombstoneBytes,
    }),
  };
  /** Summaries of payloads of tenant objects that have been read whole, by what the cache shows of the object. */
  readonly payloads = new WeakMap<KubeObject, PayloadSummary>();
  readonly writtenPayloads = new WrittenPayloads();
  /** Why the last try of a key failed that has not succeeded since, by key id. */
  readonly failures = new BoundedMap<{ readonly isRefused: boolean; readonly message: string }>(2_000);
  readonly dependents = new Dependents();
  readonly ownPolicyWrites: OwnPolicyWrites;
  readonly contested: ContestedWrites;
  readonly statusRateLimiter: StatusRateLimiter;
  readonly recorder: EventRecorder;
  readonly liveChecks: LiveCheckBudget;
  readonly expectations: Readonly<Record<'tenant' | 'super', Expectations>>;
  /** Set while all deletes are stopped (sync rule `side-identity`): why. */
  frozen: string | undefined;
  /** Ids of keys held back by `frozen` or a deletion guard, which a resync need not queue; when it opens, all keys are. */
  readonly held = new BoundedMap<true>(10_000);
  /** Kinds that are synced for this tenant beside those of all tenants, by name. */
  readonly customKinds = new Map<string, CustomKind>();

  #info: TenantInfo;
  #superIdentity: string | undefined;
  readonly #nowMs: () => number;

  readonly #customKind = (group: string, name: string): DownKind | undefined => {
    for (const { kind } of this.customKinds.values()) {
      if (kind.resource.group === group && kind.resource.kind === name) return kind;
    }
    return undefined;
  };

  constructor(options: TenantStateOptions) {
    const { superCaches, nowMs } = options;
    this.#info = options.info;
    this.client = options.client;
    this.caches = options.caches;
    this.superCaches = superCaches;
    this.#superIdentity = options.superIdentity;
    this.#nowMs = nowMs;
    this.expectations = { tenant: new Expectations(nowMs), super: new Expectations(nowMs) };
    this.contested = new ContestedWrites(nowMs);
    this.statusRateLimiter = new StatusRateLimiter(nowMs);
    this.ownPolicyWrites = new OwnPolicyWrites(nowMs);
    this.recorder = new EventRecorder(options.client, nowMs);
    this.liveChecks = new LiveCheckBudget(nowMs);
    this.identity = new IdentityGuard(options.client, options.identity);
    this.superDeletions = new MassDeletionGuard(
      options.info,
      () => unmatchedSuperObjects(this, superCaches),
      nowMs,
    );
    this.tenantDeletions = new MassDeletionGuard(
      options.info,
      () => unmatchedTenantObjects(this, superCaches),
      nowMs,
    );
  }

  get info(): TenantInfo {
    return this.#info;
  }

  /** `namespace/name` of the VirtualCluster: what metrics and logs call this tenant. */
  get label(): string {
    return `${this.#info.namespace}/${this.#info.name}`;
  }

  /** UID of the kube-system of the super cluster that this tenant belongs to. */
  get superIdentity(): string | undefined {
    return this.#superIdentity;
  }

  /** Whether the super cluster with this identity is the one that the tenant was made on, as far as both are known. */
  belongsTo(superIdentity: string | undefined): boolean {
    return (
      this.#superIdentity === undefined ||
      superIdentity === undefined ||
      this.#superIdentity === superIdentity
    );
  }

  /** The operator says that the tenant belongs to this super cluster from now on. */
  acceptSuperIdentity(identity: string): void {
    this.#superIdentity = identity;
  }

  /** Settings of a VirtualCluster may change while it is served; its names may not. */
  updateInfo(info: TenantInfo): void {
    if (info.uid !== this.#info.uid || info.id !== this.#info.id) {
      throw new Error(`tenant ${info.namespace}/${info.name} changed its identity; it has to join anew`);
    }
    this.#info = info;
  }

  context(): SyncContext {
    const context: SyncContext = {
      tenant: this.#info,
      tenantObjects: this.caches,
      superObjects: this.superCaches,
      customKind: this.#customKind,
      isReferenced: (to) => isReferenced(allKinds, to, context),
      dataKeysOf: (resource, ref) => this.#dataKeysOf(resource, ref),
      changingPolicies: this.ownPolicyWrites,
      nowMs: this.#nowMs(),
    };
    return context;
  }

  /** Of what was last read of the tenant object; else of the super object, which right after a start is all there is. */
  #dataKeysOf(resource: Resource, ref: ObjectRef): readonly string[] {
    const own = this.caches.get(resource, ref);
    const known = own && this.payloads.get(own);
    if (own === undefined || known !== undefined) return known?.keys ?? [];
    for (const kind of allKinds) {
      if (kind.resource !== resource || kind.direction !== 'down' || kind.payload === undefined) continue;
      const superRef = this.superRef(kind, { kind: kind.name, ...ref });
      const there = superRef && this.superCaches.of(kind).get(superRef);
      if (there !== undefined && isOurs(there, this.#info)) return payloadSummary(there, kind.payload).keys;
    }
    return [];
  }

  superNamespace(tenantNamespace: string): string {
    return superNamespaceName(this.#info, tenantNamespace);
  }

  /** Where the super object of a key is; `undefined`: it has no place there now. */
  superRef(kind: SyncedKind, key: KeyRef): ObjectRef | undefined {
    if (kind.direction === 'up') return kind.superRef(key, this.context());
    return this.superRefOf(kind, key);
  }

  /** Where an object is that is made from the tenant object of a key. */
  superRefOf(objects: SuperObjects, { namespace, name: tenantName }: KeyRef): ObjectRef {
    const name = objects.superName?.(tenantName, this.#info) ?? tenantName;
    return namespace === undefined ? { name } : { namespace: this.superNamespace(namespace), name };
  }

  /**
   * Whether the super namespace that stands for a namespace is there: nothing is created in it before it carries this
   * tenant's mark and the tenant object's UID (sync rule `namespace-names`). `unwanted`: there never will be one.
   */
  namespaceReady(namespace: string | undefined): boolean | 'unwanted' {
    // Of a server that is none of Kubernetes: such an object has no place in the super cluster.
    if (namespace === undefined) return 'unwanted';
    const own = this.caches.get(resources.namespaces, { name: namespace });
    if (own === undefined) return false;
    if (namespaceKind.admit?.(own, this.context()).wanted === false) return 'unwanted';
    const there = this.superCaches.get(resources.namespaces, { name: this.superNamespace(namespace) });
    if (there === undefined) {
      const id = keyId({ kind: namespaceKind.name, name: namespace });
      return own.metadata.uid !== undefined && this.expectations.super.createdFor(id) === own.metadata.uid;
    }
    return (
      there.metadata.deletionTimestamp === undefined &&
      isOurs(there, this.#info) &&
      originalUid(there) === own.metadata.uid
    );
  }

  /**
   * Ends a custom kind for this tenant, and forgets all that was seen and done of its objects: what it finds when
   * it is taken up again is all it knows.
   */
  removeKind(name: string): void {
    this.customKinds.delete(name);
    const ofKind = (id: string): boolean => id.startsWith(`${name}/`);
    for (const memory of [this.tombstones.tenant, this.tombstones.super, this.held]) memory.deleteAll(ofKind);
    for (const memory of [this.expectations.tenant, this.expectations.super]) memory.forgetAll(ofKind);
    this.superDeletions.invalidate();
  }

  /** Forgets what only saves work and has outlived its use. */
  prune(): void {
    this.expectations.tenant.prune();
    this.expectations.super.prune();
    this.ownPolicyWrites.prune((ref) => this.superCaches.get(resources.pods, ref));
  }
}

/**
 * Super objects that have lost their tenant object. Those whose deletion was watched do not count, nor do
 * those of a namespace that is itself gone: that is one deletion, checked live on its own.
 */
export function unmatchedSuperObjects(tenant: TenantState, superCaches: Caches): Unmatched {
  const uids: string[] = [];
  let total = 0;
  for (const kind of kindsOf(tenant)) {
    // A second copy is not counted again: it goes with the first one's tenant object.
    if (kind.direction !== 'down' || kind.isSecondCopy === true) continue;
    for (const object of superCaches.byIndex(kind.resource, byTenantIndex, tenant.info.uid)) {
      if (object.metadata.deletionTimestamp !== undefined) continue;
      const key = downKeyOf(kind, object);
      if (key === undefined) continue;
      total += 1;
      const own = tenant.caches.get(kind.resource, key);
      if (own !== undefined) {
        if (kind.unwantedIsMissing === true && isToGo(kind, own, tenant.context()))
          uids.push(object.metadata.uid ?? '');
        continue;
      }
      if (tenant.tombstones.tenant.get(keyId(key))?.uid === originalUid(object)) continue;
      const namespace = object.metadata.labels?.[labelKeys.namespace];
      const namespaceIsThere =
        key.namespace === undefined ||
        (namespace !== undefined &&
          tenant.caches.get(resources.namespaces, { name: namespace }) !== undefined);
      if (namespaceIsThere) uids.push(object.metadata.uid ?? '');
    }
  }
  return { uids, total };
}

/**
 * Tenant objects that would be given up because the super object that they had, or that they are a copy of,
 * is gone. Those whose super object was seen going do not count, nor do those that the tenant deletes itself.
 */
function unmatchedTenantObjects(tenant: TenantState, superCaches: Caches): Unmatched {
  const context = tenant.context();
  const uids: string[] = [];
  let total = 0;
  for (const kind of allKinds) {
    if (kind.direction === 'down' && kind.superGone === undefined) continue;
    for (const object of tenant.caches.store(kind.resource).list()) {
      const key = tenantKeyOf(kind, object);
      const ref = tenant.superRef(kind, key);
      const superObject = ref === undefined ? undefined : superCaches.get(kind.resource, ref);
      if (
        kind.direction === 'up'
          ? originalUid(object) === undefined
          : superObject && !isOurs(superObject, context.tenant)
      ) {
        continue;
      }
      if (superObject !== undefined) total += 1;
      else if (isLost(tenant, kind, object, keyId(key), context)) {
        total += 1;
        uids.push(object.metadata.uid ?? '');
      }
    }
  }
  return { uids, total };
}

/** Whether the super object of this tenant object would be deleted, because it should not be there. */
function isToGo(kind: DownKind, own: KubeObject, context: SyncContext): boolean {
  const { wanted = true, keep = false } = kind.admit?.(own, context) ?? {};
  return !wanted && !keep;
}

function kindsOf(tenant: TenantState): readonly SyncedKind[] {
  return [...allKinds, ...[...tenant.customKinds.values()].map(({ kind }) => kind)];
}

function isLost(
  tenant: TenantState,
  kind: DownKind | UpKind,
  object: KubeObject,
  id: string,
  context: SyncContext,
): boolean {
  const { uid, deletionTimestamp } = object.metadata;
  if (deletionTimestamp !== undefined) return false;
  const tombstone = tenant.tombstones.super.get(id);
  if (kind.direction === 'up') {
    if (tombstone !== undefined && tombstone.uid === originalUid(object)) return false;
    return kind.superGone === undefined || kind.superGone(object, context).length > 0;
  }
  if (tombstone !== undefined && originalUid(tombstone.object) === uid) return false;
  if (tenant.expectations.super.createdUid(id) !== undefined) return false;
  return (kind.superGone?.(object, context) ?? []).length > 0;
}
