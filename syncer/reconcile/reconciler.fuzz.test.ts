import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { labelKeys } from '../../api/labels.ts';
import {
  ApiError,
  isRecord,
  type KubeClient,
  type KubeObject,
  type MergePatch,
  type ObjectRef,
  type Resource,
  resources,
  systemClock,
} from '../../kube/index.ts';
import { asObject } from '../../kube/object-shape.ts';
import { fuzzed } from '../../kube/testing/fuzz.ts';
import type { DownKind } from '../kinds/contract.ts';
import { allKinds } from '../kinds/registry.ts';
import { testTenant } from '../kinds/testing.ts';
import { superNamespaceName } from '../mapping/names.ts';
import { Caches } from './caches.ts';
import { IdentityGuard } from './guards.ts';
import { tenantKeyOf } from './keys.ts';
import { Reconciler } from './reconciler.ts';
import { Router } from './router.ts';
import { TenantState } from './tenant-state.ts';

const hostile: unknown[] = [
  null,
  undefined,
  '',
  0,
  -1,
  true,
  [],
  {},
  [null],
  [[]],
  { length: 1e9 },
  '__proto__',
  'constructor',
  '../../kube-system',
  'a\nb',
  'x'.repeat(300),
  '10.0.0.1',
  'kube-system',
];
const aValue = fc.oneof(fc.constantFrom(...hostile), fc.jsonValue({ maxDepth: 4 }));
const aKey = fc.oneof(
  fc.constantFrom(
    '__proto__',
    'constructor',
    'toString',
    'name',
    'namespace',
    'labels',
    'hostPath',
    labelKeys.tenant,
    'skerry.dev/uid',
  ),
  fc.string({ maxLength: 8 }),
);
/** A place in an object, found by taking the n-th field again and again, and what becomes of it. */
const aMutation = fc.record({
  path: fc.array(fc.nat(12), { maxLength: 9 }),
  key: aKey,
  value: aValue,
  adds: fc.boolean(),
});
type Mutation = typeof aMutation extends fc.Arbitrary<infer T> ? T : never;

function mutated(object: KubeObject, mutations: readonly Mutation[]): KubeObject {
  const copy = structuredClone(object);
  for (const { path, key, value, adds } of mutations) {
    let place: object = copy;
    let field = 'spec';
    for (const step of path) {
      const fields = Object.keys(place);
      field = fields[step % Math.max(1, fields.length)] ?? key;
      // Never into what objects inherit: that is everyone's.
      const next = Object.hasOwn(place, field) ? (place as Record<string, unknown>)[field] : undefined;
      if (typeof next !== 'object' || next === null) break;
      place = next;
    }
    const name = adds ? key : field;
    // An array's own, which no JSON has.
    if (Array.isArray(place) && name === 'length') continue;
    // As JSON.parse does it, whatever the field is called.
    Object.defineProperty(place, name, {
      value: structuredClone(value),
      enumerable: true,
      writable: true,
      configurable: true,
    });
  }
  return JSON.parse(JSON.stringify(copy)) as KubeObject;
}

const metadata = {
  name: 'web',
  namespace: 'shop',
  uid: 'u-1',
  resourceVersion: '1',
  labels: { app: 'web', [labelKeys.sync]: 'true' },
  annotations: { note: 'x' },
};
const selector = {
  matchLabels: { app: 'web' },
  matchExpressions: [{ key: 'tier', operator: 'In', values: ['a'] }],
};
const container = {
  name: 'main',
  image: 'nginx:1',
  env: [{ name: 'A', valueFrom: { fieldRef: { fieldPath: "metadata.annotations['note']" } } }],
  envFrom: [{ configMapRef: { name: 'web' } }],
  ports: [{ containerPort: 80 }],
};

