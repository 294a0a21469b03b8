import type { KubeObject } from '../../../kube/index.ts';
import { selects } from '../../harness/checker/view.ts';

interface Peer {
  podSelector?: object;
  namespaceSelector?: object;
  ipBlock?: { cidr: string; except?: string[] };
}

interface PolicyPort {
  protocol?: string;
  port?: number | string;
  endPort?: number;
}

export interface NetworkPolicy extends KubeObject {
  spec?: {
    podSelector?: object;
    policyTypes?: string[];
    ingress?: { ports?: PolicyPort[]; from?: Peer[] }[];
    egress?: { ports?: PolicyPort[]; to?: Peer[] }[];
  };
}

export interface NetworkPod extends KubeObject {
  spec?: {
    hostNetwork?: boolean;
    containers: { ports?: { name?: string; protocol?: string; containerPort: number }[] }[];
  };
  status?: { podIP?: string; phase?: string };
}

/** A cluster as its policies see it. */
interface Network {
  readonly namespaces: readonly KubeObject[];
  readonly pods: readonly NetworkPod[];
  readonly policies: readonly NetworkPolicy[];
}

type Direction = 'Ingress' | 'Egress';

const table = 'ip network-policies';
/** A client is told `no route to host`, which nothing else here says. */
const refuse = 'reject with icmp type admin-prohibited';

/**
 * What NetworkPolicies mean, as nftables rules for what a node forwards and what its pods send to itself; IPv4 only. The
 * same for all nodes: on its way a connection is judged by one or two of them. A node's own connections to its pods
 * (probes) are open.
 */
export function renderRuleset(network: Network): string {
  const pods = network.pods.filter(hasAddress).sort((a, b) => (addressOf(a) < addressOf(b) ? -1 : 1));
  const namespaces = new Map(
    network.namespaces.map(({ metadata }) => [metadata.name, metadata.labels ?? {}]),
  );
  const egress = chainOf('Egress', network, pods, namespaces);
  const ingress = chainOf('Ingress', network, pods, namespaces);
  const isolated = [...new Set([...egress.isolated, ...ingress.isolated])].sort();
  const hook = (name: string, jumps: string): string => `  chain ${name} {
    type filter hook ${name} priority filter; policy accept;
    ct state established,related accept
    ip saddr . ip daddr ${setOf(isolated.map((ip) => `${ip} . ${ip}`))} accept
${jumps}  }
`;
  const body =
    isolated.length === 0
      ? ''
      : [
          egress.text,
          ingress.text,
          hook('forward', egress.jump + ingress.jump),
          // From pods to the node itself: its kubelet and others that listen there.
          hook('input', egress.jump),
        ].join('');
  return `add table ${table}\ndelete table ${table}\ntable ${table} {\n${body}}\n`;
}

interface Chain {
  text: string;
  jump: string;
  /** Addresses of pods that only rules open. */
  isolated: string[];
}

type NamespaceLabels = ReadonlyMap<string | undefined, Readonly<Record<string, string>>>;

function chainOf(
  direction: Direction,
  { policies }: Network,
  pods: readonly NetworkPod[],
  namespaces: NamespaceLabels,
): Chain {
  const isolated = new Set<string>();
  const rules: string[] = [];
  for (const policy of policies.filter((each) => typesOf(each).includes(direction))) {
    const { namespace, name } = policy.metadata;
    const subjects = pods.filter(
      ({ metadata }) =>
        metadata.namespace === namespace && selects(policy.spec?.podSelector, metadata.labels),
    );
    for (const pod of subjects) isolated.add(addressOf(pod));
    if (subjects.length === 0) continue;
    for (const { ports, peers } of rulesOf(policy, direction)) {
      const matches = peers.map((peer) => ({ peer, pods: podsOf(peer, namespace, pods, namespaces) }));
      // Without peers: anybody.
      for (const match of matches.length === 0 ? [{ pods }] : matches)
        for (const port of ports.length === 0 ? [undefined] : ports)
          for (const text of textsOf(direction, subjects, match, port))
            rules.push(`    ${text} return comment "${`${namespace}/${name}`.slice(0, 120)}"\n`);
    }
  }
  const chain = direction.toLowerCase();
  const address = direction === 'Egress' ? 'saddr' : 'daddr';
  return {
    text: `  chain ${chain} {\n${[...new Set(rules)].sort().join('')}    ${refuse}\n  }\n`,
    jump: isolated.size === 0 ? '' : `    ip ${address} ${setOf([...isolated])} jump ${chain}\n`,
    isolated: [...isolated],
  };
}

