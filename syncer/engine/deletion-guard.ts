import { marks, uidMark } from '../mapping/index.ts';
import { allKinds } from '../kinds/index.ts';
import { byTenantIndex, type Caches } from './caches.ts';
import { keyId } from './key.ts';
import { downKeyOf } from './locate.ts';
import type { TenantState } from './tenant-state.ts';
import { resources } from '../../kube/index.ts';

/** How many of a tenant's super objects have lost their tenant object without a watched deletion. */
export interface MissingObjects {
  readonly missing: number;
  readonly total: number;
}

/** An operator's question: may this many objects go? */
export interface Hold {
  readonly id: string;
  readonly missing: number;
  readonly total: number;
}

const minimumHeld = 20;
const heldFraction = 0.2;
const assessmentTtlMs = 500;

/**
 * Sync rule 0 C: a pass that would delete more than a fifth of a tenant's objects (and at least 20)
 * waits for the operator. Objects whose deletion was watched do not count, nor do those of a
 * namespace that is itself gone: that is one deletion, checked live on its own.
 */
export class DeletionGuard {
  readonly #tenant: TenantState;
  readonly #superCaches: Caches;
  readonly #nowMs: () => number;
  #assessed: { atMs: number; missing: MissingObjects } | undefined;
  #hold: Hold | undefined;
  #confirmed: string | undefined;

  constructor(tenant: TenantState, superCaches: Caches, nowMs: () => number) {
    this.#tenant = tenant;
    this.#superCaches = superCaches;
    this.#nowMs = nowMs;
  }

  get hold(): Hold | undefined {
    return this.#hold;
  }

  /** The operator agrees to the hold with this id; returns whether that is the present one. */
  confirm(id: string): boolean {
    this.#confirmed = id;
    return this.#hold?.id === id;
  }

  /** Whether a deletion that nobody watched may be carried over now. */
  allowsUnwatched(): boolean {
    const { missing, total } = this.#assess();
    if (missing < minimumHeld || missing <= total * heldFraction) {
      this.#hold = undefined;
      return true;
    }
    if (this.#hold === undefined) {
      this.#hold = { id: `${this.#tenant.info.id}-${missing}-of-${total}`, missing, total };
    }
    return this.#hold.id === this.#confirmed;
  }

  #assess(): MissingObjects {
    const nowMs = this.#nowMs();
    if (this.#assessed !== undefined && nowMs - this.#assessed.atMs < assessmentTtlMs) return this.#assessed.missing;
    const missing = this.#count();
    this.#assessed = { atMs: nowMs, missing };
    return missing;
  }

  #count(): MissingObjects {
    let missing = 0;
    let total = 0;
    for (const kind of allKinds) {
      if (kind.direction !== 'down') continue;
      for (const object of this.#superCaches.byIndex(kind.resource, byTenantIndex, this.#tenant.info.uid)) {
        if (object.metadata.deletionTimestamp !== undefined) continue;
        const key = downKeyOf(kind, object);
        if (key === undefined) continue;
        total += 1;
        if (this.#tenant.caches.get(kind.resource, key) !== undefined) continue;
        if (this.#tenant.tombstones.tenant.get(keyId(key))?.uid === uidMark(object)) continue;
        const namespace = object.metadata.labels?.[marks.namespace];
        const namespaceIsThere =
          key.namespace === undefined ||
          (namespace !== undefined && this.#tenant.caches.get(resources.namespaces, { name: namespace }) !== undefined);
        if (namespaceIsThere) missing += 1;
      }
    }
    return { missing, total };
  }
}
