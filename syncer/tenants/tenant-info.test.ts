import { describe, expect, it } from 'vitest';
import { defaultEffectivePolicy, defaultPolicy, defaultQuota } from '../../api/default-policy.ts';
import type { DriverName } from '../../api/drivers.ts';
import { isServed } from '../../api/tenant-state.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import {
  defaultAllowedAnnotations,
  defaultAllowedLabels,
  defaultDeniedKeyPrefixes,
} from '../mapping/metadata.ts';
import { tenantInfo } from './tenant-info.ts';

const settings = {
  kubelet: { address: '192.0.2.11', port: 10450 },
  nodeLabels: ['gpu.example/'],
  protectedCIDRs: [],
  allowedAnnotations: ['mesh.example/'],
  allowedLabels: ['team.example/'],
  deniedKeyPrefixes: ['secret.example/'],
  transparentKeyPrefixes: ['shown.example/'],
  networkPoliciesEnforced: false,
  ingressAnnotations: ['shown.example/note'],
  tenantCacheMiB: 128,
  totalCacheMiB: 1_024,
};
const ready: VirtualCluster = {
  metadata: { namespace: 'acme', name: 'blue', uid: 'v1' },
  status: {
    id: 'k3v9qx2mzp',
    advertisedAddress: '192.0.2.10',
    serviceCIDR: '10.112.4.0/22',
    syncerSecret: { name: 'blue-syncer', key: 'kubeconfig' },
    identities: { tenant: 't' },
  },
};

describe('the settings of a tenant', () => {
  it('have defaults for what is not said', () => {
    expect(tenantInfo(ready, settings)).toMatchObject({
      uid: 'v1',
      id: 'k3v9qx2mzp',
      clusterDomain: 'cluster.local',
      serviceCidrs: ['10.112.4.0/22'],
      serviceIpMode: 'slice',
      apiServer: { address: '192.0.2.10', port: 443 },
      nodes: 'all',
      syncConfigMaps: 'used',
      policy: { podSecurity: 'baseline', daemonSets: 'deny' },
      transparentKeyPrefixes: ['shown.example/'],
    });
  });

  it('tell where a Service of the super cluster leads to the API server', () => {
    const { apiServer } = tenantInfo(
      { ...ready, status: { ...ready.status, driver: 'kubernetes' } },
      settings,
    );
    expect(apiServer).toEqual({ address: '192.0.2.10', port: 443, isService: true });
  });

  it('tell pods to reach the API server through the gateway, where that has an address and a port for them', () => {
    const of = (gateway: { port?: number; podAddress?: string }, driver: DriverName) =>
      tenantInfo(
        {
          ...ready,
          status: { ...ready.status, driver, gateway: { server: '', serverName: '', ...gateway } },
        },
        settings,
      ).apiServer;
    const atGateway = { address: '192.0.2.30', port: 23_001, isService: false };
    for (const driver of ['process', 'kubernetes'] as const) {
      expect(of({ port: 23_001, podAddress: '192.0.2.30' }, driver)).toEqual(atGateway);
      for (const gateway of [{ port: 23_001 }, { podAddress: '192.0.2.30' }])
        expect(of(gateway, driver)).toMatchObject({
          ...{ address: '192.0.2.10', port: 443 },
          isService: driver === 'kubernetes',
        });
    }
  });

  it('open no address to a tenant where it is not known whose that is', () => {
    const status = {
      ...ready.status,
      policy: { ...defaultEffectivePolicy, endpointCIDRs: ['192.0.2.0/24'] },
    };
    expect(tenantInfo({ ...ready, status }, settings).policy.endpointCIDRs).toEqual(['192.0.2.0/24']);
    expect(tenantInfo({ ...ready, status }, settings, false).policy.endpointCIDRs).toEqual([]);
  });

  it('add to what never goes down, and take nothing away from it', () => {
    const { deniedKeyPrefixes } = tenantInfo(ready, settings);
    expect(deniedKeyPrefixes).toEqual([...defaultDeniedKeyPrefixes, 'secret.example/']);
  });

  it('add to the annotations and labels that go down', () => {
    const { allowedAnnotations, allowedLabels } = tenantInfo(ready, settings);
    expect(allowedAnnotations).toEqual([...defaultAllowedAnnotations, 'mesh.example/']);
    expect(allowedLabels).toEqual([...defaultAllowedLabels, 'team.example/']);
  });

  it('are what the manager has decided, not what the tenant has asked for', () => {
    const vc: VirtualCluster = {
      ...ready,
      spec: { nodes: { hidden: false, selector: { pool: 'mine' } } },
      status: {
        ...ready.status,
        policy: {
          ...defaultEffectivePolicy,
          ceiling: 'gold',
          podSecurity: 'restricted',
          hideNodes: true,
          nodeSelector: { pool: 'gold' },
        },
      },
    };
    const { policy, hideNodes, nodeSelector } = tenantInfo(vc, settings);
    expect({ hideNodes, nodeSelector }).toEqual({ hideNodes: true, nodeSelector: { pool: 'gold' } });
    expect(policy).toEqual({ ...defaultPolicy, quota: defaultQuota, podSecurity: 'restricted' });
  });

  it('are the wishes for nodes while nothing is decided, and the defaults for all else', () => {
    const vc: VirtualCluster = {
      ...ready,
      spec: { nodes: { hidden: true, selector: { pool: 'mine' } } },
    };
    expect(tenantInfo(vc, settings)).toMatchObject({
      hideNodes: true,
      nodeSelector: { pool: 'mine' },
      policy: defaultPolicy,
    });
  });

  it('are not made up for a VirtualCluster that is not ready', () => {
    for (const field of ['id', 'advertisedAddress', 'serviceCIDR'] as const) {
      const { [field]: _missing, ...status } = ready.status ?? {};
      expect(() => tenantInfo({ ...ready, status }, settings)).toThrow('acme/blue is not ready to be served');
    }
  });
});

describe('whether a VirtualCluster is served', () => {
  it('depends on what the manager has said so far', () => {
    expect(isServed(ready)).toBe(true);
    for (const field of ['id', 'advertisedAddress', 'serviceCIDR', 'syncerSecret', 'identities'] as const) {
      const { [field]: _missing, ...status } = ready.status ?? {};
      expect(isServed({ ...ready, status })).toBe(false);
    }
  });

  it('ends when it is on its way out', () => {
    expect(isServed({ ...ready, status: { ...ready.status, phase: 'Deleting' } })).toBe(false);
    expect(
      isServed({ ...ready, metadata: { ...ready.metadata, deletionTimestamp: '2026-01-01T00:00:00Z' } }),
    ).toBe(false);
    expect(isServed({ ...ready, status: { ...ready.status, phase: 'Failed' } })).toBe(true);
  });
});