/** An object of each kind that goes down as it is. */
const honest: readonly (readonly [Resource, KubeObject])[] = [
  [
    resources.namespaces,
    { metadata: { ...metadata, name: 'extra', namespace: undefined } as never, spec: {} },
  ],
  [resources.serviceAccounts, { metadata, secrets: [{ name: 'a' }] }],
  [resources.configMaps, { metadata, data: { a: '1' }, binaryData: { b: 'eA==' }, immutable: false }],
  [resources.secrets, { metadata, type: 'Opaque', data: { a: 'eA==' } }],
  [
    resources.persistentVolumeClaims,
    {
      metadata,
      spec: {
        accessModes: ['ReadWriteOnce'],
        storageClassName: 'fast',
        resources: { requests: { storage: '1Gi' } },
        dataSourceRef: { kind: 'PersistentVolumeClaim', name: 'b' },
      },
      status: { phase: 'Pending' },
    },
  ],
  [
    resources.networkPolicies,
    {
      metadata,
      spec: {
        podSelector: selector,
        policyTypes: ['Ingress', 'Egress'],
        ingress: [{ from: [{ podSelector: selector, namespaceSelector: selector }], ports: [{ port: 80 }] }],
        egress: [{ to: [{ ipBlock: { cidr: '192.0.2.0/24', except: ['192.0.2.1/32'] } }] }],
      },
    },
  ],
  [resources.podDisruptionBudgets, { metadata, spec: { minAvailable: 1, selector } }],
  [
    resources.pods,
    {
      metadata,
      spec: {
        serviceAccountName: 'default',
        containers: [container],
        initContainers: [{ ...container, name: 'init' }],
        volumes: [
          { name: 'a', configMap: { name: 'web' } },
          { name: 'b', projected: { sources: [{ secret: { name: 'web' } }] } },
        ],
        affinity: {
          podAffinity: {
            requiredDuringSchedulingIgnoredDuringExecution: [
              {
                topologyKey: 'zone',
                labelSelector: selector,
                namespaceSelector: selector,
                namespaces: ['shop'],
              },
            ],
          },
        },
        topologySpreadConstraints: [
          { maxSkew: 1, topologyKey: 'zone', whenUnsatisfiable: 'DoNotSchedule', labelSelector: selector },
        ],
        tolerations: [{ key: 'a', operator: 'Exists' }],
        dnsConfig: { searches: ['x'] },
      },
      status: { phase: 'Pending', conditions: [{ type: 'Ready', status: 'False' }] },
    },
  ],
  [
    resources.services,
    {
      metadata,
      spec: {
        type: 'ClusterIP',
        clusterIP: '10.112.4.20',
        clusterIPs: ['10.112.4.20'],
        ports: [{ port: 80, targetPort: 'http' }],
        selector: { app: 'web' },
      },
      status: { loadBalancer: { ingress: [{ ip: '192.0.2.1' }] } },
    },
  ],
  [
    resources.endpointSlices,
    {
      metadata: { ...metadata, labels: { 'kubernetes.io/service-name': 'bare' } },
      addressType: 'IPv4',
      endpoints: [
        { addresses: ['203.0.113.7'], conditions: { ready: true }, targetRef: { kind: 'Pod', name: 'web' } },
      ],
      ports: [{ port: 80 }],
    },
  ],
  [
    resources.ingresses,
    {
      metadata,
      spec: {
        ingressClassName: 'nginx',
        tls: [{ secretName: 'web', hosts: ['a.example'] }],
        rules: [
          {
            host: 'a.example',
            http: {
              paths: [
                {
                  path: '/',
                  pathType: 'Prefix',
                  backend: { service: { name: 'web', port: { number: 80 } } },
                },
              ],
            },
          },
        ],
      },
    },
  ],
];

/** What was asked of a server. */
interface Call {
  verb: string;
  resource: Resource;
  ref: ObjectRef;
  object?: KubeObject;
  patch?: MergePatch;
}

/** Answers whatever is written with what was written, and finds the objects of one tenant. */
function recordingClient(
  calls: Call[],
  uid: string,
  have: (resource: Resource) => KubeObject | undefined,
): KubeClient {
  const client = {
    get: async (resource: Resource, ref: ObjectRef) => {
      if (ref.name === 'kube-system') return { metadata: { name: 'kube-system', uid } };
      const object = have(resource);
      if (object === undefined) throw new ApiError(404, undefined, 'get');
      return object;
    },
    list: async () => ({ metadata: { resourceVersion: '1' }, items: [] }),
    create: async (resource: Resource, object: KubeObject) => {
      calls.push({ verb: 'create', resource, ref: object.metadata as ObjectRef, object });
      return { ...object, metadata: { ...object.metadata, uid: 'new', resourceVersion: '2' } };
    },
    createSubresource: async () => ({}),
    patch: async (resource: Resource, ref: ObjectRef, patch: MergePatch) => {
      calls.push({ verb: 'patch', resource, ref, patch });
      return { metadata: { ...ref, resourceVersion: '3' } };
    },
    update: async (_resource: Resource, object: KubeObject) => object,
    delete: async (resource: Resource, ref: ObjectRef) => void calls.push({ verb: 'delete', resource, ref }),
  };
  return client as unknown as KubeClient;
}

const tenant = testTenant({ syncIngresses: true, syncConfigMaps: 'all', syncSecrets: 'all' });
const shop = superNamespaceName(tenant, 'shop');

