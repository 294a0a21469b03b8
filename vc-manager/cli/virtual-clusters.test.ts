import { describe, expect, it } from 'vitest';
import { noSyncerReason, superClusterUnknownReason } from '../../api/conditions.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { type KubeClient, renderKubeconfig } from '../../kube/index.ts';
import { backgroundConnection, isReady, problems, validRef } from './virtual-clusters.ts';

describe('checkedRef', () => {
  it('takes what Kubernetes takes', () => {
    expect(validRef('team-blue', 'default')).toEqual({ name: 'team-blue', namespace: 'default' });
  });

  it.each(['', 'Team', 'a_b', '-a', 'a-', 'a.b', 'x'.repeat(64)])(
    'refuses the name "%s" with the reason',
    (name) => {
      expect(() => validRef(name, 'default')).toThrow(/^the name ".*" is not valid: ./s);
    },
  );

  it('refuses a namespace with the reason', () => {
    expect(() => validRef('a', 'My Team')).toThrow(/^the namespace "My Team" is not valid: ./);
  });
});

describe('the connection for what a command asks by itself', () => {
  const of = async (server: string, gateway?: NonNullable<VirtualCluster['status']>['gateway']) => {
    const text = renderKubeconfig({ clusterName: 'a', server, ca: 'ca', user: 'u', cert: 'c', key: 'k' });
    const data = { kubeconfig: Buffer.from(text).toString('base64') };
    const client = { get: async () => ({ data }) } as unknown as KubeClient;
    const vc = { metadata: { namespace: 'x', name: 'a' }, status: gateway && { gateway } } as VirtualCluster;
    const connection = await backgroundConnection(client, vc, new AbortController().signal);
    return [connection.server, connection.tlsServerName];
  };

  it('has the name by which the gateway does not count it, where it goes through the gateway', async () => {
    const gateway = { server: 'https://a.example.com:7443', serverName: 'a.example.com' };
    expect(await of(gateway.server, gateway)).toEqual([gateway.server, 'background-a.example.com']);
    expect(await of('https://192.0.2.1:6443', gateway)).toEqual(['https://192.0.2.1:6443', undefined]);
    expect(await of('https://192.0.2.1:6443')).toEqual(['https://192.0.2.1:6443', undefined]);
  });
});

describe('isReady', () => {
  const vc: VirtualCluster = {
    metadata: { generation: 2 },
    status: { phase: 'Ready', observedGeneration: 2 },
  };

  it('holds for a tenant that is as it was last asked for', () => {
    expect(isReady(vc)).toBe(true);
  });

  it('does not hold while a change has not been looked at, nor for one that is being deleted', () => {
    expect(isReady({ ...vc, metadata: { generation: 3 } })).toBe(false);
    expect(isReady({ ...vc, metadata: { generation: 2, deletionTimestamp: '2030-01-01T00:00:00Z' } })).toBe(
      false,
    );
  });
});

it('that no syncer is there is no problem of one that is asleep', () => {
  const of = (phase: 'Ready' | 'Asleep'): string[] =>
    problems({
      metadata: { name: 'a' },
      status: { phase, conditions: [{ type: 'Synced', status: 'Unknown', reason: noSyncerReason }] },
    } as VirtualCluster);
  expect(of('Ready')).toEqual([noSyncerReason]);
  expect(of('Asleep')).toEqual([]);
});

it('that pods wait for what the syncer has to find out is one problem', () => {
  const unknown = (type: string) => ({ type, status: 'Unknown', reason: superClusterUnknownReason });
  const conditions = ['TenantsIsolated', 'NetworkPoliciesEnforced'].map(unknown);
  expect(problems({ metadata: { name: 'a' }, status: { conditions } } as VirtualCluster)).toEqual([
    superClusterUnknownReason,
  ]);
  const [, other] = conditions;
  const only = { metadata: { name: 'a' }, status: { conditions: [other] } };
  expect(problems(only as VirtualCluster)).toEqual([]);
});
