import type { KubeObject } from '../../../kube/index.ts';
import { at, type CheckedKind, type SuperKind, type SuperSide, type TenantSide } from './view.ts';

/** Two agreeing sides, copied, so that a test may spoil them. */
export class Copy {
  readonly own: Record<CheckedKind, KubeObject[]>;
  readonly superSide: Record<SuperKind, KubeObject[]>;

  constructor(own: TenantSide, superSide: SuperSide) {
    this.own = structuredClone(own) as Record<CheckedKind, KubeObject[]>;
    this.superSide = structuredClone(superSide) as Record<SuperKind, KubeObject[]>;
  }

  /** T, by the beginning of its name. */
  tenantObject(kind: CheckedKind, prefix: string, inNamespace = 'shop'): KubeObject {
    const object = this.own[kind].find(
      ({ metadata }) =>
        metadata.name?.startsWith(prefix) &&
        (metadata.namespace === undefined || metadata.namespace === inNamespace),
    );
    if (object === undefined) throw new Error(`no ${kind} ${prefix} in the tenant`);
    return object;
  }

  /** S of the same T. */
  superObject(kind: CheckedKind, prefix: string, inNamespace = 'shop'): KubeObject {
    const { uid, annotations } = this.tenantObject(kind, prefix, inNamespace).metadata;
    const object = this.superSide[kind].find(
      ({ metadata }) =>
        metadata.annotations?.['skerry.dev/uid'] === uid || metadata.uid === annotations?.['skerry.dev/uid'],
    );
    if (object === undefined) throw new Error(`no ${kind} ${prefix} in the super cluster`);
    return object;
  }

  remove(side: 'own' | 'superSide', kind: CheckedKind, object: KubeObject): void {
    const list = this[side][kind];
    list.splice(list.indexOf(object), 1);
  }
}

function set(object: KubeObject, path: readonly (string | number)[], value: unknown): void {
  const parent = at<Record<string, unknown>>(object, ...path.slice(0, -1).map(String));
  if (parent === undefined) throw new Error(`no ${path.join('.')} in ${object.metadata.name}`);
  parent[String(path.at(-1))] = value;
}

function label(object: KubeObject, key: string, value: string): void {
  object.metadata.labels = { ...object.metadata.labels, [key]: value };
}

function annotate(object: KubeObject, key: string, value: string): void {
  object.metadata.annotations = { ...object.metadata.annotations, [key]: value };
}

interface Planting {
  what: string;
  plant(copy: Copy): void;
  /** What the checker has to say. */
  message: RegExp;
}

const inPods: Planting[] = [
  {
    what: 'a pod is missing',
    plant: (c) => c.remove('superSide', 'pods', c.superObject('pods', 'web')),
    message: /Pod shop\/web-\S+: is not in the super/,
  },
  {
    what: 'a pod has outlived its T',
    plant: (c) => c.remove('own', 'pods', c.tenantObject('pods', 'web')),
    message: /Pod \S+ of the super cluster has no counterpart/,
  },
  {
    what: 'a pod is there twice',
    plant(c) {
      const twin = structuredClone(c.superObject('pods', 'web'));
      twin.metadata.name = 'twin';
      c.superSide.pods.push(twin);
    },
    message: /twice/,
  },
  {
    what: 'a pod belongs to an earlier T of its name',
    plant: (c) => annotate(c.superObject('pods', 'web'), 'skerry.dev/uid', 'earlier'),
    message: /annotation skerry.dev\/uid is earlier/,
  },
  {
    what: 'a pod runs another image',
    plant: (c) => set(c.superObject('pods', 'web'), ['spec', 'containers', 0, 'image'], 'other'),
    message: /image of container main/,
  },
  {
    what: 'phases differ',
    plant: (c) => set(c.tenantObject('pods', 'web'), ['status', 'phase'], 'Pending'),
    message: /phase: "Pending"/,
  },
  {
    what: 'addresses differ',
    plant: (c) => set(c.tenantObject('pods', 'web'), ['status', 'podIP'], '1.2.3.4'),
    message: /podIP/,
  },
  {
    what: 'nodes differ',
    plant: (c) => set(c.tenantObject('pods', 'web'), ['spec', 'nodeName'], 'moon'),
    message: /node: "moon"/,
  },
  {
    what: 'readiness differs',
    plant: (c) => set(c.tenantObject('pods', 'web'), ['status', 'containerStatuses', 0, 'ready'], false),
    message: /containerStatuses/,
  },
  {
    what: "a pod opens the super cluster's API server",
    plant: (c) =>
      set(c.superObject('pods', 'web'), ['spec', 'volumes', 0], {
        name: 'token',
        projected: { sources: [{ serviceAccountToken: { path: 'token' } }] },
      }),
    message: /volume token holds a token/,
  },
  {
    what: 'a pod is privileged in the super cluster',
    plant: (c) =>
      set(c.superObject('pods', 'web'), ['spec', 'containers', 0, 'securityContext'], { privileged: true }),
    message: /has privileged/,
  },
  {
    what: 'a pod is being deleted in the tenant only',
    plant: (c) => set(c.tenantObject('pods', 'web'), ['metadata', 'deletionTimestamp'], 'now'),
    message: /in the tenant only/,
  },
  {
    what: 'a pod is being deleted in the super cluster only',
    plant: (c) => set(c.superObject('pods', 'web'), ['metadata', 'deletionTimestamp'], 'now'),
    message: /in the super cluster only/,
  },
  {
    what: 'a pod that is forbidden is down',
    plant: (c) => set(c.tenantObject('pods', 'web'), ['spec', 'hostNetwork'], true),
    message: /is in the super cluster and should not be/,
  },
];

