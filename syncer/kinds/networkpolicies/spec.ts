import type { KubeObject } from '../../../kube/index.ts';
import { superNamespaceSelector } from '../../mapping/index.ts';
import type { TenantInfo } from '../context.ts';
import { knownPart } from '../known-fields.ts';
import { type NetworkPolicySpec, type Peer, peersOf, specOf, specShape } from './model.ts';
import { keysUnseenBelow, superPodSelector } from './pod-selector.ts';

/**
 * What T asks of S: the same traffic between the same pods. Every selector is narrowed to the tenant;
 * blocks of addresses and rules without peers stay, as all that is not the tenant's is outside to it.
 */
export function wantedSpec(tenantObject: KubeObject, tenant: TenantInfo): NetworkPolicySpec {
  const { podSelector = {}, policyTypes, ingress, egress } = knownSpec(tenantObject);
  const peer = (original: Peer): Peer => superPeer(original, tenant);
  return {
    podSelector: superPodSelector(podSelector, tenant),
    policyTypes: policyTypes ?? ((egress ?? []).length === 0 ? ['Ingress'] : ['Ingress', 'Egress']),
    ...(ingress === undefined
      ? {}
      : { ingress: ingress.map(({ from, ...rule }) => (from ? { ...rule, from: from.map(peer) } : rule)) }),
    ...(egress === undefined
      ? {}
      : { egress: egress.map(({ to, ...rule }) => (to ? { ...rule, to: to.map(peer) } : rule)) }),
  };
}

export function knownSpec(policy: KubeObject): NetworkPolicySpec {
  return knownPart(specOf(policy), specShape) as NetworkPolicySpec;
}

/** Keys of labels by which T selects pods and that no pod of the super cluster carries; each once. */
export function unseenKeys(tenantObject: KubeObject, tenant: TenantInfo): string[] {
  const spec = specOf(tenantObject);
  const selectors = [spec.podSelector ?? {}, ...peersOf(spec).map(({ podSelector = {} }) => podSelector)];
  return [...new Set(selectors.flatMap((selector) => keysUnseenBelow(selector, tenant)))].sort();
}

function superPeer({ podSelector, namespaceSelector, ipBlock }: Peer, tenant: TenantInfo): Peer {
  return {
    ...(podSelector === undefined ? {} : { podSelector: superPodSelector(podSelector, tenant) }),
    ...(namespaceSelector === undefined
      ? {}
      : { namespaceSelector: superNamespaceSelector(namespaceSelector, tenant) }),
    ...(ipBlock === undefined ? {} : { ipBlock }),
  };
}
