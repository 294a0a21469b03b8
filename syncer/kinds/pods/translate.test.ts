import { describe, expect, it } from 'vitest';
import { labelKeys } from '../../../api/labels.ts';
import type { KubeObject } from '../../../kube/index.ts';
import { isOurs, superNamespaceName, uidMark } from '../../mapping/index.ts';
import type { SyncContext } from '../context.ts';
import { namespaceKind } from '../namespaces/index.ts';
import { testNamespace } from '../testing.ts';
import { podKind } from './index.ts';
import { matches } from './selectors.ts';
import { ownVariables, type PodParts, podContext, tenantPod, tenantUid } from './testing.ts';
import type { LabelSelector, Pod, PodAffinityTerm, PodSpec } from './types.ts';

const context = podContext();
const { tenant } = context;

function toSuper(parts: PodParts = {}, over = context): Pod {
  return podKind.toSuper(tenantPod(parts), over) as Pod;
}

function superSpec(spec: PodSpec, over = context): PodSpec {
  return toSuper({ spec }, over).spec ?? {};
}

describe('a pod on its way down', () => {
  it('keeps its name, carries the marks and has neither status nor owners nor finalizers (rule 5)', () => {
    const owner = { apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'web', uid: 'r', controller: true };
    const s = toSuper({
      metadata: {
        labels: { app: 'web' },
        ownerReferences: [owner],
        finalizers: ['batch.kubernetes.io/job-tracking'],
      },
    });
    expect(Object.keys(s).sort()).toEqual(['apiVersion', 'kind', 'metadata', 'spec']);
    expect(Object.keys(s.metadata).sort()).toEqual(['annotations', 'labels', 'name', 'namespace']);
    expect(s.metadata).toMatchObject({ name: 'web', namespace: superNamespaceName(tenant, 'shop') });
    expect([isOurs(s, tenant), uidMark(s)]).toEqual([true, tenantUid]);
  });

  it('leaves what nobody translates as it is, fields of tomorrow included', () => {
    const spec = {
      hostAliases: [{ ip: '10.0.0.1', hostnames: ['a'] }],
      tomorrow: { deep: [1] },
      terminationGracePeriodSeconds: 7,
      hostname: 'h',
    };
    expect(superSpec(spec)).toMatchObject(spec);
  });

  it('does not change T', () => {
    const t = Object.freeze(tenantPod({ spec: { tolerations: [{ operator: 'Exists' }], nodeName: 'n' } }));
    const before = structuredClone(t);
    podKind.toSuper(t, context);
    expect(t).toEqual(before);
  });

  it('has no nodeName, priority, preemptionPolicy or class of priority, and the scheduler of the super cluster (rules 5, 15)', () => {
    const spec = superSpec({
      nodeName: 'n1',
      priority: 2000000000,
      priorityClassName: 'system-node-critical',
    });
    for (const field of [
      'nodeName',
      'priority',
      'preemptionPolicy',
      'priorityClassName',
      'schedulerName',
      'overhead',
    ]) {
      expect(spec).not.toHaveProperty(field);
    }
  });
});

describe('the CA (rule 7)', () => {
  it("is the tenant's in volumes, projections, variables and whole environments, of init containers too", () => {
    const reading = {
      env: [
        { name: 'CA', valueFrom: { configMapKeyRef: { name: 'kube-root-ca.crt', key: 'ca.crt' } } },
        { name: 'X', valueFrom: { configMapKeyRef: { name: 'settings', key: 'x' } } },
      ],
      envFrom: [
        { configMapRef: { name: 'kube-root-ca.crt' } },
        { prefix: 'P', configMapRef: { name: 'settings' } },
      ],
    };
    const spec = superSpec({
      volumes: [
        { name: 'a', configMap: { name: 'kube-root-ca.crt', defaultMode: 420 } },
        {
          name: 'b',
          projected: {
            sources: [{ configMap: { name: 'kube-root-ca.crt' } }, { configMap: { name: 'settings' } }],
          },
        },
        { name: 'c', secret: { secretName: 'kube-root-ca.crt' } },
      ],
      containers: [{ name: 'main', ...reading }],
      initContainers: [{ name: 'init', ...reading }],
    });
    expect(spec.volumes).toEqual([
      { name: 'a', configMap: { name: 'tenant-kube-root-ca.crt', defaultMode: 420 } },
      {
        name: 'b',
        projected: {
          sources: [{ configMap: { name: 'tenant-kube-root-ca.crt' } }, { configMap: { name: 'settings' } }],
        },
      },
      { name: 'c', secret: { secretName: 'kube-root-ca.crt' } },
    ]);
    for (const container of [spec.containers?.[0], spec.initContainers?.[0]]) {
      const names = ownVariables(container).map(({ valueFrom }) => valueFrom?.configMapKeyRef?.name);
      expect(names).toEqual(['tenant-kube-root-ca.crt', 'settings']);
      expect(container?.envFrom).toEqual([
        { configMapRef: { name: 'tenant-kube-root-ca.crt' } },
        { prefix: 'P', configMapRef: { name: 'settings' } },
      ]);
    }
  });
});

