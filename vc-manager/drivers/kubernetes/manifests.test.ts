import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import type { KubeObject } from '../../../kube/index.ts';
import type { ControlPlanePlan } from '../../control-plane/plan.ts';
import {
  disruptionBudget,
  filesSecret,
  namespaceManifest,
  networkPolicies,
  serviceManifest,
  statefulSetManifest,
} from './manifests.ts';
import { examplePlan } from './testing/example-plan.ts';

const network = { systemNamespace: 'skerry-system', egress: [{ to: '192.0.2.0/24' }] };

interface PodTemplate {
  metadata: { annotations: Record<string, string> };
  spec: {
    automountServiceAccountToken: boolean;
    affinity?: object;
    securityContext: Record<string, unknown>;
    containers: Record<string, unknown>[];
    volumes: Record<string, unknown>[];
  };
}

function templateOf(plan: ControlPlanePlan, name: string): PodTemplate {
  const component = plan.components.find((each) => each.name === name);
  if (component === undefined) throw new Error(`no component ${name}`);
  return (statefulSetManifest(plan.id, component, {})['spec'] as { template: PodTemplate }).template;
}

function objectsOf(plan: ControlPlanePlan, options: Parameters<typeof statefulSetManifest>[2]): KubeObject[] {
  return [
    namespaceManifest(plan.id, 'teams/blue'),
    ...networkPolicies(plan, network),
    ...plan.components.flatMap((component) => {
      const budget = disruptionBudget(plan.id, component);
      return [
        filesSecret(plan.id, component),
        serviceManifest(plan.id, component.name, component.ports[0]?.port ?? 0),
        statefulSetManifest(plan.id, component, options),
        ...(budget === undefined ? [] : [budget]),
      ];
    }),
  ];
}

describe('the objects of a control plane', () => {
  it.each([
    ['shared', examplePlan({ replicas: 2 }), {}],
    [
      'own-etcd',
      examplePlan({ template: 'v1-36-own-etcd' }),
      { storage: { className: 'fast', size: '2Gi' }, imageRegistry: 'mirror.example/k8s' },
    ],
  ])('are as reviewed for one with the datastore %s', async (name, plan, options) => {
    const text = objectsOf(plan, options)
      .map((object) => stringify(object, { lineWidth: 0 }))
      .join('---\n');
    await expect(text).toMatchFileSnapshot(join(import.meta.dirname, 'testing', 'golden', `${name}.yaml`));
  });

  const all = ['v1-34', 'v1-35', 'v1-36', 'v1-36-own-etcd'].flatMap((template) => {
    const plan = examplePlan({ template, replicas: 2 });
    return plan.components.map(({ name }) => [template, name, templateOf(plan, name)] as const);
  });

  it.each(all)('of %s keep %s to what the level restricted allows', (_, name, { spec }) => {
    expect(spec.automountServiceAccountToken).toBe(false);
    expect(spec.securityContext).toMatchObject({
      runAsNonRoot: true,
      seccompProfile: { type: 'RuntimeDefault' },
    });
    for (const field of ['hostNetwork', 'hostPID', 'hostIPC']) expect(spec).not.toHaveProperty(field);
    const [container = {}] = spec.containers;
    const added = name === 'kube-apiserver' ? { add: ['NET_BIND_SERVICE'] } : {};
    expect(container['securityContext']).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'], ...added },
    });
    expect(container['resources']).toMatchObject({
      requests: { cpu: expect.any(String), memory: expect.any(String) },
    });
    for (const { name: volume, ...source } of spec.volumes) {
      expect([volume, Object.keys(source)]).toEqual([volume, [volume === 'files' ? 'secret' : 'emptyDir']]);
    }
  });

  it('probe every second, and restart no API server for the sake of its datastore', () => {
    const [container = {}] = templateOf(examplePlan(), 'kube-apiserver').spec.containers;
    for (const probe of ['startupProbe', 'readinessProbe', 'livenessProbe'])
      expect(container[probe]).toMatchObject({
        periodSeconds: 1,
        httpGet: { port: 6443, scheme: 'HTTPS' },
      });
    expect(container).toMatchObject({
      readinessProbe: { httpGet: { path: '/readyz' } },
      livenessProbe: { httpGet: { path: '/livez?exclude=etcd' } },
      startupProbe: { failureThreshold: 120 },
    });
  });

  it('spread several of one over nodes, let them elect a leader, and let drains take one at a time', () => {
    const single = examplePlan();
    const several = examplePlan({ replicas: 3 });
    expect(templateOf(single, 'kube-apiserver').spec.affinity).toBeUndefined();
    expect(templateOf(several, 'kube-apiserver').spec.affinity).toBeDefined();
    const flags = (plan: ControlPlanePlan, name: string): unknown =>
      templateOf(plan, name).spec.containers[0]?.['args'];
    expect(flags(single, 'kube-controller-manager')).toContain('--leader-elect=false');
    expect(flags(several, 'kube-controller-manager')).toContain('--leader-elect=true');
    expect(flags(single, 'kube-apiserver')).not.toContain('--shutdown-delay-duration=10s');
    expect(flags(several, 'kube-apiserver')).toContain('--shutdown-delay-duration=10s');
    const [server] = several.components;
    const [alone] = single.components;
    if (server === undefined || alone === undefined) throw new Error('no components');
    expect(disruptionBudget('abc123', server)).toMatchObject({ spec: { maxUnavailable: 1 } });
    expect(disruptionBudget('abc123', alone)).toBeUndefined();
  });

  it('never run two etcds on one datastore', () => {
    const plan = examplePlan({ template: 'v1-36-own-etcd', replicas: 3 });
    const replicas = Object.fromEntries(
      plan.components.map((component) => [
        component.name,
        (statefulSetManifest(plan.id, component, {})['spec'] as { replicas: number }).replicas,
      ]),
    );
    expect(replicas).toEqual({ etcd: 1, 'kube-apiserver': 3, 'kube-controller-manager': 3 });
  });

  it('change for those only whose files have changed', () => {
    const hashes = (plan: ControlPlanePlan): Record<string, string | undefined> =>
      Object.fromEntries(
        plan.components.map(({ name }) => [
          name,
          templateOf(plan, name).metadata.annotations['skerry.dev/files-hash'],
        ]),
      );
    const before = hashes(examplePlan({ template: 'v1-36-own-etcd' }));
    const after = hashes(examplePlan({ template: 'v1-36-own-etcd', tokenKey: 'another' }));
    expect(after['etcd']).toBe(before['etcd']);
    expect(after['kube-apiserver']).not.toBe(before['kube-apiserver']);
  });

  it('show files under their own paths, whatever characters these have', () => {
    const [component] = examplePlan().components;
    if (component === undefined) throw new Error('no component');
    const files = ['a/b_c', 'a_/b', 'a.b', 'a_b'].map((path) => ({ path, content: path, mode: 0o600 }));
    const secret = filesSecret('abc123', { ...component, files });
    expect(Object.keys(secret['data'] as object).every((key) => /^[-._a-zA-Z0-9]+$/.test(key))).toBe(true);
    expect(Object.keys(secret['data'] as object)).toHaveLength(4);
  });
});

