import { describe, expect, it } from 'vitest';
import type { MergePatch } from '../../../kube/index.ts';
import { podKind } from './pods.ts';
import { podContext, superPod, tenantPod } from './testing.ts';
import type { Pod } from './types.ts';

const toSuper = (pod: Pod, context = podContext()) => podKind.toSuper(pod, context) as Pod;

/** Each was tried by someone: what reads it acts on a pod of any namespace. */
const hostile = [
  'sidecar.istio.io/userVolume',
  'ad.datadoghq.com/main.checks',
  'io.kubernetes.cri-o.Devices',
  'org.systemd.property.DefaultDependencies',
  'k8s.v1.cni.cncf.io/networks',
  'linkerd.io/inject',
  'vault.hashicorp.com/agent-inject',
  'cluster-autoscaler.kubernetes.io/safe-to-evict',
  'unheard-of.example/anything',
];

const harmless = [
  'note',
  'checksum/config',
  'prometheus.io/scrape',
  'batch.kubernetes.io/job-completion-index',
];

const all = (keys: readonly string[]) => Object.fromEntries(keys.map((key) => [key, 'x']));

describe('the annotations of a pod (sync rule `allowed-annotations`)', () => {
  const pod = tenantPod({ metadata: { annotations: all([...hostile, ...harmless]) } });

  it('go down by an allow-list, and an event names those that stay', () => {
    const down = toSuper(pod).metadata.annotations ?? {};
    expect(hostile.filter((key) => key in down)).toEqual([]);
    expect(harmless.filter((key) => !(key in down))).toEqual([]);
    const { wanted, notice } = podKind.admit?.(pod, podContext()) ?? {};
    expect(wanted).toBe(true);
    expect(notice).toEqual({
      type: 'Warning',
      reason: 'NotSupported',
      message: `the cluster does not allow the annotations ${hostile.slice(0, 5).join(', ')} and 4 more; the pod runs without`,
    });
  });

  it('do so when they are added later, too', () => {
    const there = superPod(tenantPod());
    const [patch] = podKind.down(pod, there, podContext());
    const { annotations } = (patch as unknown as { patch: { metadata: { annotations: object } } }).patch
      .metadata;
    expect(Object.keys(annotations).filter((key) => !key.startsWith('skerry.dev/'))).toEqual(harmless);
  });

  it('are added to by the operator, but for what never goes down', () => {
    const context = podContext({
      tenant: { allowedAnnotations: ['unheard-of.example/', 'cdi.k8s.io/'] },
    });
    const own = tenantPod({
      metadata: { annotations: all(['unheard-of.example/anything', 'cdi.k8s.io/gpu']) },
    });
    const down = toSuper(own, context).metadata.annotations ?? {};
    expect(down).toHaveProperty(['unheard-of.example/anything']);
    expect(down).not.toHaveProperty(['cdi.k8s.io/gpu']);
  });

  it('cause no event where tools have put them there', () => {
    const annotations = all(['kubectl.kubernetes.io/last-applied-configuration', 'skerry.dev/super-uid']);
    expect(podKind.admit?.(tenantPod({ metadata: { annotations } }), podContext())).toEqual({ wanted: true });
  });
});

