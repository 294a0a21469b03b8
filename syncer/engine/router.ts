import { type KubeObject, resources, type StoreEvent } from '../../kube/index.ts';
import type { KeyRef, SyncedKind } from '../kinds/index.ts';
import { tenantNamespaceOf, tenantUidOf } from '../mapping/index.ts';
import type { BoundedMap } from './bounded-map.ts';
import { byTenantIndex, type Caches } from './caches.ts';
import { keyId } from './key.ts';
import { downKeyOf, tenantKeyOf, upKeyOf } from './locate.ts';
import type { TenantState, Tombstone } from './tenant-state.ts';

export type Priority = 'live' | 'background';

export interface RouterOptions {
  kinds: readonly SyncedKind[];
  superCaches: Caches;
  /** `version`: resourceVersion of the tenant object whose change is the reason. */
  enqueue: (tenant: TenantState, key: KeyRef, priority: Priority, version?: string) => void;
}

/** Turns events of either side into keys, and keeps the marks of watched deletions. */
export class Router {
  readonly #options: RouterOptions;
  /** Tenants that are served, by UID of their VirtualCluster. */
  readonly #tenants = new Map<string, TenantState>();

  constructor(options: RouterOptions) {
    this.#options = options;
    for (const kind of options.kinds) {
      options.superCaches.store(kind.resource).subscribe((event) => this.#superEvent(kind, event));
    }
  }

  /** Routes this tenant's events from now on, and queues everything that either side has. */
  join(tenant: TenantState): void {
    this.#tenants.set(tenant.info.uid, tenant);
    for (const kind of this.#options.kinds) {
      const watched = kind.direction === 'down' || kind.watchTenant;
      if (watched)
        tenant.caches.store(kind.resource).subscribe((event) => this.#tenantEvent(tenant, kind, event));
    }
    this.queueAll(tenant);
  }

  leave(uid: string): void {
    this.#tenants.delete(uid);
  }

  tenant(uid: string): TenantState | undefined {
    return this.#tenants.get(uid);
  }

  tenants(): IterableIterator<TenantState> {
    return this.#tenants.values();
  }

  queueAll(tenant: TenantState): void {
    for (const key of this.keysOf(tenant)) this.#options.enqueue(tenant, key, 'background');
  }

  /** Every key of a tenant that either side has an object for, once. */
  *keysOf(tenant: TenantState): Generator<KeyRef> {
    for (const kind of this.#options.kinds) {
      const seen = new Set<string>();
      if (kind.direction === 'down' || kind.watchTenant) {
        for (const object of tenant.caches.store(kind.resource).list()) {
          const key = tenantKeyOf(kind, object);
          seen.add(keyId(key));
          yield key;
        }
      }
      const superObjects =
        kind.direction === 'down'
          ? this.#options.superCaches.byIndex(kind.resource, byTenantIndex, tenant.info.uid)
          : this.#options.superCaches.store(kind.resource).list();
      for (const object of superObjects) {
        const key = this.#superKey(tenant, kind, object);
        if (key !== undefined && !seen.has(keyId(key))) yield key;
      }
    }
  }

  #tenantEvent(tenant: TenantState, kind: SyncedKind, event: StoreEvent<KubeObject>): void {
    if (this.#tenants.get(tenant.info.uid) !== tenant) return;
    const { object, type, watched } = event;
    const key = tenantKeyOf(kind, object);
    const id = keyId(key);
    if (type === 'deleted') {
      if (!watched) tenant.deletions.invalidate();
      else
        bury(
          tenant.tombstones.tenant,
          id,
          object,
          kind.direction === 'down' && kind.deleteSuper !== undefined,
        );
    } else if (kind.direction === 'up') {
      tenant.tombstones.tenant.delete(id);
    }
    if (kind.direction === 'up') tenant.memory.tenant.forgetCreated(id);
    const priority = watched && kind.patient !== true ? 'live' : 'background';
    this.#options.enqueue(tenant, key, priority, object.metadata.resourceVersion);
    this.#touch(tenant, kind, 'tenant', event, priority);
  }

  #superEvent(kind: SyncedKind, event: StoreEvent<KubeObject>): void {
    const { object, previous, type, watched } = event;
    const priority = watched && kind.patient !== true ? 'live' : 'background';
    for (const tenant of this.#concerned(kind, object)) {
      const key = this.#superKey(tenant, kind, object);
      if (key !== undefined) {
        const id = keyId(key);
        if (type !== 'deleted') tenant.tombstones.super.delete(id);
        else if (!watched) tenant.losses.invalidate();
        else bury(tenant.tombstones.super, id, object, kind.superGone !== undefined);
        if (kind.direction === 'down') tenant.memory.super.forgetCreated(id);
        this.#options.enqueue(tenant, key, priority);
      }
      this.#touch(tenant, kind, 'super', event, priority);
    }
    if (
      type === 'modified' &&
      previous !== undefined &&
      kind.direction === 'down' &&
      hasMoved(previous, object)
    ) {
      this.#remarked(kind, previous, priority);
    }
  }

  /** Somebody has changed the marks of a super object: whose it was before has to look at it as well. */
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
    const touches = kind.touches?.[side];
    if (touches === undefined) return;
    const context = tenant.context();
    const now = touches(event.object, context);
    const before = event.previous === undefined ? [] : touches(event.previous, context);
    if (event.type === 'modified' && kind.touches?.membershipOnly === true && sameKeys(now, before)) return;
    for (const key of now) this.#options.enqueue(tenant, key, priority);
    for (const key of before) this.#options.enqueue(tenant, key, priority);
  }

  /** The tenants that an object of the super cluster can matter to. */
  #concerned(kind: SyncedKind, object: KubeObject): Iterable<TenantState> {
    if (kind.direction === 'down' || kind.superScope === 'marked') return this.#one(tenantUidOf(object));
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

/** Only the last state that somebody will ask for is worth its memory. */
function bury(tombstones: BoundedMap<Tombstone>, id: string, object: KubeObject, whole: boolean): void {
  const { uid } = object.metadata;
  if (uid !== undefined) tombstones.set(id, { uid, object: whole ? object : { metadata: { uid } } });
}

function hasMoved(previous: KubeObject, object: KubeObject): boolean {
  return (
    tenantUidOf(previous) !== tenantUidOf(object) || tenantNamespaceOf(previous) !== tenantNamespaceOf(object)
  );
}

function sameKeys(a: readonly KeyRef[], b: readonly KeyRef[]): boolean {
  return (
    a.length === b.length &&
    a.every((key, index) => {
      const other = b[index];
      return other !== undefined && keyId(key) === keyId(other);
    })
  );
}