/** Follows an object of a tenant through caches, router, resync and reconcile; resolves to what the super cluster was asked for. */
async function follow(resource: Resource, raw: KubeObject, twin: KubeObject | undefined): Promise<Call[]> {
  const object = asObject<KubeObject>(raw);
  const calls: Call[] = [];
  const superCaches = new Caches(allKinds, 'super');
  const superClient = recordingClient(calls, 'super', () => undefined);
  const state = new TenantState({
    info: tenant,
    client: recordingClient([], 'tenant', () => object),
    caches: new Caches(allKinds, 'tenant'),
    superCaches,
    identity: 'tenant',
    superIdentity: 'super',
    nowMs: () => 0,
  });
  const router = new Router({
    kinds: allKinds,
    superCaches,
    clock: systemClock,
    enqueue: () => undefined,
    enqueueFirst: () => undefined,
    onError: (_tenant, _key, error) => {
      throw error;
    },
  });
  const reconciler = new Reconciler({
    kinds: allKinds,
    superClient,
    superCaches,
    superIdentity: new IdentityGuard(superClient, undefined),
    enqueue: () => undefined,
    onMismatch: () => undefined,
    onHeld: () => undefined,
  });
  router.join(state);
  const add = (caches: Caches, at: Resource, each: KubeObject): void =>
    caches.store(at).apply('ADDED', structuredClone(each));
  const namespace: KubeObject = { metadata: { name: 'shop', uid: 'ns', resourceVersion: '1' } };
  add(state.caches, resources.namespaces, namespace);
  add(superCaches, resources.namespaces, kindOf(resources.namespaces).toSuper(namespace, state.context()));
  add(state.caches, resources.services, {
    metadata: { name: 'bare', namespace: 'shop', uid: 'bare', resourceVersion: '1' },
    spec: { clusterIP: 'None' },
  });
  if (twin !== undefined) add(superCaches, resource, twin);
  add(state.caches, resource, object);
  const key = tenantKeyOf(kindOf(resource), object);
  const outcome = await reconciler.reconcile(state, key, new AbortController().signal);
  expect(outcome.is).toBeTypeOf('string');
  return calls;
}

function kindOf(resource: Resource): DownKind {
  return allKinds.find(
    (kind) => kind.direction === 'down' && kind.resource === resource && kind.isSecondCopy !== true,
  ) as DownKind;
}

/** The super object that was made from the honest twin, with what the super cluster says of it. */
async function superTwin(resource: Resource, object: KubeObject): Promise<KubeObject | undefined> {
  const [made] = await follow(resource, object, undefined);
  if (made?.object === undefined) return undefined;
  return { ...made.object, metadata: { ...made.object.metadata, uid: 's-1', resourceVersion: '9' } };
}

/** What must hold of any write in the super cluster, told without what has made it. */
function expectOwn(resource: Resource, { verb, ref, object, patch }: Call): void {
  if (resource.namespaced) expect(ref.namespace).toBe(shop);
  else expect(ref.name).toMatch(/^acme-blue-(.*-)?[a-z2-7]{16}$/s);
  if (verb === 'create') {
    expect(object?.metadata.labels?.[labelKeys.tenant]).toBe(tenant.uid);
    expect(object?.metadata.finalizers ?? []).toEqual([]);
    expect(object?.metadata.ownerReferences ?? []).toEqual([]);
  }
  const { labels, namespace, finalizers, ownerReferences } = (patch?.['metadata'] ?? {}) as Record<
    string,
    unknown
  >;
  if (isRecord(labels) && Object.hasOwn(labels, labelKeys.tenant))
    expect(labels[labelKeys.tenant]).toBe(tenant.uid);
  expect([namespace, finalizers, ownerReferences]).toEqual([undefined, undefined, undefined]);
  const spec = object?.['spec'];
  if (isRecord(spec)) {
    expect([spec['hostNetwork'] ?? false, spec['hostPID'] ?? false, spec['externalIPs'] ?? []]).toEqual([
      false,
      false,
      [],
    ]);
  }
}

/** No API server takes the name; nothing readable is left of it beside the hash. */
const namedByADash = { path: [0, 0], key: '__proto__', value: '-', adds: false };

describe.each(honest)('$plural of any JSON', (resource, object) => {
  it('are followed without an error that leaves the reconcile, and written under the marks of their tenant alone', async () => {
    const twin = await superTwin(resource, object);
    await fc.assert(
      fc.asyncProperty(fc.array(aMutation, { maxLength: 4 }), fc.boolean(), async (mutations, exists) => {
        const changed = mutated(object, mutations);
        try {
          asObject(changed);
        } catch {
          // The client refuses it.
          return;
        }
        for (const call of await follow(resource, changed, exists ? twin : undefined)) {
          expectOwn(resource, call);
        }
      }),
      { ...fuzzed(3_000), examples: [[[namedByADash], false]] },
    );
    if (
      resource !== resources.ingresses &&
      resource !== resources.persistentVolumeClaims &&
      resource !== resources.endpointSlices
    )
      // The control: what is honest is written.
      expect(twin).toBeDefined();
  });
});
