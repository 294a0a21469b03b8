import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { defaultPolicy } from '../../api/default-policy.ts';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import type { TenantPolicy } from '../../api/policy.ts';
import { isRecord, type KubeObject, type Resource, resource, resources } from '../../kube/index.ts';
import { fuzzed } from '../../kube/testing/fuzz.ts';
import { superNamespaceName } from '../mapping/names.ts';
import type { Action, DownKind, SyncedKind, UpKind } from './contract.ts';
import { customResourceKind } from './custom-resources.ts';
import { namespaceKind } from './namespaces.ts';
import { podKind } from './pods/pods.ts';
import { clusterDns, podContext, superPod, tenantPod } from './pods/testing.ts';
import type { Container } from './pods/types.ts';
import { allKinds } from './registry.ts';
import { serviceKind } from './services/services.ts';
import { created, service } from './services/testing.ts';
import { testContext, testNamespace, testTenant } from './testing.ts';

const runs = fuzzed(10_000);

const containers: Container[] = [
  {
    name: 'main',
    image: 'nginx:1',
    env: [
      { name: 'A', valueFrom: { configMapKeyRef: { name: 'kube-root-ca.crt', key: 'ca.crt' } } },
      { name: 'B', valueFrom: { fieldRef: { fieldPath: "metadata.annotations['x.example/y']" } } },
    ],
    envFrom: [{ secretRef: { name: 'secret' } }],
    ports: [{ containerPort: 80 }],
    resources: { requests: { cpu: '1' } },
    securityContext: { capabilities: { drop: ['ALL'] } },
    livenessProbe: { exec: { command: ['true'] } },
  },
];

const aPod = tenantPod({
  metadata: { labels: { app: 'web' }, annotations: { note: 'n', 'x.example/y': 'z' } },
  spec: {
    containers,
    initContainers: [{ name: 'init', image: 'busybox' }],
    ephemeralContainers: [{ name: 'debug', image: 'busybox' }],
    volumes: [
      { name: 'a', emptyDir: {} },
      { name: 'b', ephemeral: { volumeClaimTemplate: { metadata: {}, spec: {} } } },
      {
        name: 'c',
        projected: { sources: [{ serviceAccountToken: { path: 'token' } }, { downwardAPI: { items: [] } }] },
      },
    ],
    affinity: {
      nodeAffinity: {
        requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchExpressions: [] }] },
      },
      podAntiAffinity: {
        requiredDuringSchedulingIgnoredDuringExecution: [
          { topologyKey: 'zone', labelSelector: { matchLabels: {} } },
        ],
      },
    },
    topologySpreadConstraints: [{ maxSkew: 1, topologyKey: 'zone', labelSelector: {} }],
    readinessGates: [{ conditionType: 'example.com/a' }],
    dnsConfig: { searches: ['a'], options: [{ name: 'ndots', value: '1' }] },
    imagePullSecrets: [{ name: 'pull' }],
    subdomain: 'sub',
    hostname: 'host',
    nodeSelector: { 'kubernetes.io/hostname': 'n1' },
    resourceClaims: [],
    schedulingGates: [],
  },
  status: { conditions: [{ type: 'Ready', status: 'False' }], podIPs: [] },
});

const aService = {
  ...service({
    type: 'LoadBalancer',
    externalIPs: [],
    sessionAffinityConfig: { clientIP: { timeoutSeconds: 1 } },
  }),
  status: { loadBalancer: { ingress: [{ ip: '192.0.2.1' }] } },
};

const aValue = fc.oneof(
  fc.constantFrom<unknown>(
    null,
    '',
    0,
    -1,
    1e300,
    true,
    [],
    {},
    [null],
    'None',
    'x'.repeat(300),
    '__proto__',
    '10.1.2.3',
  ),
  fc.jsonValue({ maxDepth: 3 }),
  fc.constantFrom<unknown>(
    { nfs: { server: 'a', path: '/' } },
    { hostPath: { path: '/' } },
    { serviceAccountToken: {} },
  ),
);
const aKey = fc.oneof(
  fc.constantFrom(
    '__proto__',
    'constructor',
    'nfs',
    'hostPath',
    'name',
    'newField',
    'nodeName',
    'hostNetwork',
    'secret',
  ),
  fc.string({ maxLength: 8 }),
);
const aMutation = fc.record({
  at: fc.array(fc.nat(30), { minLength: 1, maxLength: 8 }),
  key: aKey,
  value: aValue,
  adds: fc.boolean(),
});

type Mutation = typeof aMutation extends fc.Arbitrary<infer T> ? T : never;

