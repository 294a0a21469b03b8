import { type KubeObject, resources, type StoreEvent } from '../../kube/index.ts';
import type { KeyRef, SyncedKind, UpKind } from '../kinds/index.ts';
import { tenantUidOf } from '../mapping/index.ts';
import { byTenantIndex, type Caches } from './caches.ts';
import { keyId } from './key.ts';
import { downKeyOf } from './locate.ts';
import type { TenantState } from './tenant-state.ts';

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
      if (watched) tenant.caches.store(kind.resource).subscribe((event) => this.#tenantEvent(tenant, kind, event));
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
          const key = tenantKey(kind, object);
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
    const key = tenantKey(kind, event.object);
    const id = keyId(key);
    const uid = event.object.metadata.uid;
    if (event.type === 'deleted') {
      if (event.watched && uid !== undefined) tenant.tombstones.tenant.set(id, { uid, object: event.object });
    } else if (kind.direction === 'up') {
      tenant.tombstones.tenant.delete(id);
    }
    if (kind.direction === 'up') tenant.forgetCreated('tenant', id);
    const priority = event.watched && kind.patient !== true ? 'live' : 'background';
    this.#options.enqueue(tenant, key, priority, event.object.metadata.resourceVersion);
    this.#touch(tenant, kind, 'tenant', event, priority);
  }

  #superEvent(kind: SyncedKind, event: StoreEvent<KubeObject>): void {
    for (const tenant of this.#concerned(kind, event.object)) {
      const key = this.#superKey(tenant, kind, event.object);
      const priority = event.watched && kind.patient !== true ? 'live' : 'background';
      if (key !== undefined) {
        const id = keyId(key);
        const uid = event.object.metadata.uid;
        if (event.type !== 'deleted') tenant.tombstones.super.delete(id);
        else if (event.watched && uid !== undefined) tenant.tombstones.super.set(id, { uid, object: event.object });
        if (kind.direction === 'down') tenant.forgetCreated('super', id);
        this.#options.enqueue(tenant, key, priority);
      }
      this.#touch(tenant, kind, 'super', event, priority);
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
    return upKey(tenant, kind, object);
  }
}

function upKey(tenant: TenantState, kind: UpKind, object: KubeObject): KeyRef | undefined {
  const place = kind.tenantRef(object, tenant.context());
  if (place !== undefined) {
    return place.namespace === undefined
      ? { kind: kind.name, name: place.name }
      : { kind: kind.name, namespace: place.namespace, name: place.name };
  }
  const { name } = object.metadata;
  return kind.resource.namespaced || name === undefined ? undefined : { kind: kind.name, name };
}

function tenantKey(kind: SyncedKind, object: KubeObject): KeyRef {
  const { namespace, name } = object.metadata;
  return namespace === undefined
    ? { kind: kind.name, name: name ?? '' }
    : { kind: kind.name, namespace, name: name ?? '' };
}

function sameKeys(a: readonly KeyRef[], b: readonly KeyRef[]): boolean {
  return a.length === b.length && a.every((key, index) => {
    const other = b[index];
    return other !== undefined && keyId(key) === keyId(other);
  });
}

