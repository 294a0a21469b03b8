import { describe, expect, it } from 'vitest';
import { type TenantIdentity, tenantCopy } from './tenant-copy.ts';

const superUid = '5b1f7c3e-0000-4000-8000-000000000001';
const podUid = '5b1f7c3e-0000-4000-8000-000000000002';
const superNamespace = 'bench-sleeper-0-shop-abcdefghijklmnop';
const model: TenantIdentity = {
  name: 'sleeper-0',
  uid: '5b1f7c3e-0000-4000-8000-000000000003',
  id: 'abcdefgh23456789',
  serviceCIDR: '10.112.4.0/22',
  ports: [21_000, 23_001],
};
const copy: TenantIdentity = {
  name: 'sleeper-1',
  uid: '0000004a-0000-4000-8000-000000000004',
  id: '0123456789abcdef',
  serviceCIDR: '10.112.16.0/22',
  ports: [21_007, 25_003],
};
const rename = () => tenantCopy({ model, superNamespaces: [superNamespace], shared: [superUid] }, copy);

describe('a copy of what a tenant has in the super cluster', () => {
  it('is a new object, with nothing that tells of the model', () => {
    const copied = rename()({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: {
        name: 'web',
        namespace: superNamespace,
        uid: podUid,
        resourceVersion: '7',
        creationTimestamp: '2026-01-01T00:00:00Z',
        labels: { 'skerry.dev/tenant': model.uid, 'skerry.dev/bucket': '3' },
        annotations: { 'skerry.dev/uid': podUid, 'skerry.dev/tenant-name': 'bench/sleeper-0' },
      },
    });
    expect(copied).toEqual({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: {
        name: 'web',
        namespace: expect.stringMatching(/^bench-sleeper-1-shop-[a-z2-7]{16}$/),
        labels: { 'skerry.dev/tenant': copy.uid, 'skerry.dev/bucket': '10' },
        annotations: {
          'skerry.dev/uid': expect.stringMatching(/^[-0-9a-f]{36}$/),
          'skerry.dev/tenant-name': 'bench/sleeper-1',
        },
      },
    });
    expect(JSON.stringify(copied)).not.toContain(podUid);
    expect(copied.metadata.namespace).not.toContain('abcdefghijklmnop');
  });

  it('has addresses and ports of its own, and of the super cluster those that all have', () => {
    const copied = rename()({
      metadata: { name: 'sleeper-0' },
      status: {
        id: model.id,
        endpoint: 'https://127.0.0.1:21000',
        gateway: { server: 'https://127.0.0.1:23001', port: 23_001 },
        serviceCIDR: model.serviceCIDR,
        addresses: ['10.112.7.255', '10.112.4.10', '10.112.8.1'],
        identities: { superCluster: superUid },
        sizes: [210_001, 123_001],
      },
    });
    expect(copied['status']).toEqual({
      id: copy.id,
      endpoint: 'https://127.0.0.1:21007',
      gateway: { server: 'https://127.0.0.1:25003', port: 25_003 },
      serviceCIDR: copy.serviceCIDR,
      addresses: ['10.112.19.255', '10.112.16.10', '10.112.8.1'],
      identities: { superCluster: superUid },
      sizes: [210_001, 123_001],
    });
  });

  it('refers to its own objects as the model does', () => {
    const copied = rename();
    const first = copied({ metadata: { name: 'a', annotations: { uid: podUid } } });
    const second = copied({ metadata: { name: 'b', labels: { owner: podUid } } });
    expect(second.metadata.labels?.['owner']).toBe(first.metadata.annotations?.['uid']);
    expect(rename()({ metadata: { name: 'a', annotations: { uid: podUid } } })).not.toEqual(first);
  });
});
