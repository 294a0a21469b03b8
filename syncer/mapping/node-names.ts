import { hash } from 'node:crypto';
import { type KubeObject, resources } from '../../kube/index.ts';
import type { SyncContext, TenantInfo } from '../context.ts';

type NodeContext = Pick<SyncContext, 'tenant' | 'superObjects'>;
type Halves = readonly [left: number, right: number];

/** Label of a node that says its name, mostly. */
export const hostNameLabel = 'kubernetes.io/hostname';

const prefix = 'node-';
const alphabet = 'abcdefghijklmnopqrstuvwxyz234567';
const charactersPerHalf = 4;
const rounds = [0, 1, 2, 3] as const;

/** Indexes of the super cluster's nodes by which hidden names lead back, and others are recognized. */
export const nodeIndexes = {
  byDigest: ({ metadata: { name } }: KubeObject): readonly string[] =>
    name === undefined ? [] : [text(digest(name))],
  /** What a node is called beside its name: addresses and host names, in lower case. */
  byAddress: (node: KubeObject): readonly string[] => {
    const { addresses } = (node['status'] ?? {}) as { addresses?: readonly { address: string }[] };
    const all = new Set((addresses ?? []).map(({ address }) => address.toLowerCase()));
    const hostName = node.metadata.labels?.[hostNameLabel];
    if (hostName !== undefined) all.add(hostName.toLowerCase());
    all.delete(node.metadata.name ?? '');
    return [...all];
  },
};

/**
 * The name under which this tenant sees a node: its own, or `node-<8 characters>` where nodes are hidden.
 * Stable for tenant and name; two tenants see two names for one node.
 */
export function shownNodeName(tenant: Pick<TenantInfo, 'id' | 'hideNodes'>, superName: string): string {
  return tenant.hideNodes ? prefix + text(permuted(tenant.id, digest(superName))) : superName;
}

/** The super cluster's node that this tenant sees under a name; `undefined`: there is none. */
export function realNodeName({ tenant, superObjects }: NodeContext, shown: string): string | undefined {
  if (!tenant.hideNodes) return shown;
  const halves = shown.startsWith(prefix) ? parsed(shown.slice(prefix.length)) : undefined;
  if (halves === undefined) return undefined;
  const [node] = superObjects.byIndex(resources.nodes, 'byDigest', text(restored(tenant.id, halves)));
  return node?.metadata.name;
}

/** The address that this tenant may see where the super object shows one of its node. */
export function shownHostIP(tenant: Pick<TenantInfo, 'hideNodes' | 'kubelet'>, hostIP: string): string {
  return tenant.hideNodes ? tenant.kubelet.address : hostIP;
}

/** 40 bits of a node's name, the same for every tenant. */
function digest(name: string): Halves {
  return [half(`node\0${name}`), half(`edon\0${name}`)];
}

/**
 * A Feistel network with the tenant's id as its key: the way back needs neither a table nor a search, and
 * who does not know the id cannot tell which name he looks at, nor compare it with another tenant's.
 */
function permuted(id: string, [left, right]: Halves): Halves {
  return rounds.reduce<Halves>(([l, r], round) => [r, l ^ half(`${id}\0${round}\0${r}`)], [left, right]);
}

function restored(id: string, halves: Halves): Halves {
  return rounds.reduceRight<Halves>(([l, r], round) => [r ^ half(`${id}\0${round}\0${l}`), l], halves);
}

/** 20 bits of SHA-256. */
function half(of: string): number {
  return Number.parseInt(hash('sha256', of, 'hex').slice(0, 5), 16);
}

function text(halves: Halves): string {
  return halves
    .flatMap((value) => [15, 10, 5, 0].map((shift) => alphabet.charAt((value >> shift) & 31)))
    .join('');
}

function parsed(characters: string): Halves | undefined {
  if (!/^[a-z2-7]{8}$/.test(characters)) return undefined;
  const value = (part: string): number =>
    [...part].reduce((sum, character) => sum * 32 + alphabet.indexOf(character), 0);
  return [value(characters.slice(0, charactersPerHalf)), value(characters.slice(charactersPerHalf))];
}
