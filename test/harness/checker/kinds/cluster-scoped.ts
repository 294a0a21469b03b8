import type { KubeObject } from '../../../../kube/index.ts';
import { compareDown, type DownRules, type Expectation } from '../down.ts';
import { type KindChecks, type SeededDifference, setField, setLabel } from '../seeded-differences.ts';
import { annotation, at, type CheckedKind, label, listAt, unequal, type View } from '../view.ts';

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
function compareNodes(view: View): string[] {
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

interface PublishedRules {
  kind: CheckedKind;
  what: string;
  compare(own: KubeObject, superObject: KubeObject, view: View): string[];
  /** A copy may outlive its publication. */
  mayStay?: boolean;
}

const rules: readonly PublishedRules[] = [
  {
    kind: 'storageclasses',
    what: 'StorageClass',
    compare: fields(
      'provisioner',
      'parameters',
      'reclaimPolicy',
      'volumeBindingMode',
      'allowVolumeExpansion',
      'mountOptions',
    ),
  },
  {
    kind: 'priorityclasses',
    what: 'PriorityClass',
    compare(own, superObject, view) {
      const others = view.own.priorityclasses.filter(
        (each) => each !== own && each['globalDefault'] === true,
      );
      const isDefault = superObject['globalDefault'] === true && others.length === 0;
      return [
        ...fields('value', 'preemptionPolicy', 'description')(own, superObject),
        ...unequal(own['globalDefault'], isDefault, 'globalDefault'),
      ];
    },
  },
  {
    kind: 'runtimeclasses',
    what: 'RuntimeClass',
    // Nodes of the super cluster are no business of the tenant's.
    compare: (own, superObject) => [
      ...fields('handler', 'overhead')(own, superObject),
      ...unequal(own['scheduling'], undefined, 'scheduling'),
    ],
  },
  {
    kind: 'ingressclasses',
    what: 'IngressClass',
    compare: (own, superObject) =>
      unequal(at(own, 'spec'), { controller: at(superObject, 'spec', 'controller') }, 'spec'),
  },
  {
    kind: 'customresourcedefinitions',
    what: 'CustomResourceDefinition',
    compare: compareDefinitions,
    // It would take the tenant's objects with it.
    mayStay: true,
  },
];

/** Classes and definitions labelled skerry.dev/public=true are in the tenant as they are in the super cluster; no others. */
function comparePublished(view: View): string[] {
  return rules.flatMap((each) => comparePublishedKind(each, view));
}

function comparePublishedKind({ kind, what, compare, mayStay }: PublishedRules, view: View): string[] {
  const found: string[] = [];
  const published = view.superSide[kind].filter((each) => label(each, 'skerry.dev/public') === 'true');
  for (const superObject of published) {
    const name = superObject.metadata.name ?? '';
    const say = (text: string): void => void found.push(`${what} ${name}: ${text}`);
    const own = view.ownObject(kind, undefined, name);
    if (own === undefined) say('is published and not in the tenant');
    // One that the tenant made itself is left alone.
    if (own === undefined || annotation(own, 'skerry.dev/uid') === undefined) continue;
    if (annotation(own, 'skerry.dev/uid') !== superObject.metadata.uid) say('is a copy of an earlier one');
    for (const difference of compare(own, superObject, view)) say(difference);
  }
  if (mayStay === true) return found;
  const names = new Set(published.map(({ metadata }) => metadata.name));
  for (const own of copies(view.own[kind])) {
    if (!names.has(own.metadata.name)) found.push(`${what} ${own.metadata.name}: is no longer published`);
  }
  return found;
}

/** The same API, but that nothing is converted by a webhook; for lack of which only one version may be served. */
function compareDefinitions(own: KubeObject, superObject: KubeObject): string[] {
  const served = (object: KubeObject) =>
    listAt(object, 'spec', 'versions').filter((version) => version['served'] === true);
  const found = ['group', 'scope', 'names'].flatMap((field) =>
    unequal(at(own, 'spec', field), at(superObject, 'spec', field), field),
  );
  found.push(...unequal(at(own, 'spec', 'conversion'), { strategy: 'None' }, 'conversion'));
  if (at(superObject, 'spec', 'conversion', 'strategy') === 'Webhook') {
    if (served(own).length > 1) found.push('serves versions that nobody can convert');
  } else {
    found.push(...unequal(served(own), served(superObject), 'served versions'));
  }
  return found;
}

function fields(...names: readonly string[]) {
  return (own: KubeObject, superObject: KubeObject): string[] =>
    names.flatMap((name) => unequal(own[name], superObject[name], name));
}

/** Of objects of the tenant, those that are copies. */
function copies(objects: readonly KubeObject[]): KubeObject[] {
  return objects.filter((object) => annotation(object, 'skerry.dev/uid') !== undefined);
}

const claimRules: DownRules = {
  kind: 'persistentvolumeclaims',
  what: 'PersistentVolumeClaim',
  expected: expectedClaim,
  compare(own, superObject) {
    const found = [
      ...unequal(
        at(own, 'spec', 'resources', 'requests', 'storage'),
        at(superObject, 'spec', 'resources', 'requests', 'storage'),
        'requested storage',
      ),
    ];
    for (const field of ['accessModes', 'storageClassName', 'volumeMode', 'volumeName']) {
      found.push(...unequal(at(own, 'spec', field), at(superObject, 'spec', field), field));
    }
    for (const field of ['phase', 'capacity']) {
      found.push(...unequal(at(own, 'status', field), at(superObject, 'status', field), field));
    }
    return found;
  },
};

/** Claims go down, their volumes come up, bound to each other on either side. */
function compareVolumes(view: View): string[] {
  return [...compareDown(claimRules, view), ...compareUp(view)];
}

function expectedClaim(own: KubeObject, view: View): Expectation {
  const name = at<string>(own, 'spec', 'storageClassName');
  if (at(own, 'spec', 'dataSource') !== undefined || at(own, 'spec', 'dataSourceRef') !== undefined)
    return 'may';
  if (name === undefined || name === '') return 'may';
  const published = view.superSide.storageclasses.some(
    (each) => each.metadata.name === name && label(each, 'skerry.dev/public') === 'true',
  );
  const copy = view.own.storageclasses.find((each) => each.metadata.name === name);
  if (!published || (copy !== undefined && annotation(copy, 'skerry.dev/uid') === undefined)) return 'no';
  const volume = at<string>(own, 'spec', 'volumeName');
  if (volume === undefined) return 'yes';
  const bound = view.ownObject('persistentvolumes', undefined, volume);
  return bound !== undefined && annotation(bound, 'skerry.dev/uid') !== undefined ? 'yes' : 'may';
}

function compareUp(view: View): string[] {
  const found: string[] = [];
  const wanted = new Set<string>();
  for (const claim of view.own.persistentvolumeclaims) {
    const { namespace = '', name = '', uid, deletionTimestamp } = claim.metadata;
    const superClaim = view.superObject('persistentvolumeclaims', namespace, name);
    const volumeName = at<string>(superClaim, 'spec', 'volumeName');
    if (superClaim === undefined || volumeName === undefined) continue;
    wanted.add(volumeName);
    const superVolume = view.superSide.persistentvolumes.find(({ metadata }) => metadata.name === volumeName);
    const own = view.ownObject('persistentvolumes', undefined, volumeName);
    if (superVolume === undefined || deletionTimestamp !== undefined) continue;
    const differences =
      own === undefined
        ? ['is not in the tenant']
        : [
            ...unequal(annotation(own, 'skerry.dev/uid'), superVolume.metadata.uid, 'UID mark'),
            ...unequal(
              { namespace, name, uid },
              pick(at(own, 'spec', 'claimRef'), ['namespace', 'name', 'uid']),
              'claim',
            ),
            ...[
              'capacity',
              'accessModes',
              'storageClassName',
              'volumeMode',
              'persistentVolumeReclaimPolicy',
            ].flatMap((field) => unequal(at(own, 'spec', field), at(superVolume, 'spec', field), field)),
            ...unequal(at(own, 'status', 'phase'), at(superVolume, 'status', 'phase'), 'phase'),
          ];
    found.push(...differences.map((text) => `PersistentVolume ${volumeName}: ${text}`));
  }
  for (const own of view.own.persistentvolumes) {
    if (annotation(own, 'skerry.dev/uid') === undefined || wanted.has(own.metadata.name ?? '')) continue;
    found.push(`PersistentVolume ${own.metadata.name}: is in the tenant without a bound claim`);
  }
  return found;
}

function pick(
  value: Record<string, unknown> | undefined,
  fields: readonly string[],
): Record<string, unknown> {
  return Object.fromEntries(fields.map((field) => [field, value?.[field]]));
}

const inVolumes: SeededDifference[] = [
  {
    what: 'a claim is smaller',
    plant: (c) =>
      setField(
        c.superObject('persistentvolumeclaims', 'data'),
        ['spec', 'resources', 'requests', 'storage'],
        '1Mi',
      ),
    message: /requested storage/,
  },
  {
    what: 'a claim is not bound in the tenant',
    plant: (c) => setField(c.tenantObject('persistentvolumeclaims', 'data'), ['status', 'phase'], 'Pending'),
    message: /PersistentVolumeClaim shop\/data: phase/,
  },
  {
    what: 'a volume is not in the tenant',
    plant: (c) => c.remove('own', 'persistentvolumes', c.tenantObject('persistentvolumes', 'pvc-')),
    message: /PersistentVolume \S+: is not in the tenant/,
  },
  {
    what: 'a volume has another claim',
    plant: (c) => setField(c.tenantObject('persistentvolumes', 'pvc-'), ['spec', 'claimRef', 'uid'], 'other'),
    message: /PersistentVolume \S+: claim/,
  },
  {
    what: 'a volume has outlived its claim',
    plant: (c) =>
      c.remove('superSide', 'persistentvolumeclaims', c.superObject('persistentvolumeclaims', 'data')),
    message: /in the tenant without a bound claim/,
  },
];

const inClusters: SeededDifference[] = [
  {
    what: 'a class is missing',
    plant: (c) => c.remove('own', 'storageclasses', c.tenantObject('storageclasses', 'simulated')),
    message: /StorageClass simulated: is published/,
  },
  {
    what: 'a class is published no longer',
    plant: (c) => setLabel(c.superObject('storageclasses', 'simulated'), 'skerry.dev/public', 'false'),
    message: /StorageClass simulated: is no longer published/,
  },
  {
    what: 'a class preempts that may not',
    plant(c) {
      const published = { labels: { 'skerry.dev/public': 'true' } };
      const original = {
        metadata: { name: 'batch', uid: 'u', ...published },
        value: 1,
        preemptionPolicy: 'Never',
      };
      const copy = { name: 'batch', annotations: { 'skerry.dev/uid': 'u' } };
      c.superSide.priorityclasses.push(original);
      c.own.priorityclasses.push({ ...original, metadata: copy, preemptionPolicy: 'PreemptLowerPriority' });
    },
    message: /PriorityClass batch: preemptionPolicy/,
  },
  {
    what: 'a definition calls a webhook of the super cluster',
    plant(c) {
      const spec = { group: 'x.example', versions: [], conversion: { strategy: 'Webhook' } };
      const published = { labels: { 'skerry.dev/public': 'true' } };
      const copy = { name: 'w.x.example', annotations: { 'skerry.dev/uid': 'u' } };
      c.superSide.customresourcedefinitions.push({
        metadata: { name: 'w.x.example', uid: 'u', ...published },
        spec,
      });
      c.own.customresourcedefinitions.push({ metadata: copy, spec });
    },
    message: /CustomResourceDefinition w\.x\.example: conversion/,
  },
  {
    what: 'a node is missing',
    plant: (c) => c.remove('own', 'nodes', c.tenantObject('nodes', 'sim-0')),
    message: /Node sim-0: is not in the tenant/,
  },
  {
    what: 'a node is too many',
    plant: (c) => c.remove('superSide', 'nodes', c.superObject('nodes', 'sim-0')),
    message: /Node sim-0: is in the tenant and not/,
  },
  {
    what: 'a namespace is missing',
    plant: (c) => c.remove('superSide', 'namespaces', c.superObject('namespaces', 'shop')),
    message: /Namespace shop: is not/,
  },
  {
    what: 'a namespace has outlived its T',
    plant: (c) => c.remove('own', 'namespaces', c.tenantObject('namespaces', 'shop')),
    message: /Namespace \S+ of the super cluster has no counterpart/,
  },
  {
    what: 'a namespace is there twice',
    plant(c) {
      const twin = structuredClone(c.superObject('namespaces', 'shop'));
      twin.metadata.name = 'default-checked-shop-aaaaaaaaaaaaaaaa';
      c.superSide.namespaces.push(twin);
    },
    message: /Namespace shop is in the super cluster 2 times/,
  },
  {
    what: 'a namespace is not guarded',
    plant: (c) =>
      setLabel(c.superObject('namespaces', 'shop'), 'pod-security.kubernetes.io/enforce', 'privileged'),
    message: /enforced at level privileged/,
  },
];

export const clusterScopedChecks: KindChecks = {
  compare: [compareVolumes, comparePublished, compareNodes],
  seeded: [...inVolumes, ...inClusters],
};