const inMetadata: Planting[] = [
  {
    what: 'a mark names another tenant',
    plant: (c) => label(c.superObject('services', 'web'), 'skerry.dev/tenant', 'other'),
    message: /label skerry.dev\/tenant is other/,
  },
  {
    what: 'there is no such bucket',
    plant: (c) => label(c.superObject('services', 'web'), 'skerry.dev/bucket', '64'),
    message: /bucket is "64"/,
  },
  {
    what: 'a label did not go down',
    plant: (c) => label(c.tenantObject('pods', 'web'), 'more', 'x'),
    message: /labels more/,
  },
  {
    what: 'a label was removed in T only',
    plant: (c) => label(c.superObject('pods', 'web'), 'more', 'x'),
    message: /labels more is not the tenant's/,
  },
  {
    what: 'a denied annotation went down',
    plant(c) {
      annotate(c.tenantObject('pods', 'web'), 'external-dns.alpha.kubernetes.io/hostname', 'x');
      annotate(c.superObject('pods', 'web'), 'external-dns.alpha.kubernetes.io/hostname', 'x');
    },
    message: /although it is denied/,
  },
  {
    what: 'S has owners',
    plant: (c) => set(c.superObject('pods', 'web'), ['metadata', 'ownerReferences'], [{}]),
    message: /ownerReferences/,
  },
  {
    what: "S has T's finalizer",
    plant(c) {
      set(c.tenantObject('pods', 'web'), ['metadata', 'finalizers'], ['example.com/mine']);
      set(c.superObject('pods', 'web'), ['metadata', 'finalizers'], ['example.com/mine']);
    },
    message: /the tenant's finalizer example.com\/mine/,
  },
  {
    what: 'T names a super namespace',
    plant: (c) =>
      annotate(
        c.tenantObject('pods', 'web'),
        'leak',
        c.superObject('namespaces', 'shop').metadata.name ?? '',
      ),
    message: /shows the super namespace/,
  },
  {
    what: 'something is left of a deleted tenant',
    plant(c) {
      const left = structuredClone(c.superObject('configmaps', 'settings'));
      label(left, 'skerry.dev/tenant', 'long-gone');
      c.superSide.configmaps.push(left);
    },
    message: /left of the deleted tenant long-gone/,
  },
];

