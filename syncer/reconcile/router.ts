import { annotationKeys } from '../../api/labels.ts';
import {
  applyMergePatch,
  type Clock,
  type KubeObject,
  resources,
  type Store,
  type StoreEvent,
  withoutUndefined,
} from '../../kube/index.ts';
import type { KeyRef } from '../context.ts';
import type { SyncedKind } from '../kinds/contract.ts';
import { neededBy, referrersOf } from '../kinds/references.ts';
import { tenantNamespaceOf, tenantUidOf } from '../mapping/labels.ts';
import type { Priority } from '../workqueue/options.ts';
import type { BoundedMap } from './bounded-map.ts';
import { BulkEnqueuer, type Change } from './bulk-enqueuer.ts';
import { bySuperNamespaceIndex, byTenantIndex, type Caches } from './caches.ts';
import type { SpecialController } from './controller.ts';
import { downKeyOf, keyId, tenantKeyOf, upKeyOf } from './keys.ts';
import type { TenantState, Tombstone } from './tenant-state.ts';

interface RouterOptions {
  kinds: readonly SyncedKind[];
  superCaches: Caches;
  controllers?: readonly SpecialController[];
  clock: Pick<Clock, 'monotonic' | 'sleep'>;
  /** `version`: resourceVersion of the tenant object whose change is the reason. */
  enqueue: (tenant: TenantState, key: KeyRef, priority: Priority, version?: string) => void;
  /** The same, ahead of all that the tenant has waiting. */
  enqueueFirst: (tenant: TenantState, key: KeyRef) => void;
  /** What a change matters to could not be found out: a defect. */
  onError: (tenant: TenantState, key: KeyRef, error: unknown) => void;
}

/** As many keys are queued at once for one event. */
const maxAtOnce = 100;
/** All keys of a tenant are queued for so long at a stretch, and then others have as long. */
const passSliceMs = 5;

/** Over all keys of a tenant. */
interface Pass {
  readonly keys: Iterator<KeyRef>;
  /** The last that was queued, or was to be. */
  last?: KeyRef;
}

/** Turns events of either side into keys, and keeps the marks of watched deletions. */
export class Router {
  readonly #options: RouterOptions;
  /** Tenants that are served, by UID of their VirtualCluster. */
  readonly #tenants = new Map<string, TenantState>();
  /** Those that are looked at first when a tenant joins come first. */
  readonly #inOrder: readonly SyncedKind[];
  /** Names of kinds of whose super objects policy may demand something at any time. */
  readonly #heldToPolicy: ReadonlySet<string>;
  /** Stores of custom kinds in the super cluster whose events are routed. */
  readonly #followed = new WeakSet<Store>();
  /** Those over all of a tenant that are not over. */
  readonly #passes = new Map<TenantState, Pass>();
  /** By side of the change: changes in the super cluster do not wait for those that the tenant makes. */
  readonly #enqueuers: Readonly<Record<'tenant' | 'super', BulkEnqueuer>>;