describe('the labels of a pod (sync rule `denied-metadata`)', () => {
  /** Each has something in a cluster act on the pods of any namespace. */
  const actedOn = [
    'sidecar.istio.io/inject',
    'istio.io/dataplane-mode',
    'linkerd.io/inject',
    'kuma.io/sidecar-injection',
    'consul.hashicorp.com/connect-inject',
    'io.cilium.k8s.policy.cluster',
    'azure.workload.identity/use',
    'aadpodidbinding',
    'spiffe.io/spiffe-id',
    'security.banzaicloud.io/mutate',
    'alibabacloud.com/eci',
    'virtual-kubelet.io/burst-to-cci',
    'admission.datadoghq.com/enabled',
    'instrumentation.newrelic.com/inject',
    'oneagent.dynatrace.com/inject',
    'hami.io/webhook',
    'admission.gatekeeper.sh/ignore',
    'cleanup.kyverno.io/ttl',
    'kubescape.io/user-defined-profile',
    'kueue.x-k8s.io/queue-name',
    'kai.scheduler/queue',
    'koordinator.sh/qosClass',
    'spotinst.io/restrict-scale-down',
    'karpenter.sh/do-not-disrupt',
    'bindings.knative.dev/exclude',
    'argocd.argoproj.io/instance',
    'velero.io/exclude-from-backup',
  ];
  /** Software in a tenant selects its own pods by these. */
  const selectedBy = [
    'app',
    'team.example/tier',
    'app.kubernetes.io/name',
    'statefulset.kubernetes.io/pod-name',
    'batch.kubernetes.io/job-name',
    'jobset.sigs.k8s.io/jobset-name',
    'serving.knative.dev/revisionUID',
    'gatekeeper.sh/operation',
    'operator.prometheus.io/name',
    'strimzi.io/cluster',
    'notistio.io/x',
  ];
  const downOf = (keys: readonly string[], context = podContext()): string[] =>
    Object.keys(
      toSuper(tenantPod({ metadata: { labels: all(keys) } }), context).metadata.labels ?? {},
    ).filter((key) => !key.startsWith('skerry.dev/'));

  it('stay behind where meshes, agents and operators act on them; others go down, as selectors go by them', () => {
    expect(downOf([...actedOn, ...selectedBy])).toEqual(selectedBy);
  });

  it('are named by an event, with the annotations that stay', () => {
    const said = (labels: readonly string[], annotations: readonly string[] = []) =>
      podKind.admit?.(
        tenantPod({ metadata: { labels: all(labels), annotations: all(annotations) } }),
        podContext(),
      )?.notice?.message;
    const [first = '', second = ''] = actedOn;
    expect(said([first, second, ...selectedBy])).toBe(
      `the cluster does not allow the labels ${first}, ${second}; the pod runs without`,
    );
    const seven = actedOn.slice(0, 7);
    expect(said([...selectedBy, ...seven], ['note', 'linkerd.io/inject'])).toBe(
      `the cluster does not allow the annotations linkerd.io/inject and the labels ${seven.slice(0, 5).join(', ')} and 2 more; the pod runs without`,
    );
    // Tools put it there, and the API server when the pod is bound.
    expect(
      said([...selectedBy, 'argocd.argoproj.io/instance', 'topology.kubernetes.io/zone']),
    ).toBeUndefined();
  });

  it('are let down by the operator, but for what never goes down', () => {
    const context = podContext({
      tenant: { allowedLabels: ['sidecar.istio.io/', 'azure.workload.identity/'] },
    });
    expect(downOf(actedOn, context)).toEqual(['sidecar.istio.io/inject']);
  });
});

describe('what a pod reads of itself by the downward API (sync rule `downward-api`)', () => {
  const reads = (key: string, field: 'labels' | 'annotations') => ({
    fieldRef: { fieldPath: `metadata.${field}['${key}']` },
  });
  const spec = {
    containers: [
      {
        name: 'main',
        env: [
          { name: 'A', valueFrom: reads('mesh.example/weight', 'annotations') },
          { name: 'B', valueFrom: reads('note', 'annotations') },
        ],
      },
    ],
    volumes: [
      { name: 'info', downwardAPI: { items: [{ path: 'rev', ...reads('istio.io/rev', 'labels') }] } },
    ],
  };
  const metadata = {
    annotations: { 'mesh.example/weight': '7', 'mesh.example/unread': '8', note: 'n' },
    labels: { 'istio.io/rev': 'canary' },
  };
  const pod = tenantPod({ metadata, spec });

  it('is there under keys of Skerry’s where it does not go down under its own', () => {
    const made = toSuper(pod);
    const main = made.spec?.containers?.[0];
    const paths = [
      main?.env?.find(({ name }) => name === 'A')?.valueFrom?.fieldRef?.fieldPath,
      made.spec?.volumes?.[0]?.downwardAPI?.items?.[0]?.fieldRef?.fieldPath,
    ];
    const values = paths.map((path) => {
      const key = /^metadata\.annotations\['(skerry\.dev\/pod-[a-z]+-[0-9a-f]{20})'\]$/.exec(path ?? '')?.[1];
      return made.metadata.annotations?.[key ?? ''];
    });
    expect(values).toEqual(['7', 'canary']);
    expect(main?.env?.find(({ name }) => name === 'B')).toEqual(spec.containers[0]?.env[1]);
    expect(Object.values(made.metadata.annotations ?? {})).not.toContain('8');
  });

  it('follows changes, and goes when it goes', () => {
    const changed = tenantPod({
      metadata: { annotations: { note: 'n' }, labels: { 'istio.io/rev': 'stable' } },
      spec,
    });
    const there = superPod(pod);
    const [action] = podKind.down(changed, there, podContext());
    const { metadata: patched } = (action as { patch: MergePatch }).patch as {
      metadata: { annotations: Record<string, string | null> };
    };
    expect(Object.values(patched.annotations)).toEqual(expect.arrayContaining(['stable', null]));
    expect(podKind.down(pod, there, podContext())).toEqual([]);
  });
});
