import { describe, expect, it, vi } from 'vitest';
import { annotationKeys, labelKeys } from '../../../api/labels.ts';
import { defaultPolicy } from '../../../api/policy.ts';
import type { KubeObject } from '../../../kube/index.ts';
import type { TenantInfo } from '../context.ts';
import { allKinds } from '../index.ts';
import { testContext, testTenant } from '../testing.ts';
import { endpointSliceKind } from './index.ts';

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

function context(endpointCIDRs: string[], superObjects: KubeObject[] = [], tenant: Partial<TenantInfo> = {}) {
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

describe('rule 22: endpoints by policy', () => {
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
    expect(endpointSliceKind.toSuper(mixed, over)['endpoints']).toMatchObject([{ addresses: ['192.0.2.1'] }]);
  });
});

describe('rule 22: whatever the list covers, an endpoint is never', () => {
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