  constructor(options: RouterOptions) {
    this.#options = options;
    const { kinds, clock } = options;
    const enqueuer = (): BulkEnqueuer =>
      new BulkEnqueuer({
        clock,
        keysOf: (tenant, change) => this.#dependentKeys(tenant, change),
        enqueue: (tenant, key, change) => this.#enqueueTouched(tenant, key, change),
        isServed: (tenant) => this.#tenants.get(tenant.info.uid) === tenant,
        onError: (tenant, change, error) => this.#failed(tenant, change, error),
      });
    this.#enqueuers = { tenant: enqueuer(), super: enqueuer() };
    const isFirst = ({ joinsFirst }: SyncedKind): boolean => joinsFirst === true;
    this.#inOrder = [...kinds.filter(isFirst), ...kinds.filter((kind) => !isFirst(kind))];
    const heldToPolicy = kinds.filter((kind) => kind.direction === 'down' && kind.enforce !== undefined);
    this.#heldToPolicy = new Set(heldToPolicy.map(({ name }) => name));
    for (const kind of options.kinds) {
      options.superCaches.of(kind).subscribe((event) => this.#superEvent(kind, event));
    }
    const namespaces = options.superCaches.store(resources.namespaces);
    namespaces.subscribe((event) => this.#superNamespaceEvent(event));
  }

  /** Routes this tenant's events from now on, and queues everything that either side has. */
  join(tenant: TenantState): void {
    this.#tenants.set(tenant.info.uid, tenant);
    for (const kind of this.#options.kinds) {
      tenant.caches.of(kind).subscribe((event) => this.#tenantEvent(tenant, kind, event));
    }
    for (const controller of this.#options.controllers ?? []) controller.join?.(tenant);
    this.enqueueAll(tenant);
  }

  /** Routes the events of a custom kind that the tenant has taken up, and queues everything of it. */
  addKind(tenant: TenantState, kind: SyncedKind): void {
    const superStore = this.#options.superCaches.of(kind);
    if (!this.#followed.has(superStore)) {
      this.#followed.add(superStore);
      superStore.subscribe((event) => this.#superEvent(kind, event));
    }
    tenant.caches.of(kind).subscribe((event) => this.#tenantEvent(tenant, kind, event));
    this.enqueueKind(tenant, kind);
  }

  enqueueKind(tenant: TenantState, kind: SyncedKind): void {
    for (const key of this.#keysOfKind(tenant, kind)) this.#options.enqueue(tenant, key, 'background');
  }

  leave(uid: string): void {
    const tenant = this.#tenants.get(uid);
    if (tenant !== undefined) this.#passes.delete(tenant);
    this.#tenants.delete(uid);
  }

  tenant(uid: string): TenantState | undefined {
    return this.#tenants.get(uid);
  }

  tenants(): IterableIterator<TenantState> {
    return this.#tenants.values();
  }

  /** What takes longer than a moment goes on in slices of time. */
  enqueueAll(tenant: TenantState): void {
    const pass: Pass = { keys: this.keysOf(tenant) };
    if (this.#enqueueSome(tenant, pass)) {
      this.#passes.delete(tenant);
      return;
    }
    this.#passes.set(tenant, pass);
    this.#enqueueRest(tenant, pass).catch((error: unknown) => {
      if (this.#passes.get(tenant) === pass) this.#passes.delete(tenant);
      // It has failed there, or at what comes after it.
      this.#options.onError(tenant, pass.last as KeyRef, error);
    });
  }

  /** Until the tenant leaves or is to be looked at once more from the beginning. */
  async #enqueueRest(tenant: TenantState, pass: Pass): Promise<void> {
    const { clock } = this.#options;
    do {
      await clock.sleep(passSliceMs);
      if (this.#passes.get(tenant) !== pass || this.#tenants.get(tenant.info.uid) !== tenant) return;
    } while (!this.#enqueueSome(tenant, pass));
    this.#passes.delete(tenant);
  }

  /** Returns whether these were all. */
  #enqueueSome(tenant: TenantState, pass: Pass): boolean {
    const { clock, enqueue } = this.#options;
    const endMs = clock.monotonic() + passSliceMs;
    for (let next = pass.keys.next(); next.done !== true; next = pass.keys.next()) {
      pass.last = next.value;
      enqueue(tenant, next.value, 'background');
      if (clock.monotonic() >= endMs) return false;
    }
    return true;
  }

  /** Every key of a tenant that either side has an object for, once. */
  *keysOf(tenant: TenantState): Generator<KeyRef> {
    for (const kind of this.#inOrder) yield* this.#keysOfKind(tenant, kind);
    for (const { kind } of [...tenant.customKinds.values()]) {
      // It may have gone while others had their turn.
      if (this.#isServed(tenant, kind)) yield* this.#keysOfKind(tenant, kind);
    }
    for (const controller of this.#options.controllers ?? []) yield* controller.keysOf(tenant);
  }

  /** Of all that the tenant has in the super cluster and that policy may demand something of. */
  *keysHeldToPolicy(tenant: TenantState): Generator<KeyRef> {
    for (const kind of this.#options.kinds) {
      if (!this.#heldToPolicy.has(kind.name)) continue;
      for (const object of this.#superObjects(tenant, kind)) {
        if (isBound(object)) continue;
        const key = this.#superKey(tenant, kind, object);
        if (key !== undefined) yield key;
      }
    }
  }

  *#keysOfKind(tenant: TenantState, kind: SyncedKind): Generator<KeyRef> {
    const own = tenant.caches.of(kind);
    for (const object of own.list()) yield tenantKeyOf(kind, object);
    for (const object of this.#superObjects(tenant, kind)) {
      const key = this.#superKey(tenant, kind, object);
      if (key !== undefined && own.get(key) === undefined) yield key;
    }
  }

  /** Whether events of this kind matter to the tenant: it may have let go of one that comes and goes. */
  #isServed(tenant: TenantState, kind: SyncedKind): boolean {
    return this.#options.kinds.includes(kind) || tenant.customKinds.get(kind.name)?.kind === kind;
  }

  /** The super objects that can matter to a tenant. */
  *#superObjects(tenant: TenantState, kind: SyncedKind): Generator<KubeObject> {
    const { superCaches } = this.#options;
    if (kind.direction === 'down') yield* superCaches.of(kind).byIndex(byTenantIndex, tenant.info.uid);
    else if (kind.superNamespaceOf === undefined) yield* superCaches.of(kind).list();
    else {
      for (const { metadata } of superCaches.byIndex(resources.namespaces, byTenantIndex, tenant.info.uid))
        yield* superCaches.of(kind).byIndex(bySuperNamespaceIndex, metadata.name ?? '');
    }
  }

  #tenantEvent(tenant: TenantState, kind: SyncedKind, event: StoreEvent<KubeObject>): void {
    if (this.#tenants.get(tenant.info.uid) !== tenant || !this.#isServed(tenant, kind)) return;
    const { object, type, watched } = event;
    if (type !== 'deleted' && kind.direction === 'down' && kind.isSecondCopy === true) return;
    const key = tenantKeyOf(kind, object);
    const id = keyId(key);
    if (type === 'deleted') {
      if (!watched) tenant.superDeletions.invalidate();
      else recordTombstone(tenant.tombstones.tenant, id, object);
      tenant.contested.sourceDeleted(id, object.metadata.uid);
    } else if (kind.direction === 'up') {
      tenant.tombstones.tenant.delete(id);
    }
    if (kind.direction === 'up') tenant.expectations.tenant.forgetCreated(id);
    const priority = watched ? 'live' : 'background';
    this.#options.enqueue(tenant, key, priority, object.metadata.resourceVersion);
    this.#touch(tenant, kind, 'tenant', event, priority);
  }

  #superEvent(kind: SyncedKind, event: StoreEvent<KubeObject>): void {
    const { object, previous, type, watched } = event;
    if (type === 'modified' && previous !== undefined && kind.isHeartbeat?.(previous, object)) return;
    const priority = watched ? 'live' : 'background';
    for (const tenant of this.#concerned(kind, object)) {
      const key = this.#superKey(tenant, kind, object);
      if (key !== undefined) {
        const id = keyId(key);
        if (type !== 'deleted') tenant.tombstones.super.delete(id);
        else if (!watched) tenant.tenantDeletions.invalidate();
        else recordTombstone(tenant.tombstones.super, id, object, lastStateOf(kind, object));
        if (kind.direction === 'down') tenant.expectations.super.forgetCreated(id);
        this.#options.enqueue(tenant, key, priority);
      }
      this.#touch(tenant, kind, 'super', event, priority);
    }
    if (type !== 'modified' || previous === undefined || kind.direction !== 'down') return;
    if (hasMoved(previous, object)) this.#remarked(kind, previous, priority);
  }

  /** What happened in a super namespace may be seen before the namespace itself, and so before it is known whose. */
  #superNamespaceEvent({ type, object: superNamespace, previous }: StoreEvent<KubeObject>): void {
    if (type !== 'added' && (previous === undefined || !hasMoved(previous, superNamespace))) return;
    const [tenant] = this.#one(tenantUidOf(superNamespace));
    if (tenant === undefined) return;
    for (const kind of this.#options.kinds) {
      if (kind.direction !== 'up' || kind.superNamespaceOf === undefined) continue;
      const objects = this.#options.superCaches
        .of(kind)
        .byIndex(bySuperNamespaceIndex, superNamespace.metadata.name ?? '');
      for (const object of objects) {
        const key = this.#superKey(tenant, kind, object);
        if (key !== undefined) this.#options.enqueue(tenant, key, 'background');
      }
    }
  }

  /** The marks of a super object were changed: the tenant that it belonged to before has to look at it as well. */
  #remarked(kind: SyncedKind, previous: KubeObject, priority: Priority): void {
    for (const tenant of this.#concerned(kind, previous)) {
      const key = this.#superKey(tenant, kind, previous);
      if (key !== undefined) this.#options.enqueue(tenant, key, priority);
    }
  }

  #touch(
    tenant: TenantState,
    kind: SyncedKind,
    side: 'tenant' | 'super',
    event: StoreEvent<KubeObject>,
    priority: Priority,
  ): void {
    const { object, previous, type } = event;
    const needs = side === 'tenant' && kind.direction === 'down' && kind.references?.needed !== undefined;
    const reached = previous === undefined ? [object] : [object, previous];
    const states = kind.touches?.[side] === undefined && !needs ? [] : reached;
    const change: Change = { kind, side, object, states, priority };
    const { namespace = '', name } = object.metadata;
    const id = `${kind.name}/${namespace}/${name}`;
    const enqueuer = this.#enqueuers[side];
    if (enqueuer.isPending(tenant, id)) {
      enqueuer.add(tenant, id, change);
      return;
    }
    const referrers = this.#referrers(tenant, change);
    if (referrers.length > maxAtOnce) {
      enqueuer.add(tenant, id, change);
      return;
    }
    for (const key of referrers) this.#enqueueTouched(tenant, key, change);
    const [now = [], before = []] = states.map((state) => this.#touchedBy(tenant, change, state));
    if (type === 'modified' && kind.touches?.membershipOnly === true && sameKeys(now, before)) return;
    if (now.length + before.length > maxAtOnce) enqueuer.add(tenant, id, change);
    else for (const key of [...now, ...before]) this.#enqueueTouched(tenant, key, change);
  }

  /** Objects that refer to this one by its name, whatever its state. */
  #referrers(tenant: TenantState, { kind, side, object }: Change): readonly KeyRef[] {
    return side === 'tenant' ? referrersOf(this.#options.kinds, kind, object, tenant.caches) : [];
  }

  #touchedBy(tenant: TenantState, { kind, side }: Change, object: KubeObject): readonly KeyRef[] {
    const touched = kind.touches?.[side]?.(object, tenant.context()) ?? [];
    return side === 'tenant' ? [...touched, ...neededBy(kind, object)] : touched;
  }

  /** All keys to queue after a change. */
  *#dependentKeys(tenant: TenantState, change: Change): Generator<KeyRef> {
    const { states } = change;
    if (states === 'unknown') {
      yield* this.keysOf(tenant);
      return;
    }
    yield* this.#referrers(tenant, change);
    for (const state of states) yield* this.#touchedOrAll(tenant, change, state);
  }

  /** All keys, where it cannot be determined which. */
  #touchedOrAll(tenant: TenantState, change: Change, object: KubeObject): Iterable<KeyRef> {
    try {
      return this.#touchedBy(tenant, change, object);
    } catch (error) {
      this.#failed(tenant, change, error);
      return this.keysOf(tenant);
    }
  }

  #failed(tenant: TenantState, { kind, object }: Change, error: unknown): void {
    this.#options.onError(tenant, tenantKeyOf(kind, object), error);
  }

