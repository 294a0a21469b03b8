import ipaddr from 'ipaddr.js';
import { labelKeys } from '../../api/labels.ts';
import type { NetworkIsolation, TenantInfo } from '../context.ts';
import { isTransparent, podLabelGoesDown } from './metadata.ts';

export interface LabelSelector {
  matchLabels?: Record<string, string>;
  matchExpressions?: LabelRequirement[];
}

export interface LabelRequirement {
  key: string;
  operator: string;
  values?: string[];
}

export interface Peer {
  podSelector?: LabelSelector;
  namespaceSelector?: LabelSelector;
  ipBlock?: { cidr: string; except?: string[] };
}

export interface PolicyPort {
  protocol?: string;
  port?: number | string;
  endPort?: number;
}

export interface IngressRule {
  ports?: PolicyPort[];
  from?: Peer[];
}

export interface EgressRule {
  ports?: PolicyPort[];
  to?: Peer[];
}

export interface NetworkPolicySpec {
  podSelector?: LabelSelector;
  policyTypes?: string[];
  ingress?: IngressRule[];
  egress?: EgressRule[];
}

type Labels = Readonly<Record<string, string>>;

/** Beside the tenant's own label, which all its pods carry, this matches nothing. */
export const matchesNothing: LabelRequirement = { key: labelKeys.tenant, operator: 'DoesNotExist' };

/**
 * Selects the same pods in the super cluster. Labels that do not go down are on no pod there, and what
 * Skerry or others have put in their place is not what the tenant means: they count as absent.
 */
export function superPodSelector(selector: LabelSelector, tenant: TenantInfo): LabelSelector {
  const matchLabels: Record<string, string> = { [labelKeys.tenant]: tenant.uid };
  const matchExpressions: LabelRequirement[] = [];
  let isPossible = true;
  for (const [key, value] of Object.entries(selector.matchLabels ?? {})) {
    if (isMirroredPodLabel(key, tenant)) matchLabels[key] = value;
    else isPossible = false;
  }
  for (const requirement of selector.matchExpressions ?? []) {
    if (isMirroredPodLabel(requirement.key, tenant)) matchExpressions.push(requirement);
    else if (requirement.operator === 'In' || requirement.operator === 'Exists') isPossible = false;
  }
  if (!isPossible) matchExpressions.push(matchesNothing);
  return matchExpressions.length === 0 ? { matchLabels } : { matchLabels, matchExpressions };
}

/** Where tenants are isolated, labels of pods are compared with all selectors of policies at each change. */
export const maxSelectorTerms = 200;

/** How many labels, expressions and values a selector has. */
export function selectorTerms({ matchLabels = {}, matchExpressions = [] }: LabelSelector): number {
  let terms = Object.keys(matchLabels).length;
  for (const { values = [] } of matchExpressions) terms += 1 + values.length;
  return terms;
}

/** Whether a pod in the super cluster can carry this label as the tenant means it. */
export function isMirroredPodLabel(key: string, tenant: TenantInfo): boolean {
  return podLabelGoesDown(key, tenant) || isTransparent(key, tenant);
}

/** As an API server evaluates a selector; one with an unknown operator matches nothing. */
export function matchesSelector(selector: LabelSelector, labels: Labels): boolean {
  const has = (key: string): boolean => Object.hasOwn(labels, key);
  for (const [key, value] of Object.entries(selector.matchLabels ?? {}))
    if (!has(key) || labels[key] !== value) return false;
  return (selector.matchExpressions ?? []).every(({ key, operator, values = [] }) => {
    const isAmong = has(key) && values.includes(labels[key] as string);
    switch (operator) {
      case 'In':
        return isAmong;
      case 'NotIn':
        return !isAmong;
      case 'Exists':
        return has(key);
      case 'DoesNotExist':
        return !has(key);
      default:
        return false;
    }
  });
}

/** The directions that a policy isolates its pods in, as the API server fills them in. */
export function policyTypesOf({ policyTypes, egress }: NetworkPolicySpec): string[] {
  return policyTypes ?? ((egress ?? []).length === 0 ? ['Ingress'] : ['Ingress', 'Egress']);
}

/** Addresses at which machines in a cloud get their credentials. */
const metadataServers = ['169.254.169.254/32', '169.254.170.2/32', '100.100.100.200/32', 'fd00:ec2::254/128'];
const everywhere = ['0.0.0.0/0', '::/0'];
/**
 * Ports that are open on closed addresses too: those of name servers, and those by which nodes lead to Services. No
 * kubelet, etcd or API server listens there by default.
 */
const openPorts: PolicyPort[] = [
  { protocol: 'UDP', port: 53 },
  { protocol: 'TCP', port: 53 },
  ...['TCP', 'UDP', 'SCTP'].map((protocol) => ({ protocol, port: 30_000, endPort: 32_767 })),
];