/** None if nothing is matched; `peer` is absent for anybody. */
function textsOf(
  direction: Direction,
  subjects: readonly NetworkPod[],
  { peer, pods }: { peer?: Peer; pods: readonly NetworkPod[] },
  port: PolicyPort | undefined,
): string[] {
  const [own, other] = direction === 'Egress' ? ['saddr', 'daddr'] : ['daddr', 'saddr'];
  const subject = `ip ${own} ${addressesOf(subjects)}`;
  const others =
    peer === undefined
      ? ''
      : peer.ipBlock !== undefined
        ? blockOf(peer.ipBlock, other)
        : pods.length > 0 && `ip ${other} ${addressesOf(pods)}`;
  if (others === false) return [];
  const { protocol = 'TCP', port: number, endPort } = port ?? {};
  const kind = protocol.toLowerCase();
  if (port === undefined) return [join(subject, others)];
  if (number === undefined) return [join(subject, others, `meta l4proto ${kind}`)];
  if (typeof number === 'number')
    return [
      join(subject, others, `${kind} dport ${endPort === undefined ? number : `${number}-${endPort}`}`),
    ];
  // A name is one of the server's.
  const servers = (direction === 'Ingress' ? subjects : pods).flatMap((pod) =>
    (pod.spec?.containers ?? [])
      .flatMap(({ ports = [] }) => ports)
      .filter((each) => each.name === number && (each.protocol ?? 'TCP') === protocol)
      .map(({ containerPort }) => `${addressOf(pod)} . ${containerPort}`),
  );
  return servers.length === 0 ? [] : [join(subject, others, `ip daddr . ${kind} dport ${setOf(servers)}`)];
}

function blockOf(
  { cidr, except = [] }: { cidr: string; except?: string[] },
  address: string,
): string | false {
  // Nobody has an address of the other family.
  if (cidr.includes(':')) return false;
  const bare = (range: string): string => (range === '0.0.0.0/0' ? 'ip version 4' : `ip ${address} ${range}`);
  return join(bare(cidr), ...except.map((range) => `ip ${address} != ${range}`));
}

function podsOf(
  { podSelector, namespaceSelector }: Peer,
  namespace: string | undefined,
  pods: readonly NetworkPod[],
  namespaces: NamespaceLabels,
): NetworkPod[] {
  return pods.filter(({ metadata }) => {
    const isIn =
      namespaceSelector === undefined
        ? metadata.namespace === namespace
        : selects(namespaceSelector, namespaces.get(metadata.namespace));
    return isIn && selects(podSelector, metadata.labels);
  });
}

function rulesOf(
  { spec = {} }: NetworkPolicy,
  direction: Direction,
): { ports: PolicyPort[]; peers: Peer[] }[] {
  return direction === 'Ingress'
    ? (spec.ingress ?? []).map(({ ports = [], from = [] }) => ({ ports, peers: from }))
    : (spec.egress ?? []).map(({ ports = [], to = [] }) => ({ ports, peers: to }));
}

/** API servers fill them in. */
function typesOf({ spec }: NetworkPolicy): readonly string[] {
  return spec?.policyTypes ?? [];
}

/** One that has ended keeps the address that another pod may have. */
function hasAddress({ spec, status }: NetworkPod): boolean {
  const hasEnded = status?.phase === 'Succeeded' || status?.phase === 'Failed';
  return status?.podIP !== undefined && !hasEnded && spec?.hostNetwork !== true;
}

function addressOf({ status }: NetworkPod): string {
  return status?.podIP ?? '';
}

function addressesOf(pods: readonly NetworkPod[]): string {
  return setOf(pods.map(addressOf));
}

function setOf(elements: readonly string[]): string {
  return `{ ${[...new Set(elements)].join(', ')} }`;
}

function join(...parts: readonly string[]): string {
  return parts.filter((part) => part !== '').join(' ');
}
