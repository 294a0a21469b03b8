import { annotationKeys } from '../../../api/labels.ts';
import { type KubeObject, type MergePatch, resources } from '../../../kube/index.ts';
import type { KeyRef, SyncContext } from '../../context.ts';
import { isOurs, originalUid, tenantNamespaceOf, tenantUidOf } from '../../mapping/labels.ts';
import { superMetadataPatch, transparentMetadataPatch } from '../../mapping/metadata.ts';
import { superNamespaceName } from '../../mapping/names.ts';
import { ownPolicyKeysOf } from '../../mapping/network-isolation.ts';
import { shownNodeName } from '../../mapping/node-names.ts';
import type { Action, DownKind } from '../contract.ts';
import { lateKeysOf, lateReferenceId, lateReferencesIndex, nameOfLate } from '../late-references.ts';
import { withKeys } from '../patches.ts';
import { warning } from '../validation.ts';
import { wellFormed } from '../well-formed.ts';
import { admitPod, isRefusedBySettings, isSuperPodRefused } from './admission.ts';
import { graceForSuper, graceForTenant, lastPodState, superPodGone } from './deletion.ts';
import { refusedImageChange } from './images.ts';
import { references, requiredObjects } from './references.ts';
import { resizeActions } from './resize.ts';
import {
  dependsOnlyOnPair,
  refusedPodStatus,
  statusDelayMs,
  statusPatch,
  superGateConditions,
} from './status.ts';
import { bindingLabels, ownPolicyLabels, podMetadataOptions, precondition, toSuperPod } from './translate.ts';
import { isDeleting, isFinished, type Pod } from './types.ts';
import { ephemeralActions, specPatch } from './updates.ts';
import { validatePod } from './validation.ts';

/** Looked up in the tenant's cache. */
const tenantIndexes = {
  /** Name of the node that the pod is bound to. */
  byNode: ({ spec }: Pod) => (spec?.nodeName ? [spec.nodeName] : []),
};

