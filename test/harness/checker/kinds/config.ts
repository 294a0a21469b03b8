import type { KubeObject } from '../../../../kube/index.ts';
import { compareDown, type DownRules, type Expectation } from '../down.ts';
import { compareLabelsAndAnnotations } from '../labels-and-annotations.ts';
import { type KindChecks, type SeededDifference, setAnnotation, setField } from '../seeded-differences.ts';
import { at, label, listAt, unequal, type View } from '../view.ts';
import { containersOf, forbidden, isGated, withoutRefused } from './pod-admission.ts';
import { isTokenSecret } from './tokens.ts';

/** Holds heartbeats of nodes and nothing that runs: it may stay in the tenant. */
const heartbeats = 'kube-node-lease';

/** One super namespace for each of the tenant's, with a hashed name and a level of pod security; none besides. */
function compareNamespaces(view: View): string[] {
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
  const found = compareLabelsAndAnnotations(view, own, counterpart, own.metadata.name);
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

const rules: DownRules = {
  kind: 'serviceaccounts',
  what: 'ServiceAccount',
  expected: (own) => (own.metadata.namespace === heartbeats ? 'may' : 'yes'),
  // Only the name goes down; nobody in the super cluster may be anybody by it.
  compare: (_, superObject) => [
    ...(superObject['automountServiceAccountToken'] === false ? [] : ['its tokens are mounted']),
    ...(superObject['secrets'] === undefined ? [] : ['it has Secrets in the super cluster']),
  ],
  keysGoDown: false,
};

function compareServiceAccounts(view: View): string[] {
  return compareDown(rules, view);
}

export const rootCa = 'kube-root-ca.crt';

export function superConfigMapName(name: string): string {
  return name === rootCa ? `tenant-${rootCa}` : name;
}

/** ConfigMaps and Secrets go down while a pod or an Ingress uses them, when they are labelled so, or all of them. */
function compareConfig(view: View): string[] {
  const used = usedByOthers(view);
  const expected = (kind: 'configmaps' | 'secrets', own: KubeObject): Expectation => {
    const { namespace, name = '' } = own.metadata;
    // Reserved: what is called so in the super cluster is Skerry's.
    if (name === `tenant-${rootCa}` || name.startsWith('skerry-')) return 'no';
    const all = kind === 'configmaps' ? view.tenant.configMaps : view.tenant.secrets;
    if (all === 'all' || label(own, 'skerry.dev/sync') === 'true') return 'yes';
    return used.get(`${kind}/${namespace}/${name}`) ?? 'no';
  };
  const configMaps: DownRules = {
    kind: 'configmaps',
    what: 'ConfigMap',
    superName: superConfigMapName,
    isForeign: isLate,
    expected: (own) => expected('configmaps', own),
    compare: (own, superObject) =>
      ['data', 'binaryData', 'immutable'].flatMap((field) => unequal(own[field], superObject[field], field)),
  };
  const secrets: DownRules = {
    kind: 'secrets',
    what: 'Secret',
    isForeign: (object) => isTokenSecret(object) || isLate(object),
    expected: (own) => expected('secrets', own),
    compare(own, superObject) {
      const type = own['type'] === 'kubernetes.io/service-account-token' ? 'Opaque' : own['type'];
      return [
        ...unequal(type, superObject['type'], 'type'),
        ...['data', 'immutable'].flatMap((field) => unequal(own[field], superObject[field], field)),
      ];
    },
  };
  return [configMaps, late(configMaps), secrets, late(secrets)].flatMap((rules) => compareDown(rules, view));
}

/** On a copy of what the tenant did not have when a pod that refers to it went down. */
function isLate(superObject: KubeObject): boolean {
  return label(superObject, 'skerry.dev/late') !== undefined;
}

/** Rules for the late copies of objects that the first rules are for. */
function late(rules: DownRules): DownRules {
  return {
    ...rules,
    what: `late ${rules.what}`,
    superName: (name) => `skerry-late-${name}`,
    isForeign: (superObject) => !isLate(superObject),
    expected: () => 'may',
  };
}

/**
 * `kind/namespace/name` of what pods and Ingresses refer to: it has to be there for pods that are in the super cluster, must not be for those
 * that are refused, and may be for others (one that is about to go down, or has ended and was tidied away there).
 */
function usedByOthers(view: View): Map<string, Expectation> {
  const used = new Map<string, Expectation>();
  for (const pod of view.own.pods) {
    const { namespace = '', name = '' } = pod.metadata;
    const isThere = view.superObject('pods', namespace, name) !== undefined;
    if (!isThere && (forbidden(withoutRefused(pod)) !== undefined || isGated(pod))) continue;
    const use = (kind: 'configmaps' | 'secrets', reference: string | undefined): void => {
      const key = `${kind}/${namespace}/${reference}`;
      if (reference !== undefined && used.get(key) !== 'yes') used.set(key, isThere ? 'yes' : 'may');
    };
    for (const { name: secret } of listAt<{ name: string }>(pod, 'spec', 'imagePullSecrets'))
      use('secrets', secret);
    for (const volume of listAt(pod, 'spec', 'volumes')) {
      use('configmaps', at(volume, 'configMap', 'name'));
      use('secrets', at(volume, 'secret', 'secretName'));
      for (const source of listAt(volume, 'projected', 'sources')) {
        use('configmaps', at(source, 'configMap', 'name'));
        use('secrets', at(source, 'secret', 'name'));
      }
    }
    for (const container of containersOf(pod)) {
      for (const source of listAt(container, 'envFrom')) {
        use('configmaps', at(source, 'configMapRef', 'name'));
        use('secrets', at(source, 'secretRef', 'name'));
      }
      for (const variable of listAt(container, 'env')) {
        use('configmaps', at(variable, 'valueFrom', 'configMapKeyRef', 'name'));
        use('secrets', at(variable, 'valueFrom', 'secretKeyRef', 'name'));
      }
    }
  }
  for (const ingress of view.own.ingresses) {
    const { namespace = '', name = '' } = ingress.metadata;
    const isThere = view.superObject('ingresses', namespace, name) !== undefined;
    for (const { secretName } of listAt<{ secretName?: string }>(ingress, 'spec', 'tls')) {
      const key = `secrets/${namespace}/${secretName}`;
      if (used.get(key) !== 'yes') used.set(key, isThere ? 'yes' : 'may');
    }
  }
  return used;
}

const inConfiguration: SeededDifference[] = [
  {
    what: 'a ConfigMap differs',
    plant: (c) => setField(c.superObject('configmaps', 'settings'), ['data', 'colour'], 'red'),
    message: /ConfigMap shop\/settings: data/,
  },
  {
    what: 'a Secret is missing',
    plant: (c) => c.remove('superSide', 'secrets', c.superObject('secrets', 'password')),
    message: /Secret shop\/password: is not/,
  },
  {
    what: 'a ConfigMap that nobody uses is down',
    plant(c) {
      const extra = structuredClone(c.superObject('configmaps', 'settings'));
      const { name = '', uid = '' } = c.tenantObject('configmaps', 'unused').metadata;
      extra.metadata.name = name;
      setAnnotation(extra, 'skerry.dev/uid', uid);
      c.superSide.configmaps.push(extra);
    },
    message: /ConfigMap shop\/unused: is in the super cluster and should not be/,
  },
  {
    what: 'a ServiceAccount is missing',
    plant: (c) => c.remove('superSide', 'serviceaccounts', c.superObject('serviceaccounts', 'default')),
    message: /ServiceAccount shop\/default: is not/,
  },
  {
    what: "a place is taken by somebody else's object",
    plant: (c) => setField(c.superObject('serviceaccounts', 'default'), ['metadata', 'labels'], {}),
    message: /taken by an object without marks/,
  },
];

export const configChecks: KindChecks = {
  compare: [compareNamespaces, compareServiceAccounts, compareConfig],
  seeded: [...inConfiguration],
};