describe('downward API (rule 10)', () => {
  const field = (fieldPath: string) => ({ fieldRef: { apiVersion: 'v1', fieldPath } });

  it("shows T's namespace and UID in variables, and everything else as it is on the node", () => {
    const env = [
      { name: 'NS', valueFrom: field('metadata.namespace') },
      { name: 'UID', valueFrom: field('metadata.uid') },
      { name: 'NAME', valueFrom: field('metadata.name') },
      { name: 'IP', valueFrom: field('status.podIP') },
    ];
    const spec = superSpec({ containers: [{ name: 'main', env }], initContainers: [{ name: 'init', env }] });
    const expected = [{ name: 'NS', value: 'shop' }, { name: 'UID', value: tenantUid }, env[2], env[3]];
    expect(ownVariables(spec.containers?.[0])).toEqual(expected);
    expect(ownVariables(spec.initContainers?.[0])).toEqual(expected);
  });

  it('shows them in files, from the marks that S carries', () => {
    const items = [
      { path: 'ns', ...field('metadata.namespace') },
      { path: 'uid', ...field('metadata.uid') },
      { path: 'labels', ...field('metadata.labels') },
      { path: 'cpu', resourceFieldRef: { resource: 'limits.cpu' } },
    ];
    const s = toSuper({
      spec: {
        volumes: [
          { name: 'a', downwardAPI: { items } },
          { name: 'b', projected: { sources: [{ downwardAPI: { items } }] } },
        ],
      },
    });
    const translated = [
      { path: 'ns', ...field("metadata.labels['skerry.dev/namespace']") },
      { path: 'uid', ...field("metadata.annotations['skerry.dev/uid']") },
      items[2],
      items[3],
    ];
    expect(s.spec?.volumes?.[0]?.downwardAPI?.items).toEqual(translated);
    expect(s.spec?.volumes?.[1]?.projected?.sources?.[0]?.downwardAPI?.items).toEqual(translated);
    expect(s.metadata.labels?.['skerry.dev/namespace']).toBe('shop');
    expect(s.metadata.annotations?.['skerry.dev/uid']).toBe(tenantUid);
  });
});

describe('ephemeral volumes (rule 14)', () => {
  it("become the claim that the tenant's controller makes", () => {
    const volumes = [
      { name: 'scratch', ephemeral: { volumeClaimTemplate: { spec: {} } } },
      { name: 'x', emptyDir: {} },
    ];
    expect(superSpec({ volumes }).volumes).toEqual([
      { name: 'scratch', persistentVolumeClaim: { claimName: 'web-scratch' } },
      { name: 'x', emptyDir: {} },
    ]);
  });
});

