import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { defaultPolicy, type TenantPolicy } from '../../api/policy.ts';
import { isRecord, type KubeObject } from '../../kube/index.ts';
import { fuzzed } from '../../kube/testing/fuzz.ts';
import type { Action, DownKind } from './contract.ts';
import { podKind } from './pods/pods.ts';
import { clusterDns, podContext, superPod, tenantPod } from './pods/testing.ts';
import type { Container } from './pods/types.ts';
import { serviceKind } from './services/services.ts';
import { created, service } from './services/testing.ts';

const runs = fuzzed(1_500);

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
  at: fc.array(fc.nat(30), { maxLength: 7 }),
  key: aKey,
  value: aValue,
  adds: fc.boolean(),
});

type Mutation = typeof aMutation extends fc.Arbitrary<infer T> ? T : never;

/** Of spec or status: metadata is checked where answers are read. */
function mutated(object: KubeObject, mutations: readonly Mutation[]): KubeObject {
  const copy = structuredClone(object) as KubeObject & Record<string, unknown>;
  for (const { at, key, value, adds } of mutations) {
    let place: unknown = { spec: copy['spec'], status: copy['status'] };
    const outer = place as Record<string, unknown>;
    let parent: Record<string, unknown> = outer;
    let last = 'spec';
    for (const step of [0, ...at]) {
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
    copy['spec'] = outer['spec'];
    copy['status'] = outer['status'];
  }
  return copy;
}

/** So that pods may ask for a node. */
const policy: TenantPolicy = { ...defaultPolicy, daemonSets: 'allow' };
const context = podContext({ tenant: { policy }, tenantObjects: [clusterDns, aService] });
const hidden = podContext({ tenant: { policy, hideNodes: true }, tenantObjects: [clusterDns] });

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
      fuzzed(1_200),
    );
  });
});