/** Of all but metadata, which is checked where answers are read. */
function mutated(object: KubeObject, mutations: readonly Mutation[]): KubeObject {
  const { apiVersion, kind, metadata, ...payload } = structuredClone(object);
  for (const { at, key, value, adds } of mutations) {
    let place: unknown = payload;
    let parent: Record<string, unknown> = payload;
    let last = Object.keys(payload)[0] ?? 'spec';
    for (const step of at) {
      const keys = isRecord(place) || Array.isArray(place) ? Object.keys(place) : [];
      if (keys.length === 0) break;
      parent = place as Record<string, unknown>;
      last = keys[step % keys.length] as string;
      place = parent[last];
    }
    const target = adds && isRecord(place) ? place : parent;
    // As JSON.parse makes it, whatever it is called.
    Object.defineProperty(target, target === place ? key : last, {
      value: structuredClone(value),
      enumerable: true,
      writable: true,
      configurable: true,
    });
  }
  return { ...payload, apiVersion, kind, metadata } as KubeObject;
}

/** So that pods may ask for a node. */
const policy: TenantPolicy = { ...defaultPolicy, daemonSets: 'allow' };
const context = podContext({ tenant: { policy }, tenantObjects: [clusterDns, aService], superObjects: [] });
const hidden = podContext({
  tenant: { policy, hideNodes: true },
  tenantObjects: [clusterDns],
  superObjects: [],
});

/** All that the syncer asks a kind about an object, in the order in which it does; what would be sent. */
function writes(kind: DownKind, raw: KubeObject, superObject: KubeObject, at = context): Action[] {
  const object = kind.compact?.tenant?.(raw) ?? raw;
  for (const index of Object.values(kind.indexes?.tenant ?? {})) index(object);
  kind.references?.of(object);
  kind.touches?.tenant?.(object, at);
  kind.superGone?.(object, at);
  const actions: Action[] = [...(kind.up?.(object, superObject, at) ?? [])];
  if (kind.admit?.(object, at).wanted !== true) return actions;
  kind.requires?.(object, at);
  return [
    ...actions,
    { do: 'createSuper', object: kind.toSuper(object, at) },
    ...kind.down(object, superObject, at),
  ];
}

/** What is never sent, told apart without the tables of the validation. */
function isDangerous(action: Action): boolean {
  if (action.do !== 'createSuper') return false;
  const { spec } = action.object as KubeObject & { spec: Record<string, unknown> };
  const volumes = (spec['volumes'] ?? []) as Record<string, unknown>[];
  const sources = volumes.flatMap((volume) => [volume, ...sourcesOf(volume['projected'])]);
  return (
    hasNull(spec) ||
    spec['hostNetwork'] === true ||
    ['newField', 'nodeName', 'externalIPs'].some((field) => Object.hasOwn(spec, field)) ||
    volumes.some((volume) => Object.keys(volume).length !== 2) ||
    sources.some((source) =>
      ['nfs', 'hostPath', 'serviceAccountToken', 'newField'].some((field) => Object.hasOwn(source, field)),
    )
  );
}

function sourcesOf(projected: unknown): object[] {
  return ((projected as { sources?: object[] } | undefined)?.sources ?? []).flatMap((source) => [source]);
}

function hasNull(value: unknown): boolean {
  if (value === null) return true;
  return typeof value === 'object' && Object.values(value).some(hasNull);
}

describe.each([
  ['pods', podKind, aPod, superPod(tenantPod({ spec: { containers } })), context],
  ['pods where nodes are hidden', podKind, aPod, superPod(tenantPod({ spec: { containers } })), hidden],
  ['services', serviceKind, aService, created(service(), { clusterIP: '10.112.4.20' }), context],
] as const)('%s of any JSON', (_name, kind, honest, superObject, at) => {
  it('are sent as they are, when they are honest', () => {
    const actions = writes(kind, honest, superObject, at).filter(({ do: what }) => what === 'createSuper');
    expect(actions).toHaveLength(1);
    for (const action of actions)
      if (action.do === 'createSuper')
        expect(kind.validate?.({ creates: action.object }, at)).toBeUndefined();
  });

  it('are translated and judged without an error, and nothing dangerous passes', () => {
    let passed = 0;
    fc.assert(
      fc.property(fc.array(aMutation, { minLength: 1, maxLength: 4 }), (mutations) => {
        for (const action of writes(kind, mutated(honest, mutations), superObject, at)) {
          const refused =
            action.do === 'createSuper'
              ? kind.validate?.({ creates: action.object }, at)
              : action.do === 'patchSuper'
                ? kind.validate?.(
                    { patches: superObject, patch: action.patch, subresource: action.subresource },
                    at,
                  )
                : undefined;
          if (refused !== undefined) continue;
          passed += 1;
          if (isDangerous(action)) throw new Error(`was sent: ${JSON.stringify(action)}`);
        }
      }),
      runs,
    );
    expect(passed).toBeGreaterThan(0);
  });

  it('are, too, when they are no pods at all', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.jsonValue(), (spec, status) => {
        writes(kind, { ...honest, spec, status } as KubeObject, superObject, at);
      }),
      fuzzed(10_000),
    );
  });
});

