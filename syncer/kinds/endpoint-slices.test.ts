import { describe, expect, it, vi } from 'vitest';
import { defaultPolicy } from '../../api/default-policy.ts';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import type { KubeObject } from '../../kube/index.ts';
import type { TenantInfo } from '../context.ts';
import { superNamespaceName } from '../mapping/names.ts';
import { endpointSliceKind } from './endpoint-slices.ts';
import { allKinds } from './registry.ts';
import { testContext, testTenant } from './testing.ts';

describe('index', () => {
  const superShop = superNamespaceName(testTenant(), 'shop');

  function slice(address = '10.244.1.5', change: Record<string, unknown> = {}): KubeObject {
    return {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: {
        name: 'db-1',
        namespace: 'shop',
        uid: 'uid-slice',
        labels: {
          'kubernetes.io/service-name': 'db',
          'endpointslice.kubernetes.io/managed-by': 'endpointslicemirroring-controller.k8s.io',
        },
      },
      addressType: 'IPv4',
      endpoints: [
        {
          addresses: [address],
          conditions: { ready: true },
          nodeName: 'made-up',
          targetRef: { kind: 'Pod', name: 'db-0', namespace: 'shop', uid: 'uid-pod' },
        },
      ],
      ports: [{ name: '', port: 5432, protocol: 'TCP' }],
      ...change,
    };
  }

  function service(spec: Record<string, unknown> = {}, name = 'db', namespace = 'shop'): KubeObject {
    return {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name, namespace },
      spec: { clusterIP: '10.112.4.30', ...spec },
    };
  }

  function pod(ip = '10.244.1.5'): KubeObject {
    return {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'db-0', namespace: 'shop', uid: 'uid-pod' },
      status: { podIP: ip, podIPs: [{ ip }] },
    };
  }

  function superPod(
    ip = '10.244.1.5',
    spec: Record<string, unknown> = {},
    tenant = testTenant().uid,
  ): KubeObject {
    return {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: {
        name: 'db-0',
        namespace: superShop,
        uid: 'uid-super-pod',
        labels: { [labelKeys.tenant]: tenant },
        annotations: { [annotationKeys.uid]: 'uid-of-the-pod' },
      },
      spec: { nodeName: 'node-1', ...spec },
      status: { podIP: ip, podIPs: [{ ip }] },
    };
  }

  function context(
    tenantObjects: KubeObject[],
    superObjects: KubeObject[],
    tenant: Partial<TenantInfo> = {},
  ) {
    return testContext({ tenant, tenantObjects, superObjects, kinds: allKinds });
  }

  const usual = () => context([service(), pod()], [superPod()]);

  describe('EndpointSlices go down only for Services without selector', () => {
    it('with managed-by rewritten, the reference to the tenant object stripped, the node that of the pod', () => {
      expect(endpointSliceKind.admit?.(slice(), usual())).toEqual({ wanted: true });
      const object = endpointSliceKind.toSuper(slice(), usual());
      expect(object.metadata.labels).toMatchObject({
        'kubernetes.io/service-name': 'db',
        'endpointslice.kubernetes.io/managed-by': 'syncer.skerry.dev',
      });
      expect(object).toMatchObject({ metadata: { namespace: superShop, name: 'db-1' }, addressType: 'IPv4' });
      expect(object['endpoints']).toEqual([
        { addresses: ['10.244.1.5'], conditions: { ready: true }, nodeName: 'node-1' },
      ]);
      expect(object['ports']).toEqual([{ name: '', port: 5432, protocol: 'TCP' }]);
      expect(endpointSliceKind.down(slice(), object, usual())).toEqual([]);
    });

    it('not when the Service has a selector, is missing, or the slice names none', () => {
      const selecting = context([service({ selector: { app: 'db' } }), pod()], [superPod()]);
      expect(endpointSliceKind.admit?.(slice(), selecting)).toEqual({ wanted: false });
      expect(endpointSliceKind.admit?.(slice(), context([pod()], [superPod()]))).toEqual({ wanted: false });
      const nameless = slice();
      nameless.metadata.labels = {};
      expect(endpointSliceKind.admit?.(nameless, usual())).toEqual({ wanted: false });
    });

    it('not what is to stay in the tenant, and without a word', () => {
      const own = slice('192.0.2.1');
      own.metadata.labels = { ...own.metadata.labels, 'skerry.dev/sync': 'false' };
      expect(endpointSliceKind.admit?.(own, context([own, service()], []))).toEqual({ wanted: false });
    });

    it('not what the endpoint slice controller of the tenant has written', () => {
      const written = slice();
      written.metadata.labels = {
        'kubernetes.io/service-name': 'db',
        'endpointslice.kubernetes.io/managed-by': 'endpointslice-controller.k8s.io',
      };
      expect(endpointSliceKind.admit?.(written, usual())).toEqual({ wanted: false });
      const { byService, byAddress } = endpointSliceKind.indexes?.tenant ?? {};
      expect([byService?.(written), byAddress?.(written)]).toEqual([[], []]);
      expect([byService?.(slice()), byAddress?.(slice())]).toEqual([['shop/db'], ['10.244.1.5']]);
    });
  });

  describe("an endpoint has to be one of the tenant's own pods", () => {
    const refusal = { wanted: false, notice: { type: 'Warning', reason: 'EndpointNotAllowed' } };

    it('refuses any other address: nodes, API servers, link-local, other tenants', () => {
      for (const address of ['192.0.2.10', '169.254.169.254', '10.112.4.1', '10.244.9.9']) {
        expect(endpointSliceKind.admit?.(slice(address), usual())).toMatchObject(refusal);
      }
    });

    it("does not believe what the tenant's pod status says", () => {
      expect(
        endpointSliceKind.admit?.(slice('192.0.2.10'), context([service(), pod('192.0.2.10')], [superPod()])),
      ).toMatchObject(refusal);
      expect(endpointSliceKind.admit?.(slice(), context([service(), pod()], []))).toMatchObject(refusal);
      const stranger = superPod('10.244.1.5', {}, 'another-tenant');
      expect(endpointSliceKind.admit?.(slice(), context([service(), pod()], [stranger]))).toMatchObject(
        refusal,
      );
    });

    it('refuses the address of a pod that has finished: another tenant may have it by now', () => {
      const finished = superPod();
      finished['status'] = { ...(finished['status'] as object), phase: 'Succeeded' };
      expect(endpointSliceKind.admit?.(slice(), context([service(), pod()], [finished]))).toMatchObject(
        refusal,
      );
    });

    it('does not look through the many pods that a tenant says have the address', () => {
      const claimed = vi.fn(() => []);
      const there = usual();
      const asked = {
        ...there,
        tenantObjects: {
          get: there.tenantObjects.get.bind(there.tenantObjects),
          byIndex: claimed,
          version: () => 0,
        },
      };
      expect(endpointSliceKind.admit?.(slice(), asked)).toEqual({ wanted: true });
      expect(claimed).not.toHaveBeenCalled();
    });

    it('refuses the address of a pod on the host network: it is the node', () => {
      const tenant = context([service(), pod()], [superPod('10.244.1.5', { hostNetwork: true })]);
      expect(endpointSliceKind.admit?.(slice(), tenant)).toMatchObject(refusal);
    });

    it('keeps the allowed endpoints of a slice that has others, and says which are left out', () => {
      const mixed = slice('10.244.1.5', {
        endpoints: [{ addresses: ['10.244.1.5'] }, { addresses: ['192.0.2.10'] }],
      });
      expect(endpointSliceKind.admit?.(mixed, usual())).toMatchObject({
        wanted: true,
        notice: { message: expect.stringContaining('192.0.2.10') },
      });
      expect(endpointSliceKind.toSuper(mixed, usual())['endpoints']).toEqual([
        { addresses: ['10.244.1.5'], nodeName: 'node-1' },
      ]);
    });

    it('takes an endpoint out when its pod is gone', () => {
      const superObject = endpointSliceKind.toSuper(slice(), usual());
      const without = context([service()], []);
      expect(endpointSliceKind.down(slice(), superObject, without)).toEqual([
        { do: 'patchSuper', patch: { endpoints: [] } },
      ]);
    });

    it('takes no slice with more endpoints or addresses than Kubernetes lets one have, and indexes none of them', () => {
      const compact = endpointSliceKind.compact?.tenant as (object: KubeObject) => KubeObject;
      const indexed = (object: KubeObject): number =>
        endpointSliceKind.indexes?.tenant?.['byAddress']?.(object).length ?? 0;
      const endpoints = (count: number, addresses: number): KubeObject =>
        slice(undefined, {
          endpoints: Array.from({ length: count }, () => ({
            addresses: Array(addresses).fill('10.244.1.5'),
          })),
        });
      const most = endpoints(1_000, 100);
      expect(compact(most)).toBe(most);
      expect(indexed(most)).toBe(100_000);
      for (const more of [endpoints(1_001, 1), endpoints(1, 101)]) {
        const cached = compact(more);
        expect(indexed(cached)).toBe(0);
        expect(endpointSliceKind.admit?.(cached, context([service()], [superPod()]))).toMatchObject({
          wanted: false,
          keep: true,
          notice: { reason: 'InvalidField' },
        });
      }
      for (const odd of [slice(undefined, { endpoints: 7 }), slice(undefined, { endpoints: [null, {}] })])
        expect(compact(odd)).toBe(odd);
    });

    it('refuses host names', () => {
      const names = slice('db.example', { addressType: 'FQDN', endpoints: [{ addresses: ['db.example'] }] });
      expect(endpointSliceKind.admit?.(names, usual())).toMatchObject(refusal);
    });
  });

  it('is refused by name where it has fields that are not known; what is there stays', () => {
    const everything = slice('10.244.1.5', {
      endpoints: [
        {
          addresses: ['10.244.1.5'],
          conditions: { ready: true, serving: true, terminating: false },
          deprecatedTopology: {},
          hints: { forZones: [{ name: 'z1' }], forNodes: [] },
          hostname: 'db-0',
          zone: 'z1',
        },
      ],
      ports: [{ name: '', port: 5432, protocol: 'TCP', appProtocol: 'tls' }],
    });
    expect(endpointSliceKind.admit?.(everything, usual())).toEqual({ wanted: true });
    for (const [path, change] of [
      ['weights', { weights: [1] }],
      ['endpoints[].weight', { endpoints: [{ addresses: ['10.244.1.5'], weight: 2 }] }],
      ['endpoints[].conditions.draining', { endpoints: [{ addresses: [], conditions: { draining: true } }] }],
      ['ports[].endPort', { ports: [{ port: 1, endPort: 9 }] }],
    ] as const) {
      expect(endpointSliceKind.admit?.(slice('10.244.1.5', change), usual())).toMatchObject({
        wanted: false,
        keep: true,
        notice: { reason: 'UnknownField', message: expect.stringContaining(`the field ${path}:`) },
      });
    }
  });

  it('goes down with labels by which proxies know it, and no others that something there may act on', () => {
    const own = slice();
    own.metadata.labels = {
      ...own.metadata.labels,
      app: 'db',
      'service.kubernetes.io/headless': '',
      'service.kubernetes.io/service-proxy-name': 'x',
      'multicluster.kubernetes.io/service-name': 'x',
    };
    const { labels = {} } = endpointSliceKind.toSuper(own, usual()).metadata;
    expect(Object.keys(labels).filter((key) => !key.startsWith('skerry.dev/'))).toEqual([
      'kubernetes.io/service-name',
      'endpointslice.kubernetes.io/managed-by',
      'app',
      'service.kubernetes.io/headless',
    ]);
  });

  it('brings changed ports and labels down, and lets foreign labels be', () => {
    const superObject = endpointSliceKind.toSuper(slice(), usual());
    superObject.metadata.labels = { ...superObject.metadata.labels, theirs: 'x' };
    const changed = slice('10.244.1.5', { ports: [{ name: '', port: 5433, protocol: 'TCP' }] });
    expect(endpointSliceKind.down(changed, superObject, usual())).toEqual([
      { do: 'patchSuper', patch: { ports: [{ name: '', port: 5433, protocol: 'TCP' }] } },
    ]);
  });

  describe('sync rule `kubernetes-service`: the slice of default/kubernetes', () => {
    const tenant = { apiServer: { address: '192.0.2.10', port: 21000 } };
    const kubernetes = () => {
      const object = slice('203.0.113.66', { ports: [{ name: 'evil', port: 22, protocol: 'TCP' }] });
      object.metadata = {
        name: 'kubernetes',
        namespace: 'default',
        uid: 'uid-k',
        labels: { 'kubernetes.io/service-name': 'other' },
      };
      return object;
    };

    it("holds the tenant's API server, whatever the tenant object says", () => {
      const there = context([service({}, 'kubernetes', 'default')], [], tenant);
      expect(endpointSliceKind.admit?.(kubernetes(), there)).toEqual({ wanted: true });
      const object = endpointSliceKind.toSuper(kubernetes(), there);
      expect(object).toMatchObject({
        addressType: 'IPv4',
        endpoints: [{ addresses: ['192.0.2.10'], conditions: { ready: true } }],
        ports: [{ name: 'https', port: 21000, protocol: 'TCP' }],
      });
      expect(object.metadata.labels).toMatchObject({ 'kubernetes.io/service-name': 'kubernetes' });
      expect(endpointSliceKind.down(kubernetes(), object, there)).toEqual([]);
    });

    it('does not go down where the manager leads to the API server itself', () => {
      const led = context([], [], { apiServer: { address: '10.96.0.7', port: 443, isService: true } });
      expect(endpointSliceKind.admit?.(kubernetes(), led)).toEqual({ wanted: false });
    });

    it('follows when the API server moves', () => {
      const object = endpointSliceKind.toSuper(kubernetes(), context([], [], tenant));
      const moved = context([], [], { apiServer: { address: '192.0.2.11', port: 21001 } });
      expect(endpointSliceKind.down(kubernetes(), object, moved)).toEqual([
        {
          do: 'patchSuper',
          patch: {
            endpoints: [{ addresses: ['192.0.2.11'], conditions: { ready: true } }],
            ports: [{ name: 'https', port: 21001, protocol: 'TCP' }],
          },
        },
      ]);
      const sixth = context([], [], { apiServer: { address: '2001:db8::1', port: 21000 } });
      expect(endpointSliceKind.down(kubernetes(), object, sixth)).toEqual([{ do: 'deleteSuper' }]);
    });

    it('is the only one of that Service', () => {
      const second = slice();
      second.metadata = {
        name: 'mine',
        namespace: 'default',
        labels: { 'kubernetes.io/service-name': 'kubernetes' },
      };
      const there = context([service({}, 'kubernetes', 'default'), pod()], [superPod()], tenant);
      expect(endpointSliceKind.admit?.(second, there)).toEqual({ wanted: false });
    });
  });
});