  #enqueueTouched(tenant: TenantState, key: KeyRef, { side, priority }: Change): void {
    if (side === 'super' && this.#heldToPolicy.has(key.kind)) this.#options.enqueueFirst(tenant, key);
    else this.#options.enqueue(tenant, key, priority);
  }

  /** The tenants that an object of the super cluster can matter to. */
  #concerned(kind: SyncedKind, object: KubeObject): Iterable<TenantState> {
    if (kind.direction === 'down') {
      return this.#one(tenantUidOf(object)).filter((tenant) => this.#isServed(tenant, kind));
    }
    if (kind.superNamespaceOf === undefined) return this.#tenants.values();
    const name = kind.superNamespaceOf(object);
    if (name === undefined) return [];
    const namespace = this.#options.superCaches.get(resources.namespaces, { name });
    return namespace === undefined ? [] : this.#one(tenantUidOf(namespace));
  }

  #one(uid: string | undefined): readonly TenantState[] {
    const tenant = uid === undefined ? undefined : this.#tenants.get(uid);
    return tenant === undefined ? [] : [tenant];
  }

  #superKey(tenant: TenantState, kind: SyncedKind, object: KubeObject): KeyRef | undefined {
    if (kind.direction === 'down') return downKeyOf(kind, object);
    return upKeyOf(kind, object, tenant.context());
  }
}