const inServices: Planting[] = [
  {
    what: 'a ClusterIP differs',
    plant: (c) => set(c.superObject('services', 'web'), ['spec', 'clusterIP'], '10.0.0.1'),
    message: /Service shop\/web: clusterIP/,
  },
  {
    what: 'ports of a Service differ',
    plant: (c) => set(c.superObject('services', 'web'), ['spec', 'ports', 0, 'port'], 81),
    message: /Service shop\/web: ports/,
  },
  {
    what: 'a Service leads to other pods',
    plant(c) {
      const slice = c.superSide.endpointslices.find(({ metadata }) => metadata.name?.startsWith('web-'));
      set(slice as KubeObject, ['endpoints'], []);
    },
    message: /Service shop\/web: ready endpoints/,
  },
  {
    what: 'a Service outside of its slice is down',
    plant: (c) => set(c.tenantObject('services', 'web'), ['spec', 'clusterIP'], '192.0.2.1'),
    message: /Service shop\/web: is in the super cluster and should not be/,
  },
  {
    what: 'a slice leads elsewhere',
    plant: (c) => set(c.superObject('endpointslices', 'manual'), ['endpoints', 0, 'addresses'], ['1.2.3.4']),
    message: /EndpointSlice shop\/manual-1: endpoints/,
  },
  {
    what: "default/kubernetes leads to somebody else's API server",
    plant: (c) => set(c.superObject('endpointslices', 'kubernetes', 'default'), ['ports', 0, 'port'], 1),
    message: /port of the API server/,
  },
];

const inConfiguration: Planting[] = [
  {
    what: 'a ConfigMap differs',
    plant: (c) => set(c.superObject('configmaps', 'settings'), ['data', 'colour'], 'red'),
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
      annotate(extra, 'skerry.dev/uid', uid);
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
    plant: (c) => set(c.superObject('serviceaccounts', 'default'), ['metadata', 'labels'], {}),
    message: /taken by an object without marks/,
  },
];

const inVolumes: Planting[] = [
  {
    what: 'a claim is smaller',
    plant: (c) =>
      set(
        c.superObject('persistentvolumeclaims', 'data'),
        ['spec', 'resources', 'requests', 'storage'],
        '1Mi',
      ),
    message: /requested storage/,
  },
  {
    what: 'a claim is not bound in the tenant',
    plant: (c) => set(c.tenantObject('persistentvolumeclaims', 'data'), ['status', 'phase'], 'Pending'),
    message: /PersistentVolumeClaim shop\/data: phase/,
  },
  {
    what: 'a volume is not in the tenant',
    plant: (c) => c.remove('own', 'persistentvolumes', c.tenantObject('persistentvolumes', 'pvc-')),
    message: /PersistentVolume \S+: is not in the tenant/,
  },
  {
    what: 'a volume has another claim',
    plant: (c) => set(c.tenantObject('persistentvolumes', 'pvc-'), ['spec', 'claimRef', 'uid'], 'other'),
    message: /PersistentVolume \S+: claim/,
  },
  {
    what: 'a volume has outlived its claim',
    plant: (c) =>
      c.remove('superSide', 'persistentvolumeclaims', c.superObject('persistentvolumeclaims', 'data')),
    message: /in the tenant without a bound claim/,
  },
];

function tokenSecret(copy: Copy): KubeObject {
  const { uid } = copy.tenantObject('pods', 'web').metadata;
  const secret = copy.superSide.secrets.find(
    ({ metadata }) => metadata.annotations?.['skerry.dev/uid'] === uid,
  );
  if (secret === undefined) throw new Error('no tokens of web in the super cluster');
  return secret;
}

function putClaims(copy: Copy, change: (claims: Record<string, unknown>) => void): void {
  const secret = tokenSecret(copy);
  const data = secret['data'] as Record<string, string>;
  for (const [key, value] of Object.entries(data)) {
    const parts = Buffer.from(value, 'base64').toString().split('.');
    const claims = JSON.parse(Buffer.from(parts[1] ?? '', 'base64url').toString()) as Record<string, unknown>;
    change(claims);
    parts[1] = Buffer.from(JSON.stringify(claims)).toString('base64url');
    data[key] = Buffer.from(parts.join('.')).toString('base64');
  }
}