/** Labels of pods that policies of the tenant's own hold for, and in which direction each says so. */
export const ownPolicyKeys = [
  ['Ingress', labelKeys.ownIngress],
  ['Egress', labelKeys.ownEgress],
] as const;

/** The labels of that kind that a pod has. */
export function ownPolicyKeysOf(labels: Labels = {}): string[] {
  return ownPolicyKeys.map(([, key]) => key).filter((key) => labels[key] !== undefined);
}

function without(key: string): LabelSelector {
  return { matchExpressions: [{ key, operator: 'DoesNotExist' }] };
}

/**
 * The NetworkPolicies of every super namespace of a tenant, by name. Each holds for the pods that no policy of the
 * tenant's own selects in its direction: policies add up, and what one allows another cannot forbid.
 */
export function isolationPolicies(
  tenant: TenantInfo,
  { podCIDRs, closedCIDRs }: NetworkIsolation,
): Readonly<Record<string, NetworkPolicySpec>> {
  const notOfTenants: Peer = { namespaceSelector: { matchExpressions: [matchesNothing] } };
  const ingress: NetworkPolicySpec = {
    podSelector: without(labelKeys.ownIngress),
    policyTypes: ['Ingress'],
    // Controllers, monitoring and API servers of the operator, and what comes from outside.
    ingress: [{ from: [ownNamespaces(tenant), notOfTenants, ...outside(podCIDRs)] }],
  };
  const egress: NetworkPolicySpec = {
    podSelector: without(labelKeys.ownEgress),
    policyTypes: ['Egress'],
    egress: alwaysOpen(tenant, { podCIDRs, closedCIDRs }),
  };
  return {
    'skerry-egress': egress,
    // Where pods are is not known: what comes from outside cannot be told from what comes from other tenants.
    ...(podCIDRs.length === 0 ? {} : { 'skerry-ingress': ingress }),
  };
}

/**
 * The egress rules of a tenant's own policy, without ways to what is closed. Rules with nothing left in them go: the
 * policy isolates all the same.
 */
export function openEgress(
  rules: EgressRule[],
  tenant: TenantInfo,
  { closedCIDRs }: NetworkIsolation,
): EgressRule[] {
  const closed = closedRanges([...closedCIDRs, ...metadataServers]);
  let anywhere: EgressRule[] | undefined;
  return rules.flatMap((rule) => {
    if (rule.to === undefined || rule.to.length === 0) {
      anywhere ??= alwaysOpen(tenant, { podCIDRs: [], closedCIDRs });
      return anywhere.flatMap((open) => withPorts(open, rule.ports));
    }
    const to = rule.to.flatMap((peer) => {
      if (peer.ipBlock === undefined) return [peer];
      const ipBlock = narrowed(peer.ipBlock, closed);
      return ipBlock === undefined ? [] : [{ ...peer, ipBlock }];
    });
    return to.length === 0 ? [] : [{ ...rule, to }];
  });
}

/** The tenant's own pods and the world outside; its API server; name servers and node ports, on closed addresses too. */
function alwaysOpen(tenant: TenantInfo, { podCIDRs, closedCIDRs }: NetworkIsolation): EgressRule[] {
  const { address, port, isService } = tenant.apiServer;
  const apiServer: Peer =
    isService === true
      ? { namespaceSelector: { matchLabels: { [labelKeys.id]: tenant.id } } }
      : { ipBlock: { cidr: `${address}/${address.includes(':') ? 128 : 32}` } };
  const anywhere = outside(podCIDRs);
  return [
    { to: [ownNamespaces(tenant), ...outside([...podCIDRs, ...closedCIDRs, ...metadataServers])] },
    // Behind a Service, the port is the pods' own.
    { to: [apiServer], ...(isService === true ? {} : { ports: [{ protocol: 'TCP', port }] }) },
    ...(anywhere.length === 0 ? [] : [{ to: anywhere, ports: openPorts }]),
  ];
}

/** A rule for those of its ports that are among these; without any of its own, for these. */
function withPorts(rule: EgressRule, among: readonly PolicyPort[] | undefined): EgressRule[] {
  if (among === undefined || among.length === 0) return [rule];
  if (rule.ports === undefined) return [{ ...rule, ports: [...among] }];
  const ports = rule.ports.flatMap((own) => among.flatMap((each) => commonPorts(each, own)));
  return ports.length === 0 ? [] : [{ ...rule, ports }];
}

