import { deepEqual } from 'fast-equals';
import { labelKeys } from '../../api/labels.ts';
import {
  type KubeObject,
  type MergePatch,
  mergePatch,
  resources,
  withoutUndefined,
} from '../../kube/index.ts';
import type { KeyRef, SyncContext, TenantInfo } from '../context.ts';
import { superMetadata, superMetadataPatch } from '../mapping/metadata.ts';
import { superNamespaceName } from '../mapping/names.ts';
import { superNamespaceSelector } from '../mapping/namespace-labels.ts';
import {
  type EgressRule,
  isMirroredPodLabel,
  type LabelSelector,
  matchesSelector,
  maxSelectorTerms,
  type NetworkPolicySpec,
  openEgress,
  type Peer,
  policyTypesOf,
  selectorTerms,
  superPodSelector,
} from '../mapping/network-isolation.ts';
import type { Action, Admission, DownKind, Notice } from './contract.ts';
import { hasMoreEntries, knownPart, maxEntries, type Shape, unknownFields } from './known-fields.ts';
import { metadataUp, unlessEmpty } from './patches.ts';
import { isReserved, reservedNameOf, reservedNotice, superNameOfReserved } from './reserved-names.ts';
import { refusedButKept, warning } from './validation.ts';

interface NetworkPolicy extends KubeObject {
  spec?: NetworkPolicySpec;
}

const selector: Shape = {
  matchLabels: true,
  matchExpressions: [{ key: true, operator: true, values: true }],
};
const peers: Shape = [
  { podSelector: selector, namespaceSelector: selector, ipBlock: { cidr: true, except: true } },
];
const ports: Shape = [{ protocol: true, port: true, endPort: true }];

const specShape: Shape = {
  podSelector: selector,
  policyTypes: true,
  ingress: [{ ports, from: peers }],
  egress: [{ ports, to: peers }],
};

export function specOf(policy: KubeObject): NetworkPolicySpec {
  return (policy as NetworkPolicy).spec ?? {};
}

/** Every peer that a policy speaks of, in either direction. */
function peersOf({ ingress = [], egress = [] }: NetworkPolicySpec): Peer[] {
  return [...ingress.flatMap(({ from = [] }) => from), ...egress.flatMap(({ to = [] }) => to)];
}

/** Keys in a selector that no pod of the super cluster carries as the tenant means them. */
function keysUnseenBelow(selector: LabelSelector, tenant: TenantInfo): string[] {
  const keys = [
    ...Object.keys(selector.matchLabels ?? {}),
    ...(selector.matchExpressions ?? []).map(({ key }) => key),
  ];
  return keys.filter((key) => !isMirroredPodLabel(key, tenant));
}

/**
 * What the tenant object asks of the super object: the same traffic between the same pods. Every selector is narrowed
 * to the tenant;
 * blocks of addresses and rules without peers stay, as all that is not the tenant's is outside to it.
 */
function wantedSpec(tenantObject: KubeObject, tenant: TenantInfo): NetworkPolicySpec {
  const spec = knownSpec(tenantObject);
  const { podSelector = {}, ingress, egress } = spec;
  const peer = (original: Peer): Peer => superPeer(original, tenant);
  const isolated = (rules: EgressRule[]): EgressRule[] =>
    tenant.isolation === undefined ? rules : openEgress(rules, tenant, tenant.isolation);
  const to = egress?.map(({ to, ...rule }) => (to ? { ...rule, to: to.map(peer) } : rule));
  return withoutUndefined({
    podSelector: superPodSelector(podSelector, tenant),
    policyTypes: policyTypesOf(spec),
    ingress: ingress?.map(({ from, ...rule }) => (from ? { ...rule, from: from.map(peer) } : rule)),
    egress: to && isolated(to),
  });
}

function knownSpec(policy: KubeObject): NetworkPolicySpec {
  return knownPart(specOf(policy), specShape) as NetworkPolicySpec;
}

/** Keys of labels by which the tenant object selects pods and that no pod of the super cluster carries; each once. */
function unseenKeys(tenantObject: KubeObject, tenant: TenantInfo): string[] {
  const spec = specOf(tenantObject);
  const selectors = [spec.podSelector ?? {}, ...peersOf(spec).map(({ podSelector = {} }) => podSelector)];
  return [...new Set(selectors.flatMap((selector) => keysUnseenBelow(selector, tenant)))].sort();
}

function superPeer({ podSelector, namespaceSelector, ipBlock }: Peer, tenant: TenantInfo): Peer {
  return withoutUndefined({
    podSelector: podSelector && superPodSelector(podSelector, tenant),
    namespaceSelector: namespaceSelector && superNamespaceSelector(namespaceSelector, tenant),
    ipBlock,
  });
}

/** NetworkPolicy: the traffic that the tenant allows between its pods, in the super cluster's terms. */
export const networkPolicyKind: DownKind = {
  name: 'networkpolicies',
  joinsFirst: true,
  resource: resources.networkPolicies,
  direction: 'down',
  superName: (name) => (isReserved(name) ? superNameOfReserved(name) : name),
  tenantName: reservedNameOf,
  // Those that keep tenants apart are the isolation controller's.
  selector: { super: `!${labelKeys.isolation}` },
  indexes: { super: { byNamespace: ({ metadata }) => [metadata.namespace ?? ''] } },
  touches: { super: selectedPods },
  // Removing all of them would admit traffic that no policy allows, and a setting may do so by mistake.
  unwantedIsMissing: true,
  admit,
  toSuper(tenantObject, context) {
    return {
      apiVersion: 'networking.k8s.io/v1',
      kind: 'NetworkPolicy',
      metadata: superMetadata(tenantObject, context),
      spec: wantedSpec(tenantObject, context.tenant),
    };
  },
  down,
  up: metadataUp,
};

