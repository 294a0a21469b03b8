import { describe, expect, it } from 'vitest';
import type { KubeObject, MergePatch } from '../../../kube/index.ts';
import { podKind } from './pods.ts';
import { podContext, superPod, tenantPod } from './testing.ts';
import type { Container, Pod, PodSpec, Volume } from './types.ts';
import { validatePod } from './validation.ts';

const main = (parts: object): Container[] => [{ name: 'main', image: 'nginx:1', ...parts }];

/** As if a translation had let this through. */
function sent(spec: object, metadata: object = {}, context = podContext()): string | undefined {
  const made = podKind.toSuper(tenantPod(), context) as Pod;
  const creates = {
    ...made,
    metadata: { ...made.metadata, ...metadata },
    spec: { ...made.spec, ...spec },
  } as KubeObject;
  return validatePod({ creates }, context)?.reason;
}

describe('a pod that is about to be created (sync rule `validated-writes`)', () => {
  it('is sent, if it is what tenants run every day', () => {
    const spec: PodSpec = {
      initContainers: main({ name: 'sidecar', restartPolicy: 'Always' }),
      containers: main({
        env: [{ name: 'POD_IP', valueFrom: { fieldRef: { fieldPath: 'status.podIP' } } }],
        envFrom: [{ configMapRef: { name: 'settings' } }],
        securityContext: { capabilities: { drop: ['ALL'] }, seccompProfile: { type: 'RuntimeDefault' } },
        lifecycle: { preStop: { sleep: { seconds: 1 } } },
        volumeMounts: [{ name: 'work', mountPath: '/work' }],
      }),
      volumes: [
        { name: 'work', emptyDir: {} },
        { name: 'settings', configMap: { name: 'settings', defaultMode: 420 } },
        { name: 'claim', persistentVolumeClaim: { claimName: 'data' } },
        { name: 'scratch', ephemeral: { volumeClaimTemplate: { spec: { accessModes: ['ReadWriteOnce'] } } } },
        {
          name: 'token',
          projected: {
            sources: [
              { serviceAccountToken: { path: 'token' } },
              { configMap: { name: 'kube-root-ca.crt' } },
            ],
          },
        },
      ],
      readinessGates: [{ conditionType: 'example.com/loaded' }],
      topologySpreadConstraints: [
        { maxSkew: 1, topologyKey: 'zone', whenUnsatisfiable: 'ScheduleAnyway', labelSelector: {} },
      ],
    };
    const context = podContext();
    expect(validatePod({ creates: podKind.toSuper(tenantPod({ spec }), context) }, context)).toBeUndefined();
    expect(sent({})).toBeUndefined();
  });

  const volume = (parts: object): { volumes: Volume[] } => ({ volumes: [{ name: 'v', ...parts }] });

  it.each<[string, object, string]>([
    ['a field of a newer Kubernetes', { hostRoot: true }, 'UnknownField'],
    ['one deep inside', { containers: main({ securityContext: { superPrivileged: true } }) }, 'UnknownField'],
    [
      'a source beside another one that is null',
      volume({ emptyDir: null, nfs: { server: 'a', path: '/' } }),
      'InvalidField',
    ],
    ['two sources', volume({ emptyDir: {}, secret: { secretName: 'a' } }), 'InvalidField'],
    ['no source', volume({}), 'InvalidField'],
    ['a source that is not allowed', volume({ nfs: { server: 'a', path: '/' } }), 'NotSupported'],
    ['the root of its node', volume({ hostPath: { path: '/' } }), 'NotSupported'],
    [
      'a token of the cluster',
      volume({ projected: { sources: [{ serviceAccountToken: { path: 'a' } }] } }),
      'NotSupported',
    ],
    ['a token mounted by the cluster', { automountServiceAccountToken: true }, 'NotSupported'],
    ['what Skerry keeps', volume({ secret: { secretName: 'skerry-tokens-other' } }), 'ReservedName'],
    [
      'what Skerry keeps, in a variable',
      { containers: main({ envFrom: [{ secretRef: { name: 'skerry-x' } }] }) },
      'ReservedName',
    ],
    ['a node', { nodeName: 'control-plane' }, 'NotSupported'],
    ['a priority', { priority: 2_000_001_000 }, 'NotSupported'],
    ['the priority of the system', { priorityClassName: 'system-node-critical' }, 'NotSupported'],
    ['a scheduler', { schedulerName: 'other' }, 'NotSupported'],
    [
      'a condition of the kubelet as a gate',
      { readinessGates: [{ conditionType: 'Ready' }] },
      'NotSupported',
    ],
    ['a text for a list', { containers: 'none' }, 'InvalidField'],
    ['privileges', { containers: main({ securityContext: { privileged: true } }) }, 'PodSecurity'],
    ['the network of its node', { hostNetwork: true }, 'PodSecurity'],
  ])('is not, with %s', (_what, spec, reason) => {
    expect(sent(spec)).toBe(reason);
  });

  it.each<[string, object, string]>([
    ['another namespace', { namespace: 'kube-system' }, 'InvalidField'],
    ['a path for a name', { name: '../../nodes' }, 'InvalidField'],
    ['finalizers', { finalizers: ['a/b'] }, 'UnknownField'],
    [
      'an annotation that does not go down',
      { annotations: { 'sidecar.istio.io/userVolume': '[]' } },
      'UnknownField',
    ],
  ])('is not, with %s', (_what, metadata, reason) => {
    expect(sent({}, metadata)).toBe(reason);
  });

  it('may have by policy what is not allowed otherwise', () => {
    const policy = { ...podContext().tenant.policy, volumeTypes: ['nfs' as const] };
    const nfs = volume({ nfs: { server: 'a', path: '/' } });
    expect(sent(nfs, {}, podContext({ tenant: { policy } }))).toBeUndefined();
  });
});