const inTokens: Planting[] = [
  {
    what: 'the tokens of a pod are missing',
    plant: (c) => c.remove('superSide', 'secrets', tokenSecret(c)),
    message: /token of Pod shop\/web-\S+: token-0 of Secret \S+ is missing/,
  },
  {
    what: 'a token is no token',
    plant: (c) => set(tokenSecret(c), ['data', 'token-0'], 'bm9uc2Vuc2U='),
    message: /token of Pod shop\/web-\S+: it is no token/,
  },
  {
    what: 'a token is bound to another pod',
    plant: (c) =>
      putClaims(c, (claims) => set({ metadata: {}, ...claims }, ['kubernetes.io', 'pod', 'uid'], 'other')),
    message: /token of Pod shop\/web-\S+: pod/,
  },
  {
    what: 'a token names another node',
    plant: (c) =>
      putClaims(c, (claims) => set({ metadata: {}, ...claims }, ['kubernetes.io', 'node', 'name'], 'other')),
    message: /token of Pod shop\/web-\S+: node/,
  },
  {
    what: 'a pod has tokens before it has a node',
    plant: (c) => set(c.tenantObject('pods', 'web'), ['spec', 'nodeName'], ''),
    message: /Secret \S+ with tokens: its pod has no node/,
  },
  {
    what: 'a token has expired',
    plant: (c) => putClaims(c, (claims) => Object.assign(claims, { exp: 1 })),
    message: /it has expired/,
  },
  {
    what: 'tokens have outlived their pod',
    plant: (c) => annotate(tokenSecret(c), 'skerry.dev/uid', 'earlier'),
    message: /Secret \S+ with tokens: has no pod in the tenant/,
  },
  {
    what: 'a pod has two Secrets with tokens',
    plant: (c) => {
      const twin = structuredClone(tokenSecret(c));
      twin.metadata.name = 'twin';
      c.superSide.secrets.push(twin);
    },
    message: /its pod has another one, too/,
  },
];

const inRules: Planting[] = [
  {
    what: 'a network policy lets other tenants in',
    plant: (c) =>
      set(c.superObject('networkpolicies', 'walls'), ['spec', 'ingress', 0, 'from', 0], {
        namespaceSelector: {},
      }),
    message: /NetworkPolicy shop\/walls: what it selects/,
  },
  {
    what: 'a network policy is for other pods',
    plant: (c) =>
      set(c.superObject('networkpolicies', 'walls'), ['spec', 'podSelector', 'matchLabels'], { app: 'db' }),
    message: /NetworkPolicy shop\/walls: what it selects/,
  },
  {
    what: 'a network policy is missing',
    plant: (c) => c.remove('superSide', 'networkpolicies', c.superObject('networkpolicies', 'walls')),
    message: /NetworkPolicy shop\/walls: is not in the super/,
  },
  {
    what: 'a disruption budget is a share',
    plant: (c) => set(c.superObject('poddisruptionbudgets', 'web'), ['spec', 'minAvailable'], '50%'),
    message: /minAvailable of the super cluster is 50%, not a number/,
  },
  {
    what: 'a disruption budget wants fewer pods',
    plant: (c) => set(c.superObject('poddisruptionbudgets', 'web'), ['spec', 'minAvailable'], 0),
    message: /healthy pods wanted: 1 in the tenant, 0 in the super/,
  },
  {
    what: 'more may be disrupted on one side',
    plant: (c) => set(c.tenantObject('poddisruptionbudgets', 'web'), ['status', 'disruptionsAllowed'], 2),
    message: /disruptions allowed: 2 in the tenant/,
  },
  {
    what: 'an Ingress that is not allowed is down',
    plant(c) {
      const ingress = structuredClone(c.superObject('networkpolicies', 'walls'));
      c.superSide.ingresses.push(ingress);
      c.own.ingresses.push(c.tenantObject('networkpolicies', 'walls'));
    },
    message: /Ingress shop\/walls: is in the super cluster and should not be/,
  },
];

const inClusters: Planting[] = [
  {
    what: 'a class is missing',
    plant: (c) => c.remove('own', 'storageclasses', c.tenantObject('storageclasses', 'simulated')),
    message: /StorageClass simulated: is published/,
  },
  {
    what: 'a class is published no longer',
    plant: (c) => label(c.superObject('storageclasses', 'simulated'), 'skerry.dev/public', 'false'),
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
      label(c.superObject('namespaces', 'shop'), 'pod-security.kubernetes.io/enforce', 'privileged'),
    message: /enforced at level privileged/,
  },
];

/** What is done to two sides that agree, and what the checker must say of it. */
export const seededDifferences: readonly Planting[] = [
  ...inPods,
  ...inMetadata,
  ...inServices,
  ...inConfiguration,
  ...inVolumes,
  ...inTokens,
  ...inRules,
  ...inClusters,
];
