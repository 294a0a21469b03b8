import { type KubeObject, resources } from '../../../kube/index.ts';
import { shownNodeName } from '../../mapping/index.ts';
import type { KeyRef } from '../action.ts';
import type { SyncContext } from '../context.ts';
import type { DownKind } from '../kind.ts';
import { tokenAsks } from '../pod-tokens.ts';
import { admitPod } from './admission.ts';
import { podGone } from './deletion.ts';
import { podDown } from './down.ts';
import { addressesOf, superIndexes, tenantIndexes } from './indexes.ts';
import { dependsOnPairAlone } from './pair.ts';
import { references } from './references.ts';
import { referredTo } from './referred-to.ts';
import { toSuperPod } from './translate.ts';
import type { Pod } from './types.ts';
import { podUp } from './up.ts';

export { references } from './references.ts';
export { isUsedByPods } from './users.ts';

/** Pods of a tenant, scheduled and run by the super cluster (sync rules 5 to 21). */
export const podKind: DownKind = {
  name: 'pods',
  direction: 'down',
  resource: resources.pods,
  indexes: { tenant: tenantIndexes, super: superIndexes },
  compact: { super: withoutUnread },
  touches: { membershipOnly: true, tenant: touched, super: touchedFromSuper },
  admit: admitPod,
  requires: referredTo,
  toSuper: toSuperPod,
  down: podDown,
  up: podUp,
  dependsOnPairAlone,
  superGone: (tenantObject, context, last) => podGone(tenantObject, context, last),
  // Somebody saw it go before S did: it was taken away by force. Without witnesses S keeps its grace.
  deleteSuper: (_superObject, last) => (last === undefined ? {} : { gracePeriodSeconds: 0 }),
};

/** ConfigMaps and Secrets go down because pods use them; nodes come up, and tokens are issued, for the same reason. */
function touched(pod: Pod, context: SyncContext): readonly KeyRef[] {
  const keys = references(pod).filter(({ kind }) => kind === 'configmaps' || kind === 'secrets');
  return [...tokensOf(pod), ...keys, ...nodeOf(pod.spec?.nodeName, context)];
}

/** A token says on which node its pod runs: before that is known, none is asked for. */
function tokensOf({ metadata, spec }: Pod): readonly KeyRef[] {
  if ((spec?.nodeName ?? '') === '' || tokenAsks(spec).length === 0) return [];
  return [{ kind: 'tokens', namespace: metadata.namespace, name: metadata.name ?? '' }];
}

function touchedFromSuper(superPod: Pod, context: SyncContext): readonly KeyRef[] {
  const node = superPod.spec?.nodeName ?? '';
  const shown = node === '' ? '' : shownNodeName(context.tenant, node);
  return [...nodeOf(shown, context), ...slicesWith(superPod, context)];
}

/** The node of a pod, where nodes are there for their pods. */
function nodeOf(name = '', { tenant }: SyncContext): readonly KeyRef[] {
  const forPods = tenant.nodes === 'used' || Object.keys(tenant.nodeSelector).length > 0;
  return forPods && name !== '' ? [{ kind: 'nodes', name }] : [];
}

/** Slices that name an address may do so while one of the tenant's own pods has it, by what S says. */
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
