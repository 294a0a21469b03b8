import type { KubeObject } from '../../../kube/index.ts';
import { tenantUidOf } from '../../mapping/index.ts';
import { references } from './references.ts';
import { isFinished, type Pod } from './types.ts';

/** Looked up in the tenant's cache. */
export const tenantIndexes = {
  /** `<kind>/<namespace>/<name>` of each object that the pod refers to. */
  byReference: (object: KubeObject) =>
    references(object as Pod).map(({ kind, namespace, name }) => `${kind}/${namespace}/${name}`),
  /** Name of the node that the pod is bound to. */
  byNode: ({ spec }: Pod) => (spec?.nodeName ? [spec.nodeName] : []),
};

/** Looked up in the super cluster's cache. */
export const superIndexes = {
  /** Addresses that the pod has now (see `addressesOf`). */
  byIP: (object: Pod) => addressesOf(object),
  /** `<UID of the VirtualCluster>/<node>` of a bound pod. */
  byTenantNode: (object: Pod) => {
    const tenant = tenantUidOf(object);
    const node = object.spec?.nodeName;
    return tenant === undefined || node === undefined || node === '' ? [] : [`${tenant}/${node}`];
  },
};

/**
 * Addresses that are the pod's own; those of its node, which a host-network pod shows, are not. A finished pod still
 * shows what it has given back: it may be another tenant's by now.
 */
export function addressesOf(pod: Pod): string[] {
  const { spec, status } = pod;
  if (spec?.hostNetwork === true || isFinished(pod)) return [];
  const all = new Set((status?.podIPs ?? []).map(({ ip }) => ip ?? ''));
  all.add(status?.podIP ?? '');
  all.delete('');
  return [...all];
}