describe('allow list', () => {
  const service: KubeObject = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'db', namespace: 'shop' },
    spec: { clusterIP: '10.112.4.30' },
  };

  function slice(...addresses: string[]): KubeObject {
    return {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: {
        name: 'db-1',
        namespace: 'shop',
        uid: 'uid-slice',
        labels: { 'kubernetes.io/service-name': 'db' },
      },
      addressType: addresses[0]?.includes(':') ? 'IPv6' : 'IPv4',
      endpoints: addresses.map((address) => ({ addresses: [address], conditions: { ready: true } })),
      ports: [{ name: '', port: 5432, protocol: 'TCP' }],
    };
  }

  function context(
    endpointCIDRs: string[],
    superObjects: KubeObject[] = [],
    tenant: Partial<TenantInfo> = {},
  ) {
    return testContext({
      tenant: { policy: { ...defaultPolicy, endpointCIDRs }, ...tenant },
      tenantObjects: [service],
      superObjects,
      kinds: allKinds,
    });
  }

  const everything = ['0.0.0.0/0', '::/0'];

  function isAllowed(address: string, over = context(everything)): boolean {
    return endpointSliceKind.admit?.(slice(address), over).wanted === true;
  }

  /** An object of the super cluster that belongs to another tenant. */
  function foreign(kind: string, name: string, rest: Record<string, unknown>): KubeObject {
    return {
      apiVersion: 'v1',
      kind,
      metadata: {
        name,
        namespace: 'acme-red-default-abc',
        uid: `uid-${name}`,
        labels: { [labelKeys.tenant]: 'another-tenant', [labelKeys.namespace]: 'default' },
        annotations: { [annotationKeys.uid]: 'theirs' },
      },
      ...rest,
    };
  }

  describe('sync rule `endpoint-slices`: endpoints by policy', () => {
    it('may lie in the ranges that the policy lists', () => {
      const listed = context(['192.0.2.0/24', '2001:db8::/64']);
      expect(isAllowed('192.0.2.77', listed)).toBe(true);
      expect(isAllowed('2001:db8::77', listed)).toBe(true);
      expect(isAllowed('198.51.100.1', listed)).toBe(false);
      expect(endpointSliceKind.toSuper(slice('192.0.2.77'), listed)['endpoints']).toEqual([
        { addresses: ['192.0.2.77'], conditions: { ready: true } },
      ]);
    });

    it('may lie nowhere without a list', () => {
      expect(isAllowed('192.0.2.77', context([]))).toBe(false);
    });

    it('are looked at one by one, but all that they are compared with is put together once', () => {
      const over = context(everything);
      const lookup = vi.spyOn(over.superObjects, 'byIndex');
      const many = slice(...Array.from({ length: 200 }, (_item, index) => `198.51.100.${index}`));
      expect(endpointSliceKind.toSuper(many, over)['endpoints']).toHaveLength(200);
      expect(lookup.mock.calls.filter(([, index]) => index === 'all')).toHaveLength(1);
    });

    it('stay while others of the slice are refused, which is told without the reason', () => {
      const node = {
        apiVersion: 'v1',
        kind: 'Node',
        metadata: { name: 'n1' },
        status: { addresses: [{ type: 'InternalIP', address: '192.0.2.2' }] },
      };
      const over = context(['192.0.2.0/24'], [node]);
      const mixed = slice('192.0.2.1', '192.0.2.2', '198.51.100.1');
      const answer = endpointSliceKind.admit?.(mixed, over);
      expect(answer).toMatchObject({ wanted: true, notice: { reason: 'EndpointNotAllowed' } });
      expect(answer?.notice?.message).toContain('192.0.2.2, 198.51.100.1;');
      expect(endpointSliceKind.toSuper(mixed, over)['endpoints']).toMatchObject([
        { addresses: ['192.0.2.1'] },
      ]);
    });
  });

  describe('sync rule `endpoint-slices`: whatever the list covers, an endpoint is never', () => {
    it.each([
      ['this host', ['127.0.0.1', '0.0.0.0', '::1']],
      ['link-local, where clouds keep credentials', ['169.254.169.254', 'fe80::1', 'fd00:ec2::254']],
      ['a group', ['224.0.0.1', '255.255.255.255', 'ff02::1']],
      ['IPv4 in the clothes of IPv6', ['::ffff:169.254.169.254', '64:ff9b::a9fe:a9fe']],
    ])('%s', (_what, addresses) => {
      for (const address of addresses) expect(isAllowed(address), address).toBe(false);
    });

    it('a node, by any of its addresses', () => {
      const addresses = [
        { type: 'InternalIP', address: '192.0.2.2' },
        { type: 'ExternalIP', address: '203.0.113.2' },
        { type: 'InternalIP', address: '2001:db8::2' },
      ];
      const node = { apiVersion: 'v1', kind: 'Node', metadata: { name: '192.0.2.9' }, status: { addresses } };
      const over = context(everything, [node]);
      for (const address of ['192.0.2.2', '203.0.113.2', '2001:db8::2', '2001:DB8:0:0::2', '192.0.2.9'])
        expect(isAllowed(address, over), address).toBe(false);
      expect(isAllowed('192.0.2.3', over)).toBe(true);
    });

    it('a pod of the operator or of another tenant', () => {
      const node = {
        apiVersion: 'v1',
        kind: 'Node',
        metadata: { name: 'n1' },
        spec: { podCIDRs: ['10.244.1.0/24', 'fd00:244:1::/64'] },
      };
      const pod = foreign('Pod', 'db', { status: { podIP: '10.9.9.9', podIPs: [{ ip: '10.9.9.9' }] } });
      const over = context(everything, [node, pod]);
      for (const address of ['10.244.1.7', 'fd00:244:1::7', '10.9.9.9'])
        expect(isAllowed(address, over), address).toBe(false);
      expect(isAllowed('10.244.2.7', over)).toBe(true);
    });

    it("another tenant's Service, by any of its addresses", () => {
      const theirs = foreign('Service', 'web', {
        spec: { clusterIP: '10.112.8.4', clusterIPs: ['10.112.8.4'], externalIPs: ['203.0.113.7'] },
        status: { loadBalancer: { ingress: [{ ip: '203.0.113.8' }] } },
      });
      const over = context(everything, [theirs]);
      for (const address of ['10.112.8.4', '203.0.113.7', '203.0.113.8'])
        expect(isAllowed(address, over), address).toBe(false);
    });

    it('an API server: its own, another tenant’s, or the super cluster’s', () => {
      const theirs = foreign('EndpointSlice', 'kubernetes', { endpoints: [{ addresses: ['192.0.2.66'] }] });
      const over = context(everything, [theirs], { protectedCIDRs: ['192.0.2.1/32', '10.96.0.0/16'] });
      const { apiServer, kubelet } = testTenant();
      for (const address of ['192.0.2.66', '192.0.2.1', '10.96.0.1', apiServer.address, kubelet.address])
        expect(isAllowed(address, over), address).toBe(false);
      expect(isAllowed('192.0.2.67', over)).toBe(true);
    });

    it('what the operator protects, as where etcd is', () => {
      expect(isAllowed('192.0.2.50', context(everything, [], { protectedCIDRs: ['192.0.2.48/29'] }))).toBe(
        false,
      );
    });

    it('one of those for longer than until that is known', () => {
      const over = context(everything);
      const made = endpointSliceKind.toSuper(slice('192.0.2.2'), over);
      const node = {
        apiVersion: 'v1',
        kind: 'Node',
        metadata: { name: 'n1' },
        status: { addresses: [{ type: 'InternalIP', address: '192.0.2.2' }] },
      };
      expect(endpointSliceKind.admit?.(slice('192.0.2.2'), context(everything, [node])).wanted).toBe(false);
      expect(endpointSliceKind.down(slice('192.0.2.2'), made, context(everything, [node]))).toEqual([
        { do: 'patchSuper', patch: { endpoints: [] } },
      ]);
    });
  });
});