describe('affinity (rule 13)', () => {
  const shop = superNamespaceName(tenant, 'shop');
  const tools = superNamespaceName(tenant, 'tools');
  const namespaces = [testNamespace('shop', { team: 'a' }), testNamespace('tools', { team: 'b' })];
  const own = podContext({ tenantObjects: namespaces });
  const ourLabel = { [labelKeys.tenant]: tenant.uid };

  function term(original: PodAffinityTerm): PodAffinityTerm | undefined {
    const required = {
      requiredDuringSchedulingIgnoredDuringExecution: [{ topologyKey: 'zone', ...original }],
    };
    const weighted = {
      preferredDuringSchedulingIgnoredDuringExecution: [
        { weight: 1, podAffinityTerm: { topologyKey: 'zone', ...original } },
      ],
    };
    const spec = superSpec({ affinity: { podAffinity: required, podAntiAffinity: weighted } }, own);
    const result = spec.affinity?.podAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.[0];
    const preferred = spec.affinity?.podAntiAffinity?.preferredDuringSchedulingIgnoredDuringExecution?.[0];
    expect(preferred).toEqual({ weight: 1, podAffinityTerm: result });
    return result;
  }

  it('narrows selectors to the tenant', () => {
    expect(term({ labelSelector: { matchLabels: { app: 'web' } } })).toEqual({
      topologyKey: 'zone',
      labelSelector: { matchLabels: { app: 'web', ...ourLabel } },
    });
  });

  it('leaves a nil selector nil and never lets an empty one mean all tenants', () => {
    expect(term({})).toEqual({ topologyKey: 'zone' });
    expect(term({ labelSelector: {} })?.labelSelector).toEqual({ matchLabels: ourLabel });
  });

  it('translates namespaces', () => {
    expect(term({ labelSelector: {}, namespaces: ['tools', 'shop'] })?.namespaces).toEqual([tools, shop]);
  });

  /** Names of the super namespaces that a term means, besides those it lists, as the super cluster's scheduler sees it. */
  function selected(term: PodAffinityTerm | undefined, present: readonly KubeObject[]): string[] {
    const selector = term?.namespaceSelector;
    if (selector === undefined) return [];
    return present
      .filter(({ metadata }) => matches(selector, metadata.labels))
      .map((s) => s.metadata.name ?? '');
  }

  const superNamespaces = (of: SyncContext, objects: readonly KubeObject[]) =>
    objects.map((object) => namespaceKind.toSuper(object, of));
  /** Those of this tenant, those of another with the same names and labels, and one that is nobody's. */
  const everyNamespace = [
    ...superNamespaces(own, namespaces),
    ...superNamespaces(podContext({ tenant: { uid: 'other', id: 'other', name: 'red' } }), namespaces),
    testNamespace('kube-system', { team: 'b' }),
  ];
  const meant = (namespaceSelector: LabelSelector, present = everyNamespace) =>
    selected(term({ labelSelector: {}, namespaceSelector }), present);

  it('lets a namespaceSelector mean the namespaces of this tenant that match', () => {
    expect(meant({ matchLabels: { team: 'b' } })).toEqual([tools]);
    expect(meant({ matchLabels: { 'kubernetes.io/metadata.name': 'shop' } })).toEqual([shop]);
    expect(meant({ matchLabels: { team: 'z' } })).toEqual([]);
  });

  it('lets an empty namespaceSelector mean all namespaces of this tenant and none of another', () => {
    expect(meant({})).toEqual([shop, tools]);
  });

  it('leaves a nil namespaceSelector nil', () => {
    expect(term({ labelSelector: {} })).not.toHaveProperty('namespaceSelector');
    const listed = term({
      labelSelector: {},
      namespaces: ['shop'],
      namespaceSelector: { matchLabels: { team: 'b' } },
    });
    expect([listed?.namespaces, selected(listed, everyNamespace)]).toEqual([[shop], [tools]]);
  });

  it('follows namespaces that come and change after the pod was made', () => {
    const original = { labelSelector: {}, namespaceSelector: { matchLabels: { team: 'b' } } };
    const made = term(original);
    const [shopLater] = superNamespaces(own, [testNamespace('shop', { team: 'b' })]);
    const [toolsLater] = superNamespaces(own, [testNamespace('tools')]);
    const [later] = superNamespaces(own, [testNamespace('later', { team: 'b' })]);
    const present = [shopLater, toolsLater, later].filter((object) => object !== undefined);
    expect(selected(made, present)).toEqual([shop, superNamespaceName(tenant, 'later')]);
  });

  it.each([
    [{ key: 'team', operator: 'In', values: ['a', 'c'] }, [shop]],
    [{ key: 'team', operator: 'NotIn', values: ['a'] }, [tools]],
    [{ key: 'team', operator: 'Exists' }, [shop, tools]],
    [{ key: 'other', operator: 'DoesNotExist' }, [shop, tools]],
  ])('understands %j', (expression, expected) => {
    expect(meant({ matchExpressions: [expression] })).toEqual(expected);
  });

  it("removes matchLabelKeys and mismatchLabelKeys, which T's selector carries already", () => {
    const labelSelector = { matchExpressions: [{ key: 'hash', operator: 'In', values: ['1'] }] };
    const result = term({ labelSelector, matchLabelKeys: ['hash'], mismatchLabelKeys: ['tier'] });
    expect(result).toEqual({
      topologyKey: 'zone',
      labelSelector: { ...labelSelector, matchLabels: ourLabel },
    });
  });

  it('leaves node affinity alone, matchFields of DaemonSet pods included', () => {
    const nodeAffinity = {
      requiredDuringSchedulingIgnoredDuringExecution: {
        nodeSelectorTerms: [{ matchFields: [{ key: 'metadata.name', operator: 'In', values: ['n1'] }] }],
      },
    };
    expect(superSpec({ affinity: { nodeAffinity } }).affinity).toEqual({ nodeAffinity });
  });

  it('narrows topology spread as well, with label keys that an older server has left to the scheduler', () => {
    const topologySpreadConstraints = [
      {
        topologyKey: 'zone',
        maxSkew: 1,
        labelSelector: { matchLabels: { app: 'web' } },
        matchLabelKeys: ['hash'],
      },
      { topologyKey: 'node', maxSkew: 2 },
    ];
    const s = toSuper({ metadata: { labels: { hash: '7' } }, spec: { topologySpreadConstraints } });
    expect(s.spec?.topologySpreadConstraints).toEqual([
      {
        topologyKey: 'zone',
        maxSkew: 1,
        labelSelector: {
          matchLabels: { app: 'web', ...ourLabel },
          matchExpressions: [{ key: 'hash', operator: 'In', values: ['7'] }],
        },
      },
      { topologyKey: 'node', maxSkew: 2 },
    ]);
  });
});

