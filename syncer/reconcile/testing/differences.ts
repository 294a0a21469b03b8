import { type KubeObject, resources } from '../../../kube/index.ts';
import { changedLabel } from './random-operations.ts';
import type { TwoSides } from './two-sides.ts';

const compared = [resources.configMaps, resources.secrets, resources.pods];

/**
 * What the two sides do not agree on, from what the servers have. Shares no code with the engine but the name
 * of a super namespace.
 */
export function differences(sides: TwoSides, superNamespace: (namespace: string) => string): string[] {
  const found: string[] = [];
  const tenant = sides.tenant.server;
  const there = sides.super.server;
  for (const t of tenant.list(resources.namespaces)) {
    const s = there.get(resources.namespaces, { name: superNamespace(t.metadata.name ?? '') });
    if (markOf(s) !== t.metadata.uid)
      found.push(`namespace ${t.metadata.name}: ${describe(t)} but ${describe(s)}`);
  }
  for (const resource of compared) {
    for (const t of tenant.list(resource)) {
      const { namespace = '', name = '' } = t.metadata;
      const s = there.get(resource, { namespace: superNamespace(namespace), name });
      const difference = compare(t, s);
      if (difference !== undefined) found.push(`${resource.plural} ${namespace}/${name}: ${difference}`);
    }
  }
  for (const resource of [resources.namespaces, resources.serviceAccounts, ...compared]) {
    const uids = new Set(tenant.list(resource).map(({ metadata }) => metadata.uid));
    for (const s of there.list(resource)) {
      if (s.metadata.labels?.['skerry.dev/tenant'] !== sides.info.uid || isToken(s)) continue;
      if (!uids.has(markOf(s)))
        found.push(`${resource.plural} ${s.metadata.namespace}/${s.metadata.name} has no original`);
    }
  }
  return [...found, ...tokenDifferences(sides, superNamespace)];
}

/**
 * Each pod that has a node and is to run has a Secret with the one token that it asks for, bound to it and naming
 * the node; no other pod has one.
 */
function tokenDifferences(sides: TwoSides, superNamespace: (namespace: string) => string): string[] {
  const found: string[] = [];
  const pods = new Map(sides.tenant.server.list(resources.pods).map((pod) => [pod.metadata.uid, pod]));
  const secrets = sides.super.server.list(resources.secrets).filter(isToken);
  for (const pod of pods.values()) {
    const { metadata } = pod;
    if (metadata.deletionTimestamp !== undefined || isFinished(pod)) continue;
    const own = secrets.filter((secret) => markOf(secret) === metadata.uid);
    const node = nodeOf(pod);
    if (node === undefined) {
      if (own.length > 0)
        found.push(`tokens of pod ${metadata.namespace}/${metadata.name}, which has no node`);
      continue;
    }
    const [secret] = own;
    const place = secret?.metadata.namespace === superNamespace(metadata.namespace ?? '');
    const { 'token-0': value = '', ...more } = (secret?.['data'] ?? {}) as Record<string, string>;
    const bound = Buffer.from(value, 'base64').toString().endsWith(`/${metadata.uid}/${node}/`);
    if (own.length !== 1 || !place || !bound || Object.keys(more).length > 0)
      found.push(
        `tokens of pod ${metadata.namespace}/${metadata.name}: ${own.length} Secrets, bound: ${bound}`,
      );
  }
  for (const secret of secrets) {
    if (!pods.has(markOf(secret)))
      found.push(`tokens ${secret.metadata.namespace}/${secret.metadata.name} have no pod`);
  }
  return found;
}

function isFinished(object: KubeObject): boolean {
  return ['Failed', 'Succeeded'].includes(phaseOf(object) ?? '');
}

function isToken({ metadata }: KubeObject): boolean {
  return metadata.labels?.['skerry.dev/token'] !== undefined;
}

function compare(t: KubeObject, s: KubeObject | undefined): string | undefined {
  if (t.metadata.deletionTimestamp !== undefined) return 'is still being deleted';
  if (s === undefined && isFinished(t)) return undefined;
  if (markOf(s) !== t.metadata.uid || s === undefined) return `${describe(t)} but ${describe(s)}`;
  if (s.metadata.deletionTimestamp !== undefined) return 'its super object is being deleted';
  if (JSON.stringify(t['data']) !== JSON.stringify(s['data'])) return 'data differ';
  if (t.metadata.labels?.[changedLabel] !== s.metadata.labels?.[changedLabel]) return 'labels differ';
  if (phaseOf(t) !== phaseOf(s)) return `phase ${phaseOf(t)} but ${phaseOf(s)}`;
  if (nodeOf(t) !== nodeOf(s)) return `node ${nodeOf(t)} but ${nodeOf(s)}`;
  return undefined;
}

function markOf(object: KubeObject | undefined): string | undefined {
  return object?.metadata.annotations?.['skerry.dev/uid'];
}

function describe(object: KubeObject | undefined): string {
  return object === undefined ? 'nothing' : `uid ${object.metadata.uid} (made for ${markOf(object)})`;
}

function phaseOf(object: KubeObject): string | undefined {
  return (object['status'] as { phase?: string } | undefined)?.phase;
}

function nodeOf(object: KubeObject): string | undefined {
  return (object['spec'] as { nodeName?: string } | undefined)?.nodeName;
}