/** Looked up in the super cluster's cache. */
const superIndexes = {
  byNamespace: ({ metadata }: Pod) => [metadata.namespace ?? ''],
  [lateReferencesIndex]: lateReferencesOf,
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
function addressesOf(pod: Pod): string[] {
  const { spec, status } = pod;
  if (spec?.hostNetwork === true || isFinished(pod)) return [];
  const all = new Set((status?.podIPs ?? []).map(({ ip }) => ip ?? ''));
  all.add(status?.podIP ?? '');
  all.delete('');
  return [...all];
}

/**
 * Sync rules `pod-updates` and `readiness-gates`: what the tenant may change of a pod, and the state of its readiness
 * gates.
 */
function podDown(tenantPod: Pod, superPod: Pod, context: SyncContext): readonly Action[] {
  const options = podMetadataOptions(tenantPod, context, superPod);
  const metadata = superMetadataPatch(tenantPod, superPod, context, options);
  const update = isDeleting(tenantPod) ? undefined : specPatch(tenantPod, superPod, context.tenant.policy);
  const own = withoutPolicyLabels(metadata, superPod, options.labels);
  const patch: MergePatch = {
    ...update,
    ...withKeys(own, 'annotations', update?.metadata?.annotations ?? {}),
  };
  const actions: Action[] = [];
  if (isWithheld(tenantPod, superPod, options.labels, context))
    actions.push({ do: 'later', afterMs: withheldForMs });
  const refused = refusedImageChange(tenantPod, superPod, context.tenant.policy);
  if (refused !== undefined) actions.push({ do: 'notice', notice: warning('NotSupported', refused) });
  if (Object.keys(patch).length > 0) return [...actions, { do: 'patchSuper', patch }];
  const conditions = superGateConditions(tenantPod, superPod);
  if (conditions !== undefined)
    actions.push({ do: 'patchSuper', patch: { status: { conditions } }, subresource: 'status' });
  return actions;
}

/** A policy whose change failed shows nothing when it counts again. */
const withheldForMs = 90_000;

/** Whether the pod has no label of a policy only because that is being changed. */
function isWithheld(
  tenantPod: Pod,
  superPod: Pod,
  labels: Readonly<Record<string, string>> = {},
  context: SyncContext,
): boolean {
  if ((context.changingPolicies?.size ?? 0) === 0) return false;
  const { changingPolicies: _changing, ...unchanged } = context;
  const before = ownPolicyLabels(tenantPod, unchanged, superPod) ?? {};
  return Object.keys(before).some((key) => labels[key] === undefined);
}

/** Takes off the labels of policies that hold for the pod no longer. */
function withoutPolicyLabels(
  patch: MergePatch | undefined,
  { metadata }: Pod,
  wanted: Readonly<Record<string, string>> = {},
): MergePatch | undefined {
  const over = ownPolicyKeysOf(metadata.labels).filter((key) => wanted[key] === undefined);
  return withKeys(patch, 'labels', Object.fromEntries(over.map((key) => [key, null])));
}

/** Sync rules `pod-binding` to `pod-deletion`: binding, status and deletion, all that is needed in one go. */
function podUp(tenantPod: Pod, superPod: Pod, context: SyncContext): readonly Action[] {
  const actions: Action[] = [];
  const deleting = isDeleting(tenantPod);
  if (deleting) {
    const grace = graceForSuper(tenantPod, superPod, context.nowMs);
    if (grace !== undefined) actions.push({ do: 'deleteSuper', gracePeriodSeconds: grace });
  }
  const superNode = superPod.spec?.nodeName ?? '';
  const tenantNode = tenantPod.spec?.nodeName ?? '';
  if (superNode !== '' && tenantNode === '') {
    if (!deleting && !isDeleting(superPod))
      actions.push(...bind(shownNodeName(context.tenant, superNode), superPod, context));
  } else {
    const metadata = metadataPatch(tenantPod, superPod, context);
    if (metadata !== undefined) actions.push({ do: 'patchTenant', patch: metadata });
  }
  const status = statusPatch(tenantPod, superPod, context);
  if (status !== undefined) {
    const restMs = deleting ? 0 : statusDelayMs(superPod, context.nowMs);
    if (restMs > 0) actions.push({ do: 'later', afterMs: restMs });
    else actions.push({ do: 'patchTenant', patch: { status }, subresource: 'status' });
  }
  if (!deleting && isDeleting(superPod)) {
    actions.push({ do: 'deleteTenant', gracePeriodSeconds: graceForTenant(superPod, context.nowMs) });
  }
  if (!deleting && !isDeleting(superPod)) actions.push(...subresourceActions(tenantPod, superPod, context));
  return actions;
}

/**
 * What goes down by a subresource of its own (sync rule `pod-subresources`). It comes last: the super cluster may
 * refuse it for as long as it likes, and the tenant object's status must not wait for that. One at a time: each write
 * makes the super object another one.
 */
function subresourceActions(tenantPod: Pod, superPod: Pod, context: SyncContext): readonly Action[] {
  const ephemeral = ephemeralActions(tenantPod, superPod, context);
  return ephemeral.some((action) => action.do === 'patchSuper')
    ? ephemeral
    : [...ephemeral, ...resizeActions(tenantPod, superPod)];
}

function bind(node: string, superPod: Pod, context: SyncContext): Action[] {
  // The tenant's API server may not know its new node yet, and would leave them out.
  const labels = bindingLabels(superPod, context);
  const binding: Action = {
    do: 'bindTenant',
    node,
    annotations: { [annotationKeys.superUid]: superPod.metadata.uid ?? '' },
    ...(labels === undefined ? {} : { labels }),
  };
  if (context.tenantObjects.get(resources.nodes, { name: node }) !== undefined) return [binding];
  return [{ do: 'require', keys: [{ kind: 'nodes', name: node }] }, binding];
}

/** Transparent keys, and the mark of a bound pod, which is lost when a client replaces all annotations. */
function metadataPatch(tenantPod: Pod, superPod: Pod, context: SyncContext): MergePatch | undefined {
  const transparent = transparentMetadataPatch(tenantPod, superPod, context);
  const { uid } = superPod.metadata;
  const bound = (tenantPod.spec?.nodeName ?? '') !== '';
  if (!bound || uid === undefined || tenantPod.metadata.annotations?.[annotationKeys.superUid] === uid)
    return transparent;
  return withKeys(transparent, 'annotations', { [annotationKeys.superUid]: uid });
}

/** Pods of a tenant, scheduled and run by the super cluster (sync rules `pod-creation` to `pod-deletion`). */
export const podKind: DownKind = {
  name: 'pods',
  direction: 'down',
  joinsFirst: true,
  waitsForIsolation: true,
  resource: resources.pods,
  indexes: { tenant: tenantIndexes, super: superIndexes },
  references: { of: references, needed: ['configmaps', 'secrets'], needs: needsReferences },
  compact: { tenant: wellFormed({ spec: 'PodSpec', status: 'PodStatus' }), super: compactSuperPod },
  sharesParts: true,
  touches: { membershipOnly: true, tenant: touched, super: touchedFromSuper },
  admit: admitPod,
  enforce,
  requires: requiredObjects,
  toSuper: toSuperPod,
  validate: validatePod,
  precondition,
  refusedStatus: refusedPodStatus,
  down: podDown,
  up: podUp,
  dependsOnlyOnPair,
  superGone: (tenantObject, context, last) => superPodGone(tenantObject, context, last),
  lastState: lastPodState,
  hasGrace: true,
};

/**
 * Whether a pod is in the super cluster, or is to be. One that is refused there needs nothing there. A pod that
 * becomes admitted requires what it refers to, which asks again.
 */
function needsReferences(pod: Pod, context: SyncContext): boolean {
  const { namespace = '', name = '', uid } = pod.metadata;
  const ref = { namespace: superNamespaceName(context.tenant, namespace), name };
  const superPod = context.superObjects.get(resources.pods, ref);
  if (superPod !== undefined && originalUid(superPod) === uid) return true;
  return !isDeleting(pod) && !isFinished(pod) && admitPod(pod, context).wanted;
}

/** Nodes come up because pods run there. */
function touched({ spec }: Pod, context: SyncContext): readonly KeyRef[] {
  return nodeOf(spec?.nodeName, context);
}

function touchedFromSuper(superPod: Pod, context: SyncContext): readonly KeyRef[] {
  const node = superPod.spec?.nodeName ?? '';
  const shown = node === '' ? '' : shownNodeName(context.tenant, node);
  return [
    ...nodeOf(shown, context),
    ...slicesWith(superPod, context),
    ...lateKeysOf(superPod, lateReferencesOf(superPod)),
  ];
}

/** The node of a pod, where nodes are there for their pods. */
function nodeOf(name = '', { tenant }: SyncContext): readonly KeyRef[] {
  const forPods = tenant.nodes === 'used' || Object.keys(tenant.nodeSelector).length > 0;
  return forPods && name !== '' ? [{ kind: 'nodes', name }] : [];
}

/**
 * Slices of either side that name an address may do so while one of the tenant's own pods has it, by what the super
 * object says.
 */
function slicesWith(pod: Pod, { tenant, tenantObjects, superObjects }: SyncContext): readonly KeyRef[] {
  const keys = new Map<string, KeyRef>();
  const add = (namespace: string | undefined, name = ''): void =>
    void keys.set(`${namespace}/${name}`, { kind: 'endpointslices', namespace, name });
  for (const address of addressesOf(pod)) {
    for (const { metadata } of tenantObjects.byIndex(resources.endpointSlices, 'byAddress', address))
      add(metadata.namespace, metadata.name);
    for (const slice of superObjects.byIndex(resources.endpointSlices, 'byAddress', address))
      if (isOurs(slice, tenant)) add(tenantNamespaceOf(slice), slice.metadata.name);
  }
  return [...keys.values()];
}

/** One that is refused by policy goes, unless the super cluster has bound it: then it runs on as it was let in. */
function enforce(superPod: Pod, tenantPod: Pod | undefined, { tenant }: SyncContext): readonly Action[] {
  if ((superPod.spec?.nodeName ?? '') !== '') return [];
  const isRefused =
    tenantPod === undefined ? isSuperPodRefused(superPod, tenant) : isRefusedBySettings(tenantPod, tenant);
  return isRefused ? [{ do: 'deleteSuper' }] : [];
}

/** What is kept in the cache of the references that volumes hold. No part of the object, whose size as JSON is charged. */
const lateReferences = Symbol('late references');
const none: readonly string[] = [];

type Compact = Pod & { readonly [lateReferences]?: readonly string[] };

/** Of a super object in full or as the cache has it: ids of the ConfigMaps and Secrets that it refers to by late names. */
function lateReferencesOf(superPod: Pod): readonly string[] {
  const kept = (superPod as Compact)[lateReferences];
  if (kept !== undefined) return kept;
  const { namespace = '' } = superPod.metadata;
  const late = references(superPod).filter(({ name }) => nameOfLate(name) !== undefined);
  return late.length === 0 ? none : late.map(({ kind, name }) => lateReferenceId(kind, namespace, name));
}

/** The super object's spec is compared in a few fields, and only containers and tolerations are ever written back. */
function compactSuperPod(superObject: KubeObject): KubeObject {
  const { spec } = superObject as Pod;
  if (spec === undefined) return superObject;
  const late = lateReferencesOf(superObject);
  const { volumes: _volumes, dnsConfig: _dns, topologySpreadConstraints: _spread, ...read } = spec;
  return { ...superObject, spec: read, [lateReferences]: late } as KubeObject;
}