/** Pods carry a label that says whether a policy selects them (sync rule `tenant-isolation`). */
function selectedPods(superPolicy: KubeObject, { tenant, superObjects }: SyncContext): readonly KeyRef[] {
  if (tenant.isolation === undefined) return [];
  const { podSelector = {} } = specOf(superPolicy);
  return superObjects
    .byIndex(resources.pods, 'byNamespace', superPolicy.metadata.namespace ?? '')
    .filter(({ metadata }) => matchesSelector(podSelector, metadata.labels ?? {}))
    .map(({ metadata }) => ({
      kind: 'pods',
      namespace: metadata.labels?.[labelKeys.namespace],
      name: metadata.name ?? '',
    }));
}

function admit(tenantObject: KubeObject, context: SyncContext): Admission {
  const { tenant } = context;
  if (!tenant.syncNetworkPolicies) return { wanted: false };
  const { name = '' } = tenantObject.metadata;
  if (isReserved(name)) return { wanted: false, notice: reservedNotice(name) };
  // What is in force already stays: removing it would admit traffic that no policy allows.
  const excess = excessOf(tenantObject, context);
  if (excess !== undefined) return refusedButKept('NotSupported', excess);
  const notice = tenant.networkPoliciesEnforced ? unseenNotice(tenantObject, tenant) : unenforced;
  return notice === undefined ? { wanted: true } : { wanted: true, notice };
}

/** Each gets an exception for each node and API server: a few bytes of the tenant's would become kilobytes. */
const maxEgressBlocks = 1_000;

/** Where tenants are isolated: for the same reason as `maxSelectorTerms`. */
const maxPolicies = 500;

/** What of a policy is more than the cluster takes; undefined: nothing. */
function excessOf(policy: KubeObject, { tenant, superObjects }: SyncContext): string | undefined {
  if (hasMoreEntries(specOf(policy), maxEntries))
    return `a NetworkPolicy can have ${maxEntries} rules, peers, ports, exceptions and terms of selectors here, taken together: use several policies`;
  const unknown = unknownFields(specOf(policy), specShape);
  if (unknown.length > 0)
    return `the cluster does not know ${[...new Set(unknown)].join(', ')} of a NetworkPolicy`;
  if (tenant.isolation === undefined) return undefined;
  const blocks = egressBlocks(knownSpec(policy));
  if (blocks > maxEgressBlocks)
    return `the egress rules have ${blocks} blocks of addresses and rules without peers; a NetworkPolicy can have ${maxEgressBlocks} of them here: use wider blocks, or several policies`;
  const terms = selectorTerms(specOf(policy).podSelector ?? {});
  if (terms > maxSelectorTerms)
    return `the podSelector has ${terms} labels, expressions and values; a NetworkPolicy can have ${maxSelectorTerms} of them here: use several policies`;
  const namespace = superNamespaceName(tenant, policy.metadata.namespace ?? '');
  const ref = { namespace, name: policy.metadata.name ?? '' };
  if (superObjects.get(resources.networkPolicies, ref) !== undefined) return undefined;
  const present = superObjects.byIndex(resources.networkPolicies, 'byNamespace', namespace).length;
  return present < maxPolicies
    ? undefined
    : `a namespace can have ${maxPolicies} NetworkPolicies here: remove others, and it goes down within minutes`;
}

/** Blocks of addresses that egress rules name or, without peers, stand for. */
function egressBlocks({ egress }: NetworkPolicySpec): number {
  let blocks = 0;
  for (const { to } of egress ?? []) {
    const peers = to ?? [];
    blocks += peers.length === 0 ? 1 : peers.filter(({ ipBlock }) => ipBlock !== undefined).length;
  }
  return blocks;
}

const unenforced = warning(
  'NetworkPolicyNotEnforced',
  'nothing in this cluster acts on NetworkPolicies; traffic is as if there were none',
);

function unseenNotice(tenantObject: KubeObject, tenant: SyncContext['tenant']): Notice | undefined {
  const keys = unseenKeys(tenantObject, tenant);
  if (keys.length === 0) return undefined;
  return warning(
    'NotSupported',
    `pods cannot be selected by the labels ${keys.join(', ')}; the policy takes them to be on no pod`,
  );
}

function down(tenantObject: KubeObject, superObject: KubeObject, context: SyncContext): readonly Action[] {
  const metadata = superMetadataPatch(tenantObject, superObject, context);
  const spec = specPatch(tenantObject, superObject, context);
  if (metadata === undefined && spec === undefined) return [];
  const patch: MergePatch = withoutUndefined({ ...metadata, spec });
  const notice = spec === undefined ? undefined : unseenNotice(tenantObject, context.tenant);
  const written: Action = { do: 'patchSuper', patch };
  return notice === undefined ? [written] : [written, { do: 'notice', notice }];
}

function specPatch(
  tenantObject: KubeObject,
  superObject: KubeObject,
  context: SyncContext,
): MergePatch | undefined {
  const wanted = wantedSpec(tenantObject, context.tenant);
  const there = knownSpec(superObject);
  const patch: MergePatch = {};
  for (const field of ['policyTypes', 'ingress', 'egress'] as const) {
    // A server leaves out an empty list.
    if (!deepEqual(wanted[field] ?? [], there[field] ?? [])) patch[field] = wanted[field] ?? null;
  }
  const podSelector = mergePatch(there.podSelector ?? {}, wanted.podSelector ?? {});
  if (podSelector !== undefined) patch['podSelector'] = podSelector;
  return unlessEmpty(patch);
}
