import { BlockList, isIPv6 } from 'node:net';
import type { LabelSelector, NetworkPolicySpec, Peer, PolicyPort } from '../../mapping/network-isolation.ts';

type Labels = Readonly<Record<string, string>>;

export interface NetworkPod {
  readonly id: string;
  readonly namespace: string;
  readonly labels: Labels;
  readonly ip: string;
  readonly ports: readonly { readonly name: string; readonly protocol: string; readonly port: number }[];
}

/** A cluster as an engine for NetworkPolicies sees it. */
export interface Network {
  readonly namespaces: ReadonlyMap<string, Labels>;
  readonly pods: readonly NetworkPod[];
  readonly policies: readonly { readonly namespace: string; readonly spec: NetworkPolicySpec }[];
}

/** One end of a connection: a pod of this network, or an address of which it knows nothing. */
export type End = NetworkPod | { readonly id: string; readonly ip: string };

export interface Target {
  readonly protocol: string;
  readonly port: number;
}

/**
 * Whether a connection is allowed, by the documented meaning of NetworkPolicy alone: a pod that no policy
 * isolates in a direction is open in that direction, else one rule of one of them has to allow it.
 */
export function allows(network: Network, from: End, to: End, target: Target): boolean {
  // A pod cannot shut itself out.
  if (from.id === to.id) return true;
  return (
    isAllowed(network, 'Egress', from, to, to, target) && isAllowed(network, 'Ingress', to, from, to, target)
  );
}

/** Every allowed connection of those given, as text. */
export function allowedAmong(network: Network, ends: readonly End[], targets: readonly Target[]): string[] {
  return ends.flatMap((from) =>
    ends.flatMap((to) =>
      targets
        .filter((target) => allows(network, from, to, target))
        .map(({ protocol, port }) => `${from.id} -> ${to.id} ${protocol}/${port}`),
    ),
  );
}

function isAllowed(
  network: Network,
  direction: 'Ingress' | 'Egress',
  subject: End,
  peer: End,
  server: End,
  target: Target,
): boolean {
  if (!('namespace' in subject)) return true;
  const isolating = network.policies.filter(
    ({ namespace, spec }) =>
      namespace === subject.namespace &&
      typesOf(spec).includes(direction) &&
      selects(spec.podSelector ?? {}, subject.labels),
  );
  if (isolating.length === 0) return true;
  return isolating.some(({ namespace, spec }) => {
    const rules =
      direction === 'Ingress'
        ? (spec.ingress ?? []).map(({ ports, from }) => ({ ports, peers: from }))
        : (spec.egress ?? []).map(({ ports, to }) => ({ ports, peers: to }));
    return rules.some(
      ({ ports = [], peers = [] }) =>
        (ports.length === 0 || ports.some((port) => includesPort(port, server, target))) &&
        (peers.length === 0 || peers.some((each) => isPeer(network, each, namespace, peer))),
    );
  });
}

function typesOf({ policyTypes, egress = [] }: NetworkPolicySpec): readonly string[] {
  if (policyTypes !== undefined && policyTypes.length > 0) return policyTypes;
  return egress.length > 0 ? ['Ingress', 'Egress'] : ['Ingress'];
}

function includesPort({ protocol = 'TCP', port, endPort }: PolicyPort, server: End, target: Target): boolean {
  if (protocol !== target.protocol) return false;
  if (port === undefined) return true;
  if (typeof port === 'number') return target.port >= port && target.port <= (endPort ?? port);
  const named = 'ports' in server ? server.ports : [];
  return named.some((each) => each.name === port && each.protocol === protocol && each.port === target.port);
}

function isPeer(network: Network, peer: Peer, policyNamespace: string, end: End): boolean {
  const { podSelector, namespaceSelector, ipBlock } = peer;
  if (ipBlock !== undefined) {
    return isInside(end.ip, ipBlock.cidr) && !(ipBlock.except ?? []).some((cidr) => isInside(end.ip, cidr));
  }
  if (!('namespace' in end)) return false;
  if (namespaceSelector === undefined) {
    return end.namespace === policyNamespace && selects(podSelector ?? {}, end.labels);
  }
  const labels = network.namespaces.get(end.namespace);
  if (labels === undefined) throw new Error(`no namespace ${end.namespace}`);
  return selects(namespaceSelector, labels) && selects(podSelector ?? {}, end.labels);
}

function selects({ matchLabels = {}, matchExpressions = [] }: LabelSelector, labels: Labels): boolean {
  const has = (key: string): boolean => Object.hasOwn(labels, key);
  for (const key of Object.keys(matchLabels)) if (!has(key) || labels[key] !== matchLabels[key]) return false;
  for (const { key, operator, values = [] } of matchExpressions) {
    const isAmong = has(key) && values.includes(labels[key] as string);
    if (operator === 'In' && !isAmong) return false;
    if (operator === 'NotIn' && isAmong) return false;
    if (operator === 'Exists' && !has(key)) return false;
    if (operator === 'DoesNotExist' && has(key)) return false;
  }
  return true;
}

function isInside(ip: string, cidr: string): boolean {
  const [network = '', bits = ''] = cidr.split('/');
  if (isIPv6(ip) !== isIPv6(network)) return false;
  const family = isIPv6(ip) ? 'ipv6' : 'ipv4';
  const list = new BlockList();
  list.addSubnet(network, Number(bits), family);
  return list.check(ip, family);
}
