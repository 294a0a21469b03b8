import { describe, expect, it } from 'vitest';
import { defaultPolicy } from '../../../api/default-policy.ts';
import { annotationKeys, labelKeys } from '../../../api/labels.ts';
import type { TenantPolicy } from '../../../api/policy.ts';
import type { KubeObject } from '../../../kube/index.ts';
import type { SyncContext } from '../../context.ts';
import { isOurs, originalUid } from '../../mapping/labels.ts';
import { superNamespaceName } from '../../mapping/names.ts';
import { type LabelSelector, matchesSelector } from '../../mapping/network-isolation.ts';
import { shownNodeName } from '../../mapping/node-names.ts';
import { namespaceKind } from '../namespaces.ts';
import { type TestContextOptions, testNamespace, testTenant } from '../testing.ts';
import { podKind } from './pods.ts';
import {
  clusterDns,
  ownVariables,
  type PodParts,
  podContext,
  superPod,
  tenantPod,
  tenantUid,
  testService,
} from './testing.ts';
import type { DnsConfig, Pod, PodAffinityTerm, PodSpec, Projection } from './types.ts';

describe('translate', () => {
  const context = podContext();
  const { tenant } = context;

  function toSuper(parts: PodParts = {}, over = context): Pod {
    return podKind.toSuper(tenantPod(parts), over) as Pod;
  }

  function superSpec(spec: PodSpec, over = context): PodSpec {
    return toSuper({ spec }, over).spec ?? {};
  }

  describe('a pod on its way down', () => {
    it('keeps its name, carries the marks and has neither status nor owners nor finalizers (sync rule `pod-creation`)', () => {
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
      expect([isOurs(s, tenant), originalUid(s)]).toEqual([true, tenantUid]);
    });

    it('is marked with the containers that it is made with, and with no other', () => {
      const { metadata } = toSuper({
        spec: {
          initContainers: [{ name: 'first', image: 'i' }],
          containers: [
            { name: 'main', image: 'i' },
            { name: 'proxy', image: 'i' },
          ],
          ephemeralContainers: [{ name: 'injected', image: 'i' }],
        },
      });
      expect(metadata.annotations?.[annotationKeys.containers]).toBe('first,main,proxy');
    });

    it('is marked with the repositories of the images that it is made with, once each and whatever the tenant says', () => {
      const { metadata } = toSuper({
        metadata: { annotations: { [annotationKeys.images]: '["good.example/a"]' } },
        spec: {
          initContainers: [{ name: 'first', image: `evil.example:5000/a/b@sha256:${'a'.repeat(64)}` }],
          containers: [
            { name: 'main', image: 'nginx:1' },
            { name: 'proxy', image: 'docker.io/library/nginx' },
            { name: 'none' },
          ],
          ephemeralContainers: [{ name: 'injected', image: 'i' }],
        },
      });
      const images = ['evil.example:5000/a/b', 'docker.io/library/nginx', null];
      expect(metadata.annotations?.[annotationKeys.images]).toBe(JSON.stringify(images));
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

    it('does not change the tenant object', () => {
      const t = Object.freeze(tenantPod({ spec: { tolerations: [{ operator: 'Exists' }], nodeName: 'n' } }));
      const before = structuredClone(t);
      podKind.toSuper(t, context);
      expect(t).toEqual(before);
    });

    it('has no nodeName, priority, preemptionPolicy or class of priority, and the scheduler of the super cluster (sync rules `pod-creation`, `pod-classes`)', () => {
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

  describe('the CA (sync rule `root-ca`)', () => {
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
      const spec = superSpec(
        {
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
        },
        podContext({ tenantObjects: [named('ConfigMap', 'settings'), named('Secret', 'kube-root-ca.crt')] }),
      );
      expect(spec.volumes).toEqual([
        { name: 'a', configMap: { name: 'tenant-kube-root-ca.crt', defaultMode: 420 } },
        {
          name: 'b',
          projected: {
            sources: [
              { configMap: { name: 'tenant-kube-root-ca.crt' } },
              { configMap: { name: 'settings' } },
            ],
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

  describe('downward API (sync rule `downward-api`)', () => {
    const field = (fieldPath: string) => ({ fieldRef: { apiVersion: 'v1', fieldPath } });

    it("shows the tenant object's namespace and UID in variables, and everything else as it is on the node", () => {
      const env = [
        { name: 'NS', valueFrom: field('metadata.namespace') },
        { name: 'UID', valueFrom: field('metadata.uid') },
        { name: 'NAME', valueFrom: field('metadata.name') },
        { name: 'IP', valueFrom: field('status.podIP') },
      ];
      const spec = superSpec({
        containers: [{ name: 'main', env }],
        initContainers: [{ name: 'init', env }],
      });
      const expected = [{ name: 'NS', value: 'shop' }, { name: 'UID', value: tenantUid }, env[2], env[3]];
      expect(ownVariables(spec.containers?.[0])).toEqual(expected);
      expect(ownVariables(spec.initContainers?.[0])).toEqual(expected);
    });

    it('shows them in files, from the marks that the super object carries', () => {
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

  describe('ephemeral volumes (sync rule `pod-volumes`)', () => {
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

  describe('affinity (sync rule `pod-affinity`)', () => {
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

    /**
     * Names of the super namespaces that a term means, besides those it lists, as the super cluster's scheduler sees
     * it.
     */
    function selected(term: PodAffinityTerm | undefined, present: readonly KubeObject[]): string[] {
      const selector = term?.namespaceSelector;
      if (selector === undefined) return [];
      return present
        .filter(({ metadata }) => matchesSelector(selector, metadata.labels ?? {}))
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

    it("removes matchLabelKeys and mismatchLabelKeys, which the tenant object's selector carries already", () => {
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

  describe('no way onto control-plane nodes (sync rule `pod-classes`)', () => {
    const guard = ['control-plane', 'master', 'etcd', 'controlplane'].map((role) => ({
      key: `node-role.kubernetes.io/${role}`,
      operator: 'DoesNotExist',
    }));
    const required = (spec: PodSpec) =>
      spec.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms;

    const tolerating = (...tolerations: string[]) =>
      podContext({ tenant: { policy: { ...defaultPolicy, tolerations } } });
    const taints = (keys: string[]) => keys.map((key) => ({ key, operator: 'Exists' }));
    const controlPlane = [
      'node-role.kubernetes.io/control-plane',
      'node-role.kubernetes.io/master',
      'node-role.kubernetes.io/controlplane',
      'node-role.kubernetes.io/etcd',
      'CriticalAddonsOnly',
      'k3s-controlplane',
    ];
    const pools = ['gpu', 'example.com/pool', 'node.kubernetes.io/unschedulable'];
    const automatic = ['node.kubernetes.io/not-ready', 'node.kubernetes.io/unreachable'];
    const kept = (policy: Partial<TenantPolicy>, keys = [...controlPlane, ...pools, ...automatic]) => {
      const over = podContext({ tenant: { policy: { ...defaultPolicy, ...policy } } });
      return superSpec({ tolerations: taints(keys) }, over).tolerations?.map(({ key }) => key);
    };

    it('keeps the tolerations that every pod has, and others by policy only', () => {
      expect(kept({})).toEqual(automatic);
      expect(kept({ tolerations: ['example.com/'] })).toEqual(['example.com/pool', ...automatic]);
      expect(kept({ tolerations: ['*'] })).toEqual([...pools, ...automatic]);
      expect(kept({ tolerations: ['*', 'CriticalAddonsOnly'] })).toEqual([
        'CriticalAddonsOnly',
        ...pools,
        ...automatic,
      ]);
      expect(kept({ daemonSets: 'allow' })).toEqual(['node.kubernetes.io/unschedulable', ...automatic]);
    });

    it('leaves behind a toleration of everything without a policy that says so', () => {
      const everything = [{ operator: 'Exists' }, { key: '', operator: 'Exists', effect: 'NoExecute' }];
      const withNull = [{ key: null as unknown as string, operator: 'Exists' }];
      expect(superSpec({ tolerations: withNull }, tolerating('gpu')).tolerations).toEqual([]);
      expect(superSpec({ tolerations: everything })).toMatchObject({ tolerations: [] });
      expect(superSpec({ tolerations: everything }, tolerating('gpu')).tolerations).toEqual([]);
      expect(superSpec({ tolerations: everything }, tolerating('*')).tolerations).toEqual(everything);
    });

    it('lets pods there that the policy names the taint for', () => {
      const [role = ''] = controlPlane;
      const wish = { tolerations: taints([role]), nodeSelector: { [role]: '' } };
      const spec = superSpec(wish, tolerating('node-role.kubernetes.io/'));
      expect(spec).toMatchObject(wish);
      expect(required(spec)).toBeUndefined();
    });

    it.each([
      ['tolerates everything', { tolerations: [{ operator: 'Exists' }] }],
      ['selects them by label', { nodeSelector: { 'node-role.kubernetes.io/control-plane': '' } }],
    ])('keeps a pod away that %s', (_what, wish) => {
      const spec = superSpec(wish, tolerating('*'));
      expect(spec).toMatchObject(wish);
      expect(required(spec)).toEqual([{ matchExpressions: guard }]);
    });

    it('guards every alternative of a node affinity, and makes none of an empty one', () => {
      const zone = { key: 'zone', operator: 'In', values: ['a'] };
      const name = { key: 'metadata.name', operator: 'In', values: ['n1'] };
      const nodeSelectorTerms = [{ matchExpressions: [zone] }, { matchFields: [name] }, {}];
      const nodeAffinity = { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } };
      const spec = superSpec(
        { tolerations: [{ operator: 'Exists' }], affinity: { nodeAffinity } },
        tolerating('*'),
      );
      expect(required(spec)).toEqual([
        { matchExpressions: [zone, ...guard] },
        { matchFields: [name], matchExpressions: guard },
        {},
      ]);
    });

    it('guards a pod whose node affinity asks for them', () => {
      const asking = { key: 'node-role.kubernetes.io/control-plane', operator: 'Exists' };
      const nodeAffinity = {
        requiredDuringSchedulingIgnoredDuringExecution: {
          nodeSelectorTerms: [{ matchExpressions: [asking] }],
        },
      };
      expect(required(superSpec({ affinity: { nodeAffinity } }))).toEqual([
        { matchExpressions: [asking, ...guard] },
      ]);
    });
  });
});

/** An object of the tenant that a pod refers to. */
function named(kind: string, name: string): KubeObject {
  return { kind, metadata: { name, namespace: 'shop' } };
}

function superDns(spec: PodSpec, options: TestContextOptions = { tenantObjects: [clusterDns] }) {
  const t = tenantPod({ spec });
  const { dnsPolicy, dnsConfig } = (podKind.toSuper(t, podContext(options)) as Pod).spec ?? {};
  return { dnsPolicy, dnsConfig };
}

function merged(dnsConfig: DnsConfig): DnsConfig | undefined {
  return superDns({ dnsConfig }).dnsConfig;
}

const searches = ['shop.svc.cluster.local', 'svc.cluster.local', 'cluster.local'];
const ofTenant = {
  dnsPolicy: 'None',
  dnsConfig: { nameservers: ['10.112.4.10'], searches, options: [{ name: 'ndots', value: '5' }] },
};

describe("a pod's DNS (sync rule `pod-dns`)", () => {
  it.each([
    ['ClusterFirst', { dnsPolicy: 'ClusterFirst' }],
    ['ClusterFirstWithHostNet', { dnsPolicy: 'ClusterFirstWithHostNet', hostNetwork: true }],
    ['ClusterFirstWithHostNet without host network', { dnsPolicy: 'ClusterFirstWithHostNet' }],
  ])("is the tenant's by %s", (_what, spec) => {
    expect(superDns(spec)).toEqual(ofTenant);
  });

  it("searches the tenant's own domain", () => {
    const options = { tenant: { clusterDomain: 'blue.example' }, tenantObjects: [clusterDns] };
    expect(superDns({}, options).dnsConfig?.searches).toEqual([
      'shop.svc.blue.example',
      'svc.blue.example',
      'blue.example',
    ]);
  });

  it.each([
    ['there is no such Service', []],
    ['it has no address', [testService('kube-dns', { clusterIP: 'None' }, 'kube-system')]],
    ['it is in another namespace', [testService('kube-dns')]],
  ])("is the node's when %s", (_what, tenantObjects) => {
    const dnsConfig = { options: [{ name: 'edns0' }] };
    expect(superDns({ dnsConfig }, { tenantObjects })).toEqual({ dnsPolicy: 'Default', dnsConfig });
    expect(superDns({}, { tenantObjects })).toEqual({ dnsPolicy: 'Default', dnsConfig: undefined });
  });

  it.each([
    ['None', { dnsPolicy: 'None' }],
    ['Default', { dnsPolicy: 'Default' }],
    ['ClusterFirst in the host network', { dnsPolicy: 'ClusterFirst', hostNetwork: true }],
  ])('is left alone by %s', (_what, spec) => {
    const own = { ...spec, dnsConfig: { nameservers: ['9.9.9.9'], searches: ['example.org'] } };
    const { dnsPolicy, dnsConfig } = own;
    expect(superDns(own)).toEqual({ dnsPolicy, dnsConfig });
  });

  it("adds the pod's own servers, searches and options behind the tenant's, each once", () => {
    const own = {
      nameservers: ['9.9.9.9', '10.112.4.10'],
      searches: ['example.org', 'cluster.local'],
      options: [{ name: 'edns0' }, { name: 'timeout', value: '2' }],
    };
    expect(merged(own)).toEqual({
      nameservers: ['10.112.4.10', '9.9.9.9'],
      searches: [...searches, 'example.org'],
      options: [{ name: 'ndots', value: '5' }, { name: 'edns0' }, { name: 'timeout', value: '2' }],
    });
  });

  it("lets the pod's own options win by name", () => {
    expect(merged({ options: [{ name: 'ndots', value: '2' }] })?.options).toEqual([
      { name: 'ndots', value: '2' },
    ]);
  });

  it('keeps three servers, the tenant first', () => {
    expect(merged({ nameservers: ['1.1.1.1', '1.1.1.2', '1.1.1.3'] })?.nameservers).toEqual([
      '10.112.4.10',
      '1.1.1.1',
      '1.1.1.2',
    ]);
  });

  it('keeps 32 searches', () => {
    const own = Array.from({ length: 32 }, (_, index) => `d${index}.example.org`);
    expect(merged({ searches: own })?.searches).toEqual([...searches, ...own.slice(0, 29)]);
  });

  it('keeps as many searches as fit into 2048 characters, and none that is too long for one', () => {
    const long = (label: string) => `${label.repeat(60)}.`.repeat(4).slice(0, -1);
    const own = [...'abcdefgh'].map(long);
    const kept = merged({ searches: own })?.searches ?? [];
    expect(kept).toEqual([...searches, ...own.slice(0, 8)]);
    expect(merged({ searches: [...own, long('i')] })?.searches).toEqual(kept);
    expect(merged({ searches: [`${long('x')}.${long('y')}`, 'z'] })?.searches).toEqual([...searches, 'z']);
  });
});

function superNames(spec: PodSpec) {
  const { spec: made = {} } = podKind.toSuper(tenantPod({ spec }), podContext()) as Pod;
  const fields = ['hostname', 'subdomain', 'setHostnameAsFQDN', 'hostnameOverride'];
  return Object.fromEntries(fields.filter((field) => field in made).map((field) => [field, made[field]]));
}

describe('host names (sync rule `pod-hostname`)', () => {
  it('keep the host name and drop the subdomain', () => {
    expect(superNames({ hostname: 'db-0', subdomain: 'db' })).toEqual({ hostname: 'db-0' });
    expect(superNames({ hostname: 'db-0' })).toEqual({ hostname: 'db-0' });
    expect(superNames({})).toEqual({});
  });

  it("are the tenant object's qualified one for a pod that wants it", () => {
    expect(superNames({ hostname: 'db-0', subdomain: 'db', setHostnameAsFQDN: true })).toEqual({
      hostname: 'db-0',
      hostnameOverride: 'db-0.db.shop.svc.cluster.local',
    });
    expect(superNames({ subdomain: 'db', setHostnameAsFQDN: true })).toEqual({
      hostnameOverride: 'web.db.shop.svc.cluster.local',
    });
  });

  it('are not overridden where kubelet would not qualify them, or the API server would refuse it', () => {
    expect(superNames({ setHostnameAsFQDN: true })).toEqual({ setHostnameAsFQDN: true });
    expect(superNames({ subdomain: 'db', setHostnameAsFQDN: false })).toEqual({ setHostnameAsFQDN: false });
    expect(superNames({ subdomain: 'db', setHostnameAsFQDN: true, hostNetwork: true })).toEqual({
      setHostnameAsFQDN: true,
    });
  });

  it('keep an override of the tenant object itself', () => {
    expect(superNames({ subdomain: 'db', hostnameOverride: 'mine.example.org' })).toEqual({
      hostnameOverride: 'mine.example.org',
    });
  });

  it('of more than 64 characters start no pod, and the tenant is told why', () => {
    const admitted = (length: number) => {
      const hostname = 'h'.repeat(length - '.db.shop.svc.cluster.local'.length);
      const t = tenantPod({ spec: { hostname, subdomain: 'db', setHostnameAsFQDN: true } });
      return podKind.admit?.(t, podContext());
    };
    expect(admitted(64)).toEqual({ wanted: true });
    expect(admitted(65)).toMatchObject({
      wanted: false,
      notice: { reason: 'NotSupported', message: expect.stringMatching(/setHostnameAsFQDN.*64/) },
    });
  });
});

describe('tokens', () => {
  function superSpec(spec: PodSpec, context = podContext()): PodSpec {
    return (podKind.toSuper(tenantPod({ spec }), context) as Pod).spec ?? {};
  }

  /** As the tenant's admission plugin writes it. */
  const access = {
    name: 'kube-api-access-x7k2p',
    projected: {
      defaultMode: 420,
      sources: [
        { serviceAccountToken: { expirationSeconds: 3607, path: 'token' } },
        { configMap: { name: 'kube-root-ca.crt', items: [{ key: 'ca.crt', path: 'ca.crt' }] } },
        {
          downwardAPI: {
            items: [{ path: 'namespace', fieldRef: { apiVersion: 'v1', fieldPath: 'metadata.namespace' } }],
          },
        },
      ],
    },
  };

  describe('tokens (sync rule `pod-tokens`)', () => {
    it('never are those of the super cluster, by default, by wish or by projection', () => {
      for (const wish of [true, false, undefined]) {
        const automount = wish === undefined ? {} : { automountServiceAccountToken: wish };
        for (const volumes of [[access], [], undefined]) {
          const spec = superSpec({ ...automount, ...(volumes && { volumes }) });
          expect(spec['automountServiceAccountToken']).toBe(false);
          expect(JSON.stringify(spec)).not.toContain('serviceAccountToken"');
        }
      }
    });

    it('come from a Secret into the volume that every pod gets, beside CA and namespace', () => {
      const mount = {
        name: access.name,
        mountPath: '/var/run/secrets/kubernetes.io/serviceaccount',
        readOnly: true,
      };
      const spec = superSpec({ volumes: [access], containers: [{ name: 'main', volumeMounts: [mount] }] });
      expect(spec.volumes).toEqual([
        {
          name: access.name,
          projected: {
            defaultMode: 420,
            sources: [
              {
                secret: {
                  name: 'skerry-token-web',
                  items: [{ key: 'token-0', path: 'token' }],
                  optional: false,
                },
              },
              { configMap: { name: 'tenant-kube-root-ca.crt', items: [{ key: 'ca.crt', path: 'ca.crt' }] } },
              {
                downwardAPI: {
                  items: [
                    {
                      path: 'namespace',
                      fieldRef: { apiVersion: 'v1', fieldPath: `metadata.labels['${labelKeys.namespace}']` },
                    },
                  ],
                },
              },
            ],
          },
        },
      ]);
      expect(spec.containers?.[0]?.['volumeMounts']).toEqual([mount]);
    });

    it('are told apart by audience and life, and asked for once where they are the same', () => {
      const token = (path: string, audience: string, expirationSeconds = 3600): Projection => ({
        serviceAccountToken: { path, audience, expirationSeconds },
      });
      const spec = superSpec(
        {
          volumes: [
            { name: 'a', projected: { sources: [token('vault', 'vault'), token('short', 'vault', 600)] } },
            {
              name: 'b',
              projected: { sources: [token('deep/vault', 'vault'), { secret: { name: 'own' } }] },
            },
            { name: 'c', secret: { secretName: 'static' } },
          ],
        },
        podContext({ tenantObjects: [named('Secret', 'own'), named('Secret', 'static')] }),
      );
      const items = spec.volumes?.map(({ projected }) =>
        projected?.sources?.map(({ secret }) => (secret?.['items'] as unknown[] | undefined) ?? secret),
      );
      expect(items).toEqual([
        [[{ key: 'token-0', path: 'vault' }], [{ key: 'token-1', path: 'short' }]],
        [[{ key: 'token-0', path: 'deep/vault' }], { name: 'own' }],
        undefined,
      ]);
      expect(spec.volumes?.[2]).toEqual({ name: 'c', secret: { secretName: 'static' } });
    });

    describe('can be read by whom kubelet gives its own tokens to', () => {
      const modeFor = (spec: PodSpec): unknown => {
        const [source] = superSpec({ ...spec, volumes: [access] }).volumes?.[0]?.projected?.sources ?? [];
        return (source?.secret?.['items'] as { mode?: number }[] | undefined)?.[0]?.mode;
      };
      const containers = (...users: (number | undefined)[]) =>
        users.map((runAsUser, index) => ({
          name: `c${index}`,
          ...(runAsUser === undefined ? {} : { securityContext: { runAsUser } }),
        }));

      it("the group of the pod, to whose Secrets' files kubelet adds the right to read", () => {
        expect(modeFor({ securityContext: { fsGroup: 2000 } })).toBe(0o600);
        expect(modeFor({ securityContext: { fsGroup: 2000, runAsUser: 1000 } })).toBe(0o600);
      });

      it('the one user of all containers: everybody in the pod, as it cannot be made the owner', () => {
        expect(modeFor({ securityContext: { runAsUser: 1000 } })).toBe(0o644);
        expect(modeFor({ containers: containers(1000, 1000) })).toBe(0o644);
        expect(modeFor({ securityContext: { runAsUser: 7 }, containers: containers(1000, 1000) })).toBe(
          0o644,
        );
        expect(modeFor({ containers: containers(1000), initContainers: containers(1000) })).toBe(0o644);
        expect(modeFor({ securityContext: { runAsUser: 0 } })).toBe(0o600);
      });

      it('and whom the volume says, where there are several users, or the image decides', () => {
        expect(modeFor({})).toBeUndefined();
        expect(modeFor({ containers: containers(1000, 1001) })).toBeUndefined();
        expect(modeFor({ containers: containers(1000, undefined) })).toBeUndefined();
        expect(modeFor({ containers: containers(1000), initContainers: containers(0) })).toBeUndefined();
        expect(modeFor({ securityContext: { runAsUser: 7 }, containers: containers(1000, undefined) })).toBe(
          undefined,
        );
      });
    });
  });
});

describe('hidden nodes', () => {
  const tenant = testTenant({ hideNodes: true });
  const shown = shownNodeName(tenant, 'n1');
  const node: KubeObject = { apiVersion: 'v1', kind: 'Node', metadata: { name: 'n1', uid: 'uid-n1' } };
  const context = podContext({ tenant: { hideNodes: true }, superObjects: [node] });

  describe('pods of a tenant that nodes are hidden from (sync rules `pod-binding` and `virtual-nodes`)', () => {
    it('are bound to nodes by the names that it sees', () => {
      const t = tenantPod();
      const actions = podKind.up?.(t, superPod(t, { spec: { nodeName: 'n1' } }), context) ?? [];
      expect(actions.slice(0, 2)).toMatchObject([
        { do: 'require', keys: [{ kind: 'nodes', name: shown }] },
        { do: 'bindTenant', node: shown },
      ]);
    });

    it('have the labels of the zone they are in, but for one that names the node', () => {
      const [zone, region] = ['topology.kubernetes.io/zone', 'topology.kubernetes.io/region'];
      const t = tenantPod();
      const s = superPod(t, {
        spec: { nodeName: 'n1' },
        metadata: { labels: { [zone]: 'n1', [region]: 'north' } },
      });
      const bound = (podKind.up?.(t, s, context) ?? []).find((action) => action.do === 'bindTenant');
      expect(bound).toMatchObject({ labels: { [region]: 'north' } });
      expect(bound?.labels).not.toHaveProperty(zone);
    });

    it('show neither name nor address of the node in their status', () => {
      const t = tenantPod({ spec: { nodeName: shown } });
      const s = superPod(t, {
        spec: { nodeName: 'n1' },
        status: {
          phase: 'Running',
          message: 'n1 is full',
          hostIP: '198.51.100.4',
          hostIPs: [{ ip: '198.51.100.4' }, { ip: '2001:db8::4' }],
        },
      });
      const text = JSON.stringify(podKind.up?.(t, s, context));
      expect(text).toContain('"hostIP":"192.0.2.11","hostIPs":[{"ip":"192.0.2.11"}]');
      expect(text).toContain(`${shown} is full`);
      expect(text).not.toContain('198.51.100.4');
      const unbound = superPod(tenantPod(), { status: { phase: 'Pending', nominatedNodeName: 'n1' } });
      expect(JSON.stringify(podKind.up?.(tenantPod(), unbound, context))).toContain(
        `"nominatedNodeName":"${shown}"`,
      );
    });

    it('are known to be bound by us under that name, though they have lost the mark', () => {
      const t = tenantPod({ spec: { nodeName: shown } });
      const s = superPod(t, { spec: { nodeName: 'n1' } });
      const among = podContext({ tenant: { hideNodes: true }, superObjects: [node, s] });
      expect(podKind.admit?.(t, among).wanted).toBe(true);
      const byHand = tenantPod({ spec: { nodeName: 'n1' } });
      expect(podKind.admit?.(byHand, among).wanted).toBe(false);
    });

    it('touch the node that the tenant sees, from either side, where nodes are there for their pods', () => {
      const used = podContext({ tenant: { hideNodes: true, nodes: 'used' } });
      const pool = podContext({ tenant: { hideNodes: true, nodeSelector: { pool: 'a' } } });
      const t = tenantPod({ spec: { nodeName: shown } });
      const s = superPod(t, { spec: { nodeName: 'n1' } });
      for (const each of [used, pool]) {
        const key = { kind: 'nodes', name: shown };
        expect(podKind.touches?.tenant?.(t, each)).toContainEqual(key);
        expect(podKind.touches?.super?.(s, each)).toContainEqual(key);
      }
      expect(podKind.touches?.super?.(s, context)).toEqual([]);
      expect(s.metadata.annotations?.[annotationKeys.uid]).toBe(t.metadata.uid);
    });
  });
});

describe('references to what the tenant does not have (sync rule `late-references`)', () => {
  const late = (spec: PodSpec, ...there: KubeObject[]) =>
    (podKind.toSuper(tenantPod({ spec }), podContext({ tenantObjects: there })) as Pod).spec ?? {};

  const everywhere: PodSpec = {
    imagePullSecrets: [{ name: 'x' }],
    volumes: [
      { name: 'a', configMap: { name: 'x', optional: true } },
      { name: 'b', secret: { secretName: 'x', optional: true } },
      { name: 'c', projected: { sources: [{ configMap: { name: 'x' } }, { secret: { name: 'x' } }] } },
      { name: 'd', csi: { driver: 'd', nodePublishSecretRef: { name: 'x' } } },
      // A lying server may send what no API server would.
      { name: 'e', cephfs: { secretName: 'x', secretRef: { name: 'x' } }, configMap: { name: 'x' } },
    ],
    initContainers: [
      { name: 'first', envFrom: [{ configMapRef: { name: 'x' } }, { secretRef: { name: 'x' } }] },
    ],
    containers: [
      {
        name: 'main',
        env: [
          { name: 'A', valueFrom: { configMapKeyRef: { name: 'x', key: 'k' } } },
          { name: 'B', valueFrom: { secretKeyRef: { name: 'x', key: 'k', optional: true } } },
        ],
      },
    ],
  };
  const places = (spec: PodSpec): string[] =>
    [...JSON.stringify(spec).matchAll(/"(?:name|secretName)":"((?:skerry-late-)?x)"/g)].map(
      ([, name = '']) => name,
    );

  it('go by names that only Skerry gives, wherever they stand, and stay what they are else', () => {
    expect(places(everywhere)).toHaveLength(13);
    expect(new Set(places(late(everywhere)))).toEqual(new Set(['skerry-late-x']));
    expect(places(late(everywhere))).toHaveLength(13);
    const [volume] = late(everywhere).volumes ?? [];
    expect(volume).toEqual({ name: 'a', configMap: { name: 'skerry-late-x', optional: true } });
  });

  it('keep the name of what the tenant has, each kind for itself', () => {
    const both = late(everywhere, named('ConfigMap', 'x'), named('Secret', 'x'));
    expect(new Set(places(both))).toEqual(new Set(['x']));
    const one = late(everywhere, named('Secret', 'x'));
    expect(one.imagePullSecrets).toEqual([{ name: 'x' }]);
    expect(one.volumes?.[0]).toMatchObject({ configMap: { name: 'skerry-late-x' } });
    const elsewhere: KubeObject = { kind: 'Secret', metadata: { name: 'x', namespace: 'other' } };
    expect(late(everywhere, elsewhere).imagePullSecrets).toEqual([{ name: 'skerry-late-x' }]);
  });

  it('a name that would be too long for that has to be there before the pod', () => {
    const name = 'x'.repeat(250);
    const pod = tenantPod({ spec: { imagePullSecrets: [{ name }] } });
    expect(podKind.admit?.(pod, podContext())).toMatchObject({
      wanted: false,
      notice: { message: expect.stringContaining('create it before the pod') },
    });
    expect(podKind.admit?.(pod, podContext({ tenantObjects: [named('Secret', name)] }))).toEqual({
      wanted: true,
    });
  });
});
