import type { KubeClient, KubeObject, ObjectRef } from '../../kube/index.ts';
import type { KeyRef, SyncContext, SyncedKind, TenantInfo } from '../kinds/index.ts';
import { superNamespaceName } from '../mapping/index.ts';
import type { Caches } from './caches.ts';
import { DeletionGuard } from './deletion-guard.ts';
import { IdentityGuard } from './identity-guard.ts';
import { keyId } from './key.ts';
import { BoundedMap } from './bounded-map.ts';

/** An object that we created and that the cache may not show yet. */
interface Created {
  readonly uid: string;
  readonly atMs: number;
}

/** A watched DELETED event: which object went, in its last state. */
export interface Tombstone {
  readonly uid: string;
  readonly object: KubeObject;
}

/** What our own write made of an object. */
interface Expected {
  readonly resourceVersion: string;
  readonly atMs: number;
}

export interface TenantStateOptions {
  info: TenantInfo;
  client: KubeClient;
  caches: Caches;
  superCaches: Caches;
  /** UID of the tenant's kube-system, from VirtualCluster status. */
  identity: string | undefined;
  nowMs: () => number;
}

const createdTtlMs = 30_000;
/** A watch that is later than this has lost its place; the patrol looks after what it missed. */
const expectedTtlMs = 5_000;

/** What the engine holds for one tenant while it is served. */
export class TenantState {
  readonly client: KubeClient;
  readonly caches: Caches;
  readonly identity: IdentityGuard;
  readonly deletions: DeletionGuard;
  /** Watched deletions on either side that have not been carried over yet, by key id. */
  readonly tombstones = { tenant: new BoundedMap<Tombstone>(20_000), super: new BoundedMap<Tombstone>(20_000) };
  /** Last written state of objects that are not watched in the tenant (events), by key id. */
  readonly written = new BoundedMap<KubeObject>(5_000);
  /** Set while all deletes are stopped (sync rule 0 A): why. */
  frozen: string | undefined;
  /** Keys held back by `frozen` or the deletion guard; queued again when it opens. */
  readonly held = new Map<string, KeyRef>();

  #info: TenantInfo;
  readonly #superCaches: Caches;
  readonly #nowMs: () => number;
  readonly #created = { tenant: new Map<string, Created>(), super: new Map<string, Created>() };
  readonly #expected = { tenant: new Map<string, Expected>(), super: new Map<string, Expected>() };
  /** Keys that wait, by the id of the key they wait for. */
  readonly #waiters = new Map<string, Map<string, KeyRef>>();
  readonly #superNamespaces = new Map<string, string>();

  constructor(options: TenantStateOptions) {
    this.#info = options.info;
    this.client = options.client;
    this.caches = options.caches;
    this.#superCaches = options.superCaches;
    this.#nowMs = options.nowMs;
    this.identity = new IdentityGuard(options.client, options.identity);
    this.deletions = new DeletionGuard(this, options.superCaches, options.nowMs);
  }

  get info(): TenantInfo {
    return this.#info;
  }

  /** `namespace/name` of the VirtualCluster: what metrics and logs call this tenant. */
  get label(): string {
    return `${this.#info.namespace}/${this.#info.name}`;
  }

  /** Settings of a VirtualCluster may change while it is served; its names may not. */
  updateInfo(info: TenantInfo): void {
    if (info.uid !== this.#info.uid || info.id !== this.#info.id) {
      throw new Error(`tenant ${info.namespace}/${info.name} changed its identity; it has to join anew`);
    }
    this.#info = info;
  }

  context(): SyncContext {
    return {
      tenant: this.#info,
      tenantObjects: this.caches,
      superObjects: this.#superCaches,
      nowMs: this.#nowMs(),
    };
  }

  superNamespace(tenantNamespace: string): string {
    let name = this.#superNamespaces.get(tenantNamespace);
    if (name === undefined) {
      name = superNamespaceName(this.#info, tenantNamespace);
      this.#superNamespaces.set(tenantNamespace, name);
    }
    return name;
  }

  /** Where the super object of a key is; `undefined`: it has no place there now. */
  superRef(kind: SyncedKind, key: KeyRef): ObjectRef | undefined {
    if (kind.direction === 'up') return kind.superRef(key, this.context());
    if (kind.resource.plural === 'namespaces') return { name: this.superNamespace(key.name) };
    const name = kind.superName?.(key.name) ?? key.name;
    return key.namespace === undefined ? { name } : { namespace: this.superNamespace(key.namespace), name };
  }

  rememberCreated(side: 'tenant' | 'super', key: KeyRef, uid: string): void {
    this.#created[side].set(keyId(key), { uid, atMs: this.#nowMs() });
  }

  /** UID of an object that we created a moment ago, until the cache has shown it. */
  createdUid(side: 'tenant' | 'super', id: string): string | undefined {
    const created = this.#created[side].get(id);
    if (created === undefined) return undefined;
    if (this.#nowMs() - created.atMs < createdTtlMs) return created.uid;
    this.#created[side].delete(id);
    return undefined;
  }

  forgetCreated(side: 'tenant' | 'super', id: string): void {
    this.#created[side].delete(id);
  }

  /** Our own write made this version; until the cache shows it, deciding again would only repeat the write. */
  expectVersion(side: 'tenant' | 'super', key: KeyRef, resourceVersion: string): void {
    this.#expected[side].set(keyId(key), { resourceVersion, atMs: this.#nowMs() });
  }

  /** Whether the cache still shows an object as it was before our own last write. Its watch event is on the way. */
  isBehind(side: 'tenant' | 'super', id: string, object: KubeObject | undefined): boolean {
    const expected = this.#expected[side].get(id);
    if (expected === undefined) return false;
    const version = object?.metadata.resourceVersion;
    const behind =
      version !== undefined &&
      isOlder(version, expected.resourceVersion) &&
      this.#nowMs() - expected.atMs < expectedTtlMs;
    if (!behind) this.#expected[side].delete(id);
    return behind;
  }

  waitFor(dependency: KeyRef, waiter: KeyRef): void {
    const id = keyId(dependency);
    let waiters = this.#waiters.get(id);
    if (waiters === undefined) {
      waiters = new Map();
      this.#waiters.set(id, waiters);
    }
    waiters.set(keyId(waiter), waiter);
  }

  hasWaiters(dependency: KeyRef): boolean {
    return this.#waiters.has(keyId(dependency));
  }

  /** Takes the keys that waited for this one. */
  takeWaiters(dependency: KeyRef): KeyRef[] {
    const id = keyId(dependency);
    const waiters = this.#waiters.get(id);
    this.#waiters.delete(id);
    return waiters === undefined ? [] : [...waiters.values()];
  }
}

/** Versions are decimal numbers that grow; Kubernetes 1.35 made comparing them a promise. */
function isOlder(version: string, than: string): boolean {
  if (version.length !== than.length) return version.length < than.length;
  return version < than;
}