describe('no way onto control-plane nodes (rule 15)', () => {
  const guard = ['control-plane', 'master', 'etcd'].map((role) => ({
    key: `node-role.kubernetes.io/${role}`,
    operator: 'DoesNotExist',
  }));
  const required = (spec: PodSpec) =>
    spec.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms;

  it('drops tolerations of their taints and keeps the others', () => {
    const other = { key: 'gpu', operator: 'Exists' };
    const spec = superSpec({
      tolerations: [
        { key: 'node-role.kubernetes.io/control-plane', operator: 'Exists', effect: 'NoSchedule' },
        other,
        { key: 'node-role.kubernetes.io/master', operator: 'Exists' },
      ],
    });
    expect(spec.tolerations).toEqual([other]);
    expect(required(spec)).toBeUndefined();
  });

  it.each([
    ['tolerates everything', { tolerations: [{ operator: 'Exists' }] }],
    ['selects them by label', { nodeSelector: { 'node-role.kubernetes.io/control-plane': '' } }],
  ])('keeps a pod away that %s', (_what, wish) => {
    const spec = superSpec(wish);
    expect(spec).toMatchObject(wish);
    expect(required(spec)).toEqual([{ matchExpressions: guard }]);
  });

  it('guards every alternative of a node affinity, and makes none of an empty one', () => {
    const zone = { key: 'zone', operator: 'In', values: ['a'] };
    const name = { key: 'metadata.name', operator: 'In', values: ['n1'] };
    const nodeSelectorTerms = [{ matchExpressions: [zone] }, { matchFields: [name] }, {}];
    const nodeAffinity = { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } };
    const spec = superSpec({ tolerations: [{ operator: 'Exists' }], affinity: { nodeAffinity } });
    expect(required(spec)).toEqual([
      { matchExpressions: [zone, ...guard] },
      { matchFields: [name], matchExpressions: guard },
      {},
    ]);
  });

  it('guards a pod whose node affinity asks for them', () => {
    const asking = { key: 'node-role.kubernetes.io/control-plane', operator: 'Exists' };
    const nodeAffinity = {
      requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchExpressions: [asking] }] },
    };
    expect(required(superSpec({ affinity: { nodeAffinity } }))).toEqual([
      { matchExpressions: [asking, ...guard] },
    ]);
  });
});