const offered = { [labelKeys.public]: 'true' };
const gadgets = resource('example.com', 'v1', 'gadgets', 'Gadget', true);
const schema = { type: 'object', properties: { size: { type: 'integer' } } };
const versions = [
  { name: 'v1', served: true, storage: true, schema, subresources: { status: {} } },
  { name: 'v1beta1', served: true, storage: false, schema },
];

/** As the super cluster has them, each with a place in the tenant. */
const superObjects: readonly (readonly [Resource, Record<string, unknown>])[] = [
  [
    resources.nodes,
    {
      spec: { podCIDR: '10.244.1.0/24', unschedulable: true, taints: [{ key: 'a', effect: 'NoSchedule' }] },
      status: {
        addresses: [{ type: 'InternalIP', address: '192.0.2.5' }],
        capacity: { cpu: '8' },
        allocatable: { cpu: '7' },
        conditions: [{ type: 'Ready', status: 'True', message: 'kubelet is ready' }],
        nodeInfo: { kubeletVersion: 'v1.36.3', machineID: 'm' },
        images: [{ names: ['nginx:1'] }],
        volumesInUse: ['v'],
      },
    },
  ],
  [
    resources.persistentVolumes,
    {
      spec: {
        accessModes: ['ReadWriteOnce'],
        capacity: { storage: '1Gi' },
        claimRef: {
          namespace: superNamespaceName(testTenant(), 'shop'),
          name: 'data',
          uid: 'uid-of-super-claim',
        },
        csi: { driver: 'd', volumeAttributes: { path: '/a' }, nodeStageSecretRef: { name: 's' } },
        nodeAffinity: { required: { nodeSelectorTerms: [] } },
      },
      status: { phase: 'Bound', message: 'm' },
    },
  ],
  [
    resources.storageClasses,
    {
      provisioner: 'p',
      parameters: { type: 'ssd', secretName: 's' },
      mountOptions: ['ro'],
      reclaimPolicy: 'Delete',
    },
  ],
  [
    resources.priorityClasses,
    { value: 10, globalDefault: true, description: 'd', preemptionPolicy: 'Never' },
  ],
  [
    resources.runtimeClasses,
    { handler: 'runc', overhead: { podFixed: { cpu: '1' } }, scheduling: { nodeSelector: {} } },
  ],
  [resources.ingressClasses, { spec: { controller: 'example.com/a', parameters: { kind: 'K', name: 'n' } } }],
  [
    resources.customResourceDefinitions,
    {
      spec: {
        group: 'example.com',
        scope: 'Namespaced',
        names: { plural: 'gadgets', singular: 'gadget', kind: 'Gadget', listKind: 'GadgetList' },
        conversion: { strategy: 'Webhook', webhook: { clientConfig: { url: 'https://a' } } },
        versions,
      },
      status: { storedVersions: ['v1'], conditions: [{ type: 'Established', status: 'True' }] },
    },
  ],
];

const originals: readonly (readonly [string, UpKind, KubeObject])[] = superObjects.map(([of, fields]) => {
  const name = of === resources.customResourceDefinitions ? 'gadgets.example.com' : 'it';
  const metadata = { name, uid: 'uid-of-original', resourceVersion: '7', labels: offered };
  const kind = allKinds.find((each): each is UpKind => each.direction === 'up' && each.resource === of);
  if (kind === undefined) throw new Error(`no kind for ${of.plural}`);
  return [of.plural, kind, { apiVersion: 'v1', kind: of.kind, metadata, ...fields } as KubeObject] as const;
});

/** Where all of them have a place. */
const world = (() => {
  const tenant = testTenant({ customResources: ['gadgets.example.com'] });
  const at = testContext({ tenant, kinds: allKinds });
  const claim = (namespace: string, uid: string, annotations = {}): KubeObject => ({
    apiVersion: 'v1',
    kind: resources.persistentVolumeClaims.kind,
    metadata: { namespace, name: 'data', uid, annotations },
  });
  const shop = testNamespace('shop');
  return testContext({
    tenant,
    kinds: allKinds,
    tenantObjects: [shop, claim('shop', 'uid-of-claim')],
    superObjects: [
      ...originals.map(([, , object]) => object),
      { ...namespaceKind.toSuper(shop, at), kind: resources.namespaces.kind },
      claim(superNamespaceName(tenant, 'shop'), 'uid-of-super-claim', {
        [annotationKeys.uid]: 'uid-of-claim',
      }),
    ],
  });
})();