/** The ports, by number, that are in both. A name stands for a port of a pod, and for none outside. */
function commonPorts(each: PolicyPort, own: PolicyPort): PolicyPort[] {
  if ((each.protocol ?? 'TCP') !== own.protocol) return [];
  if (each.port === undefined) return [own];
  const range = ({ port, endPort }: PolicyPort): [number, number] => [Number(port), endPort ?? Number(port)];
  const [[first, last], [from, to]] = [range(each), range(own)];
  const [low, high] = [Math.max(first, from), Math.min(last, to)];
  if (!(low <= high)) return [];
  return [{ protocol: own.protocol, port: low, ...(low === high ? {} : { endPort: high }) }];
}

function ownNamespaces(tenant: TenantInfo): Peer {
  return { namespaceSelector: { matchLabels: { [labelKeys.tenant]: tenant.uid } } };
}

function outside(closed: readonly string[]): Peer[] {
  const ranges = closedRanges(closed);
  return everywhere.flatMap((cidr) => {
    const ipBlock = narrowed({ cidr }, ranges);
    return ipBlock === undefined ? [] : [{ ipBlock }];
  });
}

/** A block without what is closed; undefined: nothing is left. One that cannot be read is left to the API server. */
function narrowed(original: NonNullable<Peer['ipBlock']>, closed: readonly ClosedRange[]): Peer['ipBlock'] {
  const cidr = canonical(original.cidr);
  const except = (original.except ?? []).map(canonical);
  const block = range(cidr);
  if (block === undefined) return { cidr, ...(except.length === 0 ? {} : { except }) };
  const inside: string[] = [];
  for (const { text, parsed: other } of closed) {
    if (other === undefined || other[0].kind() !== block[0].kind()) continue;
    if (other[1] <= block[1]) {
      if (block[0].match(other)) return undefined;
    } else if (other[0].match(block)) inside.push(text);
  }
  const all = [...new Set([...except, ...inside])].sort();
  return { cidr, ...(all.length === 0 ? {} : { except: all }) };
}

/** More than any range takes in any form; characters. */
const longestRange = 64;

/**
 * A range in the form that all take for the same: IPv4 as such, without zeros before its numbers, and the first address.
 * API servers before 1.36 take others too, and what acts on policies may read `::ffff:192.0.2.1/128` as the address that
 * it stands for; later ones refuse them. One that cannot be read is returned as it is.
 */
function canonical(cidr: string): string {
  if (typeof cidr !== 'string' || cidr.length > longestRange) return cidr;
  const plain = cidr.replace(/\d+(\.\d+){3}(?=\/)/, (address) => address.split('.').map(Number).join('.'));
  const parsed = range(plain);
  if (parsed === undefined) return cidr;
  const [written, writtenLength] = parsed;
  const isMapped = written instanceof ipaddr.IPv6 && written.isIPv4MappedAddress() && writtenLength >= 96;
  const address = isMapped ? written.toIPv4Address() : written;
  const length = isMapped ? writtenLength - 96 : writtenLength;
  const family = address instanceof ipaddr.IPv4 ? ipaddr.IPv4 : ipaddr.IPv6;
  const first = family.networkAddressFromCIDR(`${address}/${length}`);
  return String(first) === String(written) ? plain : `${first}/${length}`;
}

interface ClosedRange {
  readonly text: string;
  readonly parsed: Range | undefined;
}

/** Ranges of the operator's, which are compared with every block of every policy: to read one takes 100 times as long. */
const knownRanges = new Map<string, ClosedRange>();
const maxKnownRanges = 10_000;

/** Each range, and that of an IPv4 range behind a gateway to it from IPv6 (NAT64, the prefix of RFC 6052). */
function closedRanges(cidrs: readonly string[]): ClosedRange[] {
  return cidrs.flatMap((cidr) => {
    const closed = closedRange(cidr);
    const [address, length] = closed.parsed ?? [];
    if (!(address instanceof ipaddr.IPv4) || length === undefined) return [closed];
    const [a = 0, b = 0, c = 0, d = 0] = address.octets;
    const translated = new ipaddr.IPv6([0x64, 0xff9b, 0, 0, 0, 0, (a << 8) | b, (c << 8) | d]);
    return [closed, closedRange(`${translated}/${96 + length}`)];
  });
}

function closedRange(cidr: string): ClosedRange {
  let known = knownRanges.get(cidr);
  if (known === undefined) {
    const text = canonical(cidr);
    known = { text, parsed: range(text) };
    if (knownRanges.size >= maxKnownRanges) knownRanges.clear();
    knownRanges.set(cidr, known);
  }
  return known;
}

type Range = [ipaddr.IPv4 | ipaddr.IPv6, number];

function range(cidr: string): Range | undefined {
  return ipaddr.isValidCIDR(cidr) ? ipaddr.parseCIDR(cidr) : undefined;
}