/** `kept`: of its last state; its UID alone unless given. */
export function recordTombstone(
  tombstones: BoundedMap<Tombstone>,
  id: string,
  { metadata: { uid } }: KubeObject,
  kept?: KubeObject,
): void {
  if (uid !== undefined) tombstones.set(id, { uid, object: kept ?? { metadata: { uid } } });
}

/** What `superGone` and the checks around it ask for of a super object that is gone. */
function lastStateOf(kind: SyncedKind, superObject: KubeObject): KubeObject | undefined {
  if (kind.superGone === undefined) return undefined;
  const { namespace, name, uid, deletionTimestamp, generation, annotations } = superObject.metadata;
  const mark = annotations?.[annotationKeys.uid];
  const marks = mark === undefined ? undefined : { [annotationKeys.uid]: mark };
  const metadata = { namespace, name, uid, deletionTimestamp, generation, annotations: marks };
  const kept: KubeObject = { metadata: withoutUndefined(metadata) };
  return kind.direction === 'down' && kind.lastState !== undefined
    ? (applyMergePatch(kept, kind.lastState(superObject)) as KubeObject)
    : kept;
}

/** Whether an object belongs to another tenant, or another namespace of it, than before. */
export function hasMoved(previous: KubeObject, object: KubeObject): boolean {
  return (
    tenantUidOf(previous) !== tenantUidOf(object) || tenantNamespaceOf(previous) !== tenantNamespaceOf(object)
  );
}

/** Whether the pod is bound to a node: a bound pod keeps running as it was admitted, whatever becomes of its policy. */
export function isBound(superObject: KubeObject): boolean {
  return (superObject['spec'] as { nodeName?: string } | undefined)?.nodeName !== undefined;
}

export function sameKeys(a: readonly KeyRef[], b: readonly KeyRef[]): boolean {
  return a.length === b.length && a.every((key, index) => keyId(key) === keyId(b[index] as KeyRef));
}
