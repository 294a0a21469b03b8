import type { KubeObject } from '../../../../kube/index.ts';
import { annotation, at, label, listAt, unequal } from '../raw.ts';
import type { CheckedKind } from '../side.ts';
import type { View } from '../view.ts';

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
export function comparePublished(view: View): string[] {
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
export function copies(objects: readonly KubeObject[]): KubeObject[] {
  return objects.filter((object) => annotation(object, 'skerry.dev/uid') !== undefined);
}
