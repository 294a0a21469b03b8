import type { KubeObject } from '../../../../kube/index.ts';
import { compareMarks } from '../marks.ts';
import { label } from '../raw.ts';
import type { View } from '../view.ts';

/** Holds heartbeats of nodes and nothing that runs: it may stay in the tenant. */
export const heartbeats = 'kube-node-lease';

/** One super namespace for each of the tenant's, with a hashed name and a level of pod security; none besides. */
export function compareNamespaces(view: View): string[] {
  const found: string[] = [];
  const living = new Set<string>();
  for (const own of view.own.namespaces) {
    const name = own.metadata.name ?? '';
    const counterparts = view.superNamespaces.get(name) ?? [];
    living.add(name);
    if (own.metadata.deletionTimestamp !== undefined) continue;
    if (counterparts.length > 1)
      found.push(`Namespace ${name} is in the super cluster ${counterparts.length} times`);
    if (counterparts.length === 0 && name !== heartbeats)
      found.push(`Namespace ${name}: is not in the super cluster`);
    for (const counterpart of counterparts) {
      found.push(...compare(view, own, counterpart).map((difference) => `Namespace ${name}: ${difference}`));
    }
  }
  for (const [name, counterparts] of view.superNamespaces) {
    if (living.has(name)) continue;
    const names = counterparts.map(({ metadata }) => metadata.name).join(', ');
    found.push(`Namespace ${names} of the super cluster has no counterpart in the tenant`);
  }
  return found;
}

function compare(view: View, own: KubeObject, counterpart: KubeObject): string[] {
  const found = compareMarks(view, own, counterpart, own.metadata.name);
  const { name = '', deletionTimestamp } = counterpart.metadata;
  if (deletionTimestamp !== undefined) found.push('is being deleted in the super cluster only');
  const { tenant } = view;
  const readable = `${tenant.namespace}-${tenant.name}-${own.metadata.name}`.slice(0, 46).replace(/-+$/, '');
  if (
    name.length > 63 ||
    !/^-[a-z2-7]{16}$/.test(name.slice(readable.length)) ||
    !name.startsWith(readable)
  ) {
    found.push(`its name in the super cluster is ${name}`);
  }
  const level = label(counterpart, 'pod-security.kubernetes.io/enforce');
  if (level !== 'baseline' && level !== 'restricted') found.push(`pods are enforced at level ${level}`);
  return found;
}