describe('a change of a pod that is there (sync rule `validated-writes`)', () => {
  const injected = { name: 'mesh', image: 'mesh:1', securityContext: { privileged: true }, newField: 1 };
  const there = superPod(tenantPod());
  const running = {
    ...there,
    spec: { ...there.spec, containers: [...(there.spec?.containers ?? []), injected] },
    status: { ...there.status, conditions: [{ type: 'Ready', status: 'False' }] },
  } as Pod;
  const [own] = running.spec?.containers ?? [];
  const change = (patch: MergePatch, subresource?: string) =>
    validatePod({ patches: running, patch, subresource }, podContext())?.reason;

  it('is sent, if it is what tenants change', () => {
    expect(change({ spec: { containers: [{ ...own, image: 'nginx:2' }, injected] } })).toBeUndefined();
    expect(
      change({ metadata: { labels: { app: 'web', gone: null }, annotations: { note: 'a' } } }),
    ).toBeUndefined();
    const resized = { ...own, resources: { limits: { cpu: '2' } } };
    expect(change({ spec: { containers: [resized, injected] } }, 'resize')).toBeUndefined();
    const debug = { name: 'debug', image: 'busybox' };
    expect(change({ spec: { ephemeralContainers: [debug] } }, 'ephemeralcontainers')).toBeUndefined();
  });

  it.each<[string, MergePatch, string | undefined, string]>([
    [
      'another command',
      { spec: { containers: [{ ...own, command: ['sh'] }, injected] } },
      undefined,
      'UnknownField',
    ],
    ['fewer containers', { spec: { containers: [own] } }, undefined, 'InvalidField'],
    [
      'another sidecar',
      { spec: { containers: [own, { ...injected, newField: 2 }] } },
      undefined,
      'UnknownField',
    ],
    ['volumes', { spec: { volumes: [{ name: 'v', emptyDir: {} }] } }, undefined, 'UnknownField'],
    ['owners', { metadata: { ownerReferences: [] } }, undefined, 'UnknownField'],
    [
      'an image by a resize',
      { spec: { containers: [{ ...own, image: 'x' }, injected] } },
      'resize',
      'UnknownField',
    ],
    [
      'a privileged ephemeral container',
      { spec: { ephemeralContainers: [{ name: 'd', securityContext: { privileged: true } }] } },
      'ephemeralcontainers',
      'PodSecurity',
    ],
    [
      'an ephemeral container of the name of a sidecar',
      { spec: { ephemeralContainers: [{ name: 'mesh', image: 'busybox' }] } },
      'ephemeralcontainers',
      'InvalidField',
    ],
    [
      'its readiness',
      { status: { conditions: [{ type: 'Ready', status: 'True' }] } },
      'status',
      'InvalidField',
    ],
    ['its address', { status: { podIP: '10.0.0.1' } }, 'status', 'UnknownField'],
    ['a binding', { target: { name: 'n1' } }, 'binding', 'UnknownField'],
  ])('is not, with %s', (_what, patch, subresource, reason) => {
    expect(change(patch, subresource)).toBe(reason);
  });
});

it('a readiness gate that kubelet owns is refused by name', () => {
  const pod = tenantPod({ spec: { readinessGates: [{ conditionType: 'PodScheduled' }] } });
  expect(podKind.admit?.(pod, podContext())).toMatchObject({
    wanted: false,
    notice: { reason: 'NotSupported', message: expect.stringContaining('PodScheduled') },
  });
  const own = tenantPod({ spec: { readinessGates: [{ conditionType: 'example.com/loaded' }] } });
  expect(podKind.admit?.(own, podContext())).toEqual({ wanted: true });
});
