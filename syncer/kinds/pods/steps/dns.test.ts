import { describe, expect, it } from 'vitest';
import type { TestContextOptions } from '../../testing.ts';
import { podKind } from '../index.ts';
import { clusterDns, podContext, tenantPod, testService } from '../testing.ts';
import type { DnsConfig, Pod, PodSpec } from '../types.ts';

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

describe("a pod's DNS (rule 11)", () => {
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
