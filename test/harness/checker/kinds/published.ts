import type { KubeObject } from '../../../../kube/index.ts';
import { annotation, at, label, listAt, unequal } from '../raw.ts';
import type { View } from '../view.ts';

const classFields = [
  'provisioner',
  'parameters',
  'reclaimPolicy',
  'volumeBindingMode',
  'allowVolumeExpansion',
  'mountOptions',
];

/** StorageClasses labelled skerry.dev/public=true are in the tenant as they are in the super cluster; no others. */
export function compareStorageClasses(view: View): string[] {
  const found: string[] = [];
  const published = view.superSide.storageclasses.filter(
    (each) => label(each, 'skerry.dev/public') === 'true',
  );
  for (const superObject of published) {
    const name = superObject.metadata.name ?? '';
    const say = (text: string): void => void found.push(`StorageClass ${name}: ${text}`);
    const own = view.ownObject('storageclasses', undefined, name);
    if (own === undefined) say('is published and not in the tenant');
    // One that the tenant made itself is left alone.
    if (own === undefined || annotation(own, 'skerry.dev/uid') === undefined) continue;
    if (annotation(own, 'skerry.dev/uid') !== superObject.metadata.uid) say('is a copy of an earlier one');
    for (const field of classFields) {
      for (const difference of unequal(own[field], superObject[field], field)) say(difference);
    }
  }
  const names = new Set(published.map(({ metadata }) => metadata.name));
  for (const own of copies(view.own.storageclasses)) {
    if (!names.has(own.metadata.name))
      found.push(`StorageClass ${own.metadata.name}: is no longer published`);
  }
  return found;
}

const shownLabels = [
  'kubernetes.io/hostname',
  'kubernetes.io/os',
  'kubernetes.io/arch',
  'topology.kubernetes.io/zone',
  'topology.kubernetes.io/region',
];

/** All nodes of the super cluster, or those that pods of the tenant are on, with what schedulers and people look at. */
export function compareNodes(view: View): string[] {
  const found: string[] = [];
  const used = new Set(view.marked('pods').map((pod) => at<string>(pod, 'spec', 'nodeName')));
  const superNodes = new Map(view.superSide.nodes.map((node) => [node.metadata.name, node]));
  for (const [name = '', superNode] of superNodes) {
    const own = view.ownObject('nodes', undefined, name);
    const isWanted = view.tenant.nodes === 'all' || used.has(name);
    if (own === undefined && isWanted) found.push(`Node ${name}: is not in the tenant`);
    if (own === undefined) continue;
    found.push(...compareNode(own, superNode).map((difference) => `Node ${name}: ${difference}`));
  }
  for (const own of copies(view.own.nodes)) {
    const { name } = own.metadata;
    if (!superNodes.has(name)) found.push(`Node ${name}: is in the tenant and not in the super cluster`);
  }
  return found;
}

function compareNode(own: KubeObject, superNode: KubeObject): string[] {
  const found = unequal(annotation(own, 'skerry.dev/uid'), superNode.metadata.uid, 'UID mark');
  for (const key of shownLabels)
    found.push(...unequal(label(own, key), label(superNode, key), `label ${key}`));
  for (const field of ['capacity', 'allocatable', 'nodeInfo']) {
    found.push(...unequal(at(own, 'status', field), at(superNode, 'status', field), field));
  }
  const conditions = (node: KubeObject): unknown =>
    Object.fromEntries(listAt(node, 'status', 'conditions').map(({ type, status }) => [type, status]));
  found.push(...unequal(conditions(own), conditions(superNode), 'conditions'));
  found.push(
    ...unequal(
      at(own, 'spec', 'unschedulable') ?? false,
      at(superNode, 'spec', 'unschedulable') ?? false,
      'unschedulable',
    ),
  );
  return found;
}

function copies(objects: readonly KubeObject[]): KubeObject[] {
  return objects.filter((object) => annotation(object, 'skerry.dev/uid') !== undefined);
}
