import type { KubeObject } from '../../../../kube/index.ts';
import { annotation, at, label, listAt, unequal } from '../raw.ts';
import type { View } from '../view.ts';
import { copies } from './published.ts';

const shownLabels = [
  'kubernetes.io/os',
  'kubernetes.io/arch',
  'topology.kubernetes.io/zone',
  'topology.kubernetes.io/region',
];

const hiddenName = /^node-[a-z2-7]{8}$/;
const identifying = ['machineID', 'systemUUID', 'bootID'];

/**
 * The nodes of the tenant's pool, or those that its pods are on, with what schedulers and people look at. Hidden
 * ones have another name, and nothing in them says which.
 */
export function compareNodes(view: View): string[] {
  const found: string[] = [];
  const { nodes, nodeSelector } = view.tenant;
  const used = new Set(view.marked('pods').map((pod) => at<string>(pod, 'spec', 'nodeName')));
  const originals = new Set<string | undefined>();
  for (const superNode of view.superSide.nodes) {
    const { name = '', uid } = superNode.metadata;
    originals.add(uid);
    const own = shownNode(view, superNode);
    const isInPool = Object.entries(nodeSelector).every(([key, value]) => label(superNode, key) === value);
    const isWanted = (nodes === 'all' && isInPool) || used.has(name);
    if (own === undefined && isWanted) found.push(`Node ${name}: is not in the tenant`);
    if (own === undefined) continue;
    if (!isWanted && nodes === 'all') found.push(`Node ${name}: is in the tenant and not in its pool`);
    found.push(...compareNode(view, own, superNode).map((difference) => `Node ${name}: ${difference}`));
  }
  for (const own of copies(view.own.nodes)) {
    if (!originals.has(annotation(own, 'skerry.dev/uid')))
      found.push(`Node ${own.metadata.name}: is in the tenant and not in the super cluster`);
  }
  return found;
}

/** The tenant's picture of a node of the super cluster. */
export function shownNode(view: View, superNode: KubeObject): KubeObject | undefined {
  const { name = '', uid } = superNode.metadata;
  if (!view.tenant.nodesHidden) return view.ownObject('nodes', undefined, name);
  return view.own.nodes.find((own) => annotation(own, 'skerry.dev/uid') === uid);
}

function compareNode(view: View, own: KubeObject, superNode: KubeObject): string[] {
  const { name = '' } = superNode.metadata;
  const found = unequal(annotation(own, 'skerry.dev/uid'), superNode.metadata.uid, 'UID mark');
  for (const key of shownLabels)
    found.push(...unequal(label(own, key), label(superNode, key), `label ${key}`));
  const hidden = view.tenant.nodesHidden;
  const hostname = hidden ? own.metadata.name : label(superNode, 'kubernetes.io/hostname');
  found.push(...unequal(label(own, 'kubernetes.io/hostname'), hostname, 'label kubernetes.io/hostname'));
  if (hidden && !hiddenName.test(own.metadata.name ?? '')) found.push(`is shown as ${own.metadata.name}`);
  if (hidden && JSON.stringify(own).includes(name)) found.push('its name can be read in the tenant');
  for (const field of ['capacity', 'allocatable'])
    found.push(...unequal(at(own, 'status', field), at(superNode, 'status', field), field));
  const info = { ...at<Record<string, unknown>>(superNode, 'status', 'nodeInfo') };
  if (hidden) for (const field of identifying) info[field] = '';
  found.push(...unequal(at(own, 'status', 'nodeInfo'), info, 'nodeInfo'));
  const conditions = (node: KubeObject): unknown =>
    Object.fromEntries(listAt(node, 'status', 'conditions').map(({ type, status }) => [type, status]));
  found.push(...unequal(conditions(own), conditions(superNode), 'conditions'));
  const cordon = (node: KubeObject): unknown => at(node, 'spec', 'unschedulable') ?? false;
  found.push(...unequal(cordon(own), cordon(superNode), 'unschedulable'));
  return found;
}