/** What caches and watches ask a kind about an object of either side. */
function seen(kind: SyncedKind, side: 'tenant' | 'super', raw: KubeObject): KubeObject {
  const object = kind.compact?.[side]?.(structuredClone(raw)) ?? raw;
  for (const index of Object.values(kind.indexes?.[side] ?? {})) index(object);
  kind.touches?.[side]?.(object, world);
  if (kind.direction === 'up' && side === 'super') {
    kind.superNamespaceOf?.(object);
    kind.tenantRef(object, world);
    kind.isHeartbeat?.(object, object);
  }
  return object;
}

/** What would be done for a copy that a tenant has changed. */
function mends(kind: UpKind, raw: KubeObject, superObject: KubeObject): Action[] {
  const copy = seen(kind, 'tenant', raw);
  const original = seen(kind, 'super', superObject);
  kind.adopts?.(copy, original, world);
  return [...kind.up(copy, original, world), ...(kind.superGone?.(copy, world) ?? [])];
}

describe.each(originals)('copies of %s, of any JSON', (_name, kind, original) => {
  const made = kind.toTenant(seen(kind, 'super', original), world);
  const copy: KubeObject = {
    ...made,
    metadata: { ...made.metadata, uid: 'uid-of-copy', resourceVersion: '9' },
  };

  it('have a place, when they are honest', () => {
    expect(kind.tenantRef(original, world)).toEqual({ name: original.metadata.name });
    expect(copy.metadata.annotations?.[annotationKeys.uid]).toBe('uid-of-original');
  });

  it('are read and put back without an error, and nothing is written into the super cluster', () => {
    let writes = 0;
    fc.assert(
      fc.property(fc.array(aMutation, { minLength: 1, maxLength: 4 }), (mutations) => {
        for (const action of mends(kind, mutated(copy, mutations), original)) {
          if (/Super$/.test(action.do)) throw new Error(`was done: ${JSON.stringify(action)}`);
          writes += 1;
        }
        seen(kind, 'super', mutated(original, mutations));
      }),
      runs,
    );
    expect(writes).toBeGreaterThan(0);
  });

  it('are, too, when they are nothing of the kind', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.jsonValue(), (spec, status) => {
        mends(kind, { ...copy, spec, status } as KubeObject, original);
        seen(kind, 'super', { ...original, spec, status } as KubeObject);
      }),
      fuzzed(10_000),
    );
  });
});

describe('custom resources of any JSON', () => {
  const kind = customResourceKind({ resource: gadgets, hasStatus: true });
  const metadata = {
    namespace: 'shop',
    name: 'it',
    uid: 'uid-of-gadget',
    resourceVersion: '3',
    generation: 2,
  };
  const honest: KubeObject = {
    apiVersion: 'example.com/v1',
    kind: 'Gadget',
    metadata,
    spec: { size: 3, parts: [{ name: 'a' }], deep: { er: { x: 'y' } } },
    status: { observedGeneration: 1, conditions: [{ type: 'Ready', status: 'True', observedGeneration: 1 }] },
  };
  const superObject: KubeObject = {
    ...kind.toSuper(honest, world),
    status: {
      observedGeneration: 1,
      conditions: [{ type: 'Ready', status: 'False', observedGeneration: 1 }],
    },
  };

  /** Into the super cluster goes the payload under the marks of the tenant alone, and never a status. */
  function follow(raw: KubeObject): void {
    const object = seen(kind, 'tenant', raw);
    expect(kind.admit?.(object, world)).toEqual({ wanted: true });
    const made = kind.toSuper(object, world);
    const { status: _status, apiVersion: _apiVersion, kind: _kind, metadata: _metadata, ...payload } = raw;
    expect(made.metadata).toMatchObject({
      namespace: superNamespaceName(world.tenant, 'shop'),
      labels: { [labelKeys.tenant]: world.tenant.uid },
    });
    expect({ ...made, metadata: {} }).toEqual({
      ...payload,
      apiVersion: 'example.com/v1',
      kind: 'Gadget',
      metadata: {},
    });
    for (const action of [
      ...kind.down(object, superObject, world),
      ...(kind.up?.(object, superObject, world) ?? []),
    ])
      if (action.do === 'patchSuper') {
        const { metadata: patched = {}, ...rest } = action.patch as { metadata?: object };
        expect(Object.keys(rest)).not.toContain('status');
        expect(Object.keys(patched)).not.toContain('labels');
      } else expect(action).toMatchObject({ do: 'patchTenant', subresource: 'status' });
  }

  it('are carried down without an error, under the marks of their tenant and without a status', () => {
    follow(honest);
    fc.assert(
      fc.property(fc.array(aMutation, { minLength: 1, maxLength: 4 }), (mutations) => {
        follow(mutated(honest, mutations));
      }),
      runs,
    );
  });

  it('are, too, when they are nothing of the kind', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.jsonValue(), (spec, status) => {
        follow({ ...honest, spec, status } as KubeObject);
      }),
      fuzzed(10_000),
    );
  });
});
