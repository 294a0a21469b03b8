import type { KubeObject } from '../../kube/index.ts';
import type { SyncedKind, TenantInfo } from '../kinds/index.ts';
import type { Situation } from './decide.ts';

interface Agreed {
  readonly tenantObject: KubeObject;
  readonly tenant: TenantInfo;
}

/**
 * Which two objects were found to agree. Objects in caches are replaced and never changed, so that two of them agree
 * for as long as both are there, where what is decided of them depends on nothing else (`dependsOnPairAlone`) and the
 * tenant's settings are the same. Goes with the super object, and with the first look after a change.
 */
export class AgreedPairs {
  readonly #pairs = new WeakMap<KubeObject, Agreed>();

  has({ tenantObject, superObject, context }: Situation): boolean {
    const agreed = superObject === undefined ? undefined : this.#pairs.get(superObject);
    if (superObject === undefined || agreed === undefined) return false;
    if (agreed.tenantObject === tenantObject && agreed.tenant === context.tenant) return true;
    // Or an object that is in no cache any more would be kept.
    this.#pairs.delete(superObject);
    return false;
  }

  /** To be told of a situation in which nothing at all is to be done. */
  add(kind: SyncedKind, { tenantObject, superObject, context }: Situation): void {
    if (tenantObject === undefined || superObject === undefined || kind.direction === 'up') return;
    if (kind.dependsOnPairAlone?.(tenantObject, superObject) !== true) return;
    this.#pairs.set(superObject, { tenantObject, tenant: context.tenant });
  }
}
