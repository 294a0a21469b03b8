import { type KubeObject, type Resource, resources } from '../../../kube/index.ts';
import type { DownKind, KeyRef, SyncContext } from '../kind.ts';
import { admitPod } from './admission.ts';
import { podGone } from './deletion.ts';
import { podDown } from './down.ts';
import { addressesOf, superIndexes, tenantIndexes } from './indexes.ts';
import { references } from './references.ts';
import { toSuperPod } from './translate.ts';
import type { Pod } from './types.ts';
import { podUp } from './up.ts';

export { references } from './references.ts';

/** Pods of a tenant, scheduled and run by the super cluster (sync rules 5 to 21). */
export const podKind: DownKind = {
  name: 'pods',
  direction: 'down',
  resource: resources.pods,
  indexes: { tenant: tenantIndexes, super: superIndexes },
  compact: { super: withoutUnread },
  touches: { membershipOnly: true, tenant: touched, super: slicesWith },
  admit: admitPod,
  requires,
  toSuper: toSuperPod,
  down: podDown,
  up: podUp,
  superGone: (tenantObject, context, last) => podGone(tenantObject, context, last),
  // Somebody saw it go before S did: it was taken away by force. Without witnesses S keeps its grace.
  deleteSuper: (_superObject, last) => (last === undefined ? {} : { gracePeriodSeconds: 0 }),
};

const referredKinds: Readonly<Record<string, Resource>> = {
  serviceaccounts: resources.serviceAccounts,
  configmaps: resources.configMaps,
  secrets: resources.secrets,
  persistentvolumeclaims: resources.persistentVolumeClaims,
};

/** What a pod refers to, as far as the tenant has it: a pod may wait for the rest, as on any cluster. */
function requires(pod: Pod, { tenantObjects }: SyncContext): readonly KeyRef[] {
  return references(pod).filter(({ kind, namespace, name }) => {
    const resource = referredKinds[kind];
    return resource !== undefined && tenantObjects.get(resource, { namespace, name }) !== undefined;
  });
}

/** ConfigMaps and Secrets go down because pods use them; nodes come up for the same reason. */
function touched(pod: Pod, context: SyncContext): readonly KeyRef[] {
  const keys = references(pod).filter(({ kind }) => kind === 'configmaps' || kind === 'secrets');
  const node = pod.spec?.nodeName ?? '';
  if (context.tenant.nodes === 'used' && node !== '') keys.push({ kind: 'nodes', name: node });
  return [...keys, ...slicesWith(pod, context)];
}

/** Slices that name an address may do so while it is one of the tenant's own pods, by what both sides say. */
function slicesWith(pod: Pod, { tenantObjects }: SyncContext): readonly KeyRef[] {
  return addressesOf(pod).flatMap((address) =>
    tenantObjects
      .byIndex(resources.endpointSlices, 'byAddress', address)
      .map(({ metadata: { namespace, name = '' } }) => ({ kind: 'endpointslices', namespace, name })),
  );
}

/** S's spec is compared in a few fields, and only containers and tolerations are ever written back. */
function withoutUnread(superObject: KubeObject): KubeObject {
  const { spec } = superObject as Pod;
  if (spec === undefined) return superObject;
  const { volumes: _volumes, dnsConfig: _dns, topologySpreadConstraints: _spread, ...read } = spec;
  return { ...superObject, spec: read };
}