describe('network policies', () => {
  const policy = (plan: ControlPlanePlan, name: string): Record<string, unknown> =>
    networkPolicies(plan, network).find(({ metadata }) => metadata.name === name)?.['spec'] as Record<
      string,
      unknown
    >;

  it('deny whatever no other one allows', () => {
    expect(policy(examplePlan(), 'default-deny')).toEqual({
      podSelector: {},
      policyTypes: ['Ingress', 'Egress'],
    });
  });

  it('let nobody but API servers and the manager reach an etcd, and let that dial nobody', () => {
    expect(policy(examplePlan({ template: 'v1-36-own-etcd' }), 'etcd')).toEqual({
      podSelector: { matchLabels: { 'skerry.dev/component': 'etcd' } },
      policyTypes: ['Ingress', 'Egress'],
      ingress: [
        {
          from: [
            { podSelector: { matchLabels: { 'skerry.dev/component': 'kube-apiserver' } } },
            {
              namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'skerry-system' } },
              podSelector: { matchLabels: { 'app.kubernetes.io/component': 'manager' } },
            },
          ],
          ports: [{ protocol: 'TCP', port: 2379 }],
        },
      ],
    });
  });

  it('keep API servers from dialling anything but datastore, DNS, syncer and their own tenant', () => {
    const rules = policy(examplePlan(), 'kube-apiserver')['egress'] as { to: object[]; ports?: object[] }[];
    // Its pods have other ports, which tell of all tenants.
    const toSyncer = rules.filter(({ to }) => JSON.stringify(to).includes('"syncer"'));
    expect(toSyncer.map(({ ports }) => ports)).toEqual([[{ protocol: 'TCP', port: 10_250 }]]);
    const peers = rules.flatMap(({ to }) => to);
    expect(peers).toEqual([
      {
        namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'kube-system' } },
        podSelector: { matchLabels: { 'k8s-app': 'kube-dns' } },
      },
      { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'skerry-system' } } },
      {
        namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'skerry-system' } },
        podSelector: { matchLabels: { 'app.kubernetes.io/component': 'syncer' } },
      },
      { namespaceSelector: { matchLabels: { 'skerry.dev/tenant': 'uid-of-the-virtual-cluster' } } },
      { ipBlock: { cidr: '10.112.4.0/22' } },
      { ipBlock: { cidr: '192.0.2.0/24' } },
    ]);
  });

  it('name the ports of what the operator lists, where it names any', () => {
    const egress = [{ to: '192.0.2.0/24', ports: [443, 444] as const }];
    const rules = networkPolicies(examplePlan(), { ...network, egress }).find(
      ({ metadata }) => metadata.name === 'kube-apiserver',
    )?.['spec'] as { egress: object[] };
    expect(rules.egress).toContainEqual({
      to: [{ ipBlock: { cidr: '192.0.2.0/24' } }],
      ports: [{ protocol: 'TCP', port: 443, endPort: 444 }],
    });
  });

  it.each([
    ['https://192.0.2.7:2379', [{ ipBlock: { cidr: '192.0.2.7/32' } }], 2379],
    ['https://[2001:db8::7]:2379', [{ ipBlock: { cidr: '2001:db8::7/128' } }], 2379],
    [
      'https://etcd.store.svc.cluster.local:12379',
      [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'store' } } }],
      12379,
    ],
    [
      'https://etcd.example.com:2379',
      [{ ipBlock: { cidr: '0.0.0.0/0' } }, { ipBlock: { cidr: '::/0' } }],
      2379,
    ],
  ])('find a shared datastore at %s', (datastore, to, port) => {
    const plan = examplePlan();
    const { network: part } = plan;
    if (part === undefined) throw new Error('no network');
    const rules = policy({ ...plan, network: { ...part, datastore } }, 'kube-apiserver')['egress'];
    expect(rules).toContainEqual({ to, ports: [{ protocol: 'TCP', port }] });
  });
});
