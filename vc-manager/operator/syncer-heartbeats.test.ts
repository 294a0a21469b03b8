import { pino } from 'pino';
import { expect, it } from 'vitest';
import { labelKeys } from '../../api/labels.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { findCondition, type KubeObject, resources, Store } from '../../kube/index.ts';
import { FakeClock, startFakeCluster } from '../../kube/testing/index.ts';
import { operatorSettings } from './settings.ts';
import { SyncerHeartbeats } from './syncer-heartbeats.ts';

it('what syncers have said of tenants is not known any more two minutes after the last of them', async () => {
  await using cluster = await startFakeCluster();
  const { server, client } = cluster;
  const clock = new FakeClock();
  const virtualClusters = new Store<VirtualCluster>();
  const settings = operatorSettings({
    advertiseAddress: '192.0.2.1',
    etcdEndpoint: 'https://127.0.0.1:2379',
  });
  const say = (name: string, status: string, reason: string, phase = 'Ready'): void => {
    const conditions = [{ type: 'Synced', status, reason }];
    const vc = server.put(resources.virtualClusters, {
      metadata: { namespace: 'default', name },
      spec: {},
      status: { phase, conditions },
    } as KubeObject);
    virtualClusters.apply('ADDED', vc as VirtualCluster);
  };
  const synced = (name: string): string => {
    const [vc] = server.list(resources.virtualClusters).filter(({ metadata }) => metadata.name === name);
    const { status, reason } = findCondition((vc as VirtualCluster).status?.conditions, 'Synced') ?? {};
    return `${status} ${reason}`;
  };
  const renew = (renewTime: string): void => {
    server.put(resources.leases, {
      metadata: {
        namespace: settings.namespace,
        name: 'vc-syncer-0',
        labels: { [labelKeys.component]: 'vc-syncer' },
      },
      spec: { renewTime },
    });
  };
  const logger = pino({ level: 'silent' });
  const heartbeats = new SyncerHeartbeats({ client, clock, logger, virtualClusters, settings });
  const look = async (afterMs: number): Promise<void> => {
    await clock.advance(afterMs);
    await heartbeats.look(AbortSignal.timeout(60_000));
  };

  say('blue', 'True', 'Joined');
  say('green', 'False', 'Asleep');
  say('grey', 'True', 'Joined', 'Asleep');
  renew('one');
  await look(0);
  await look(100_000);
  renew('two');
  await look(30_000);
  await look(100_000);
  expect(synced('blue')).toBe('True Joined');
  await look(30_000);
  expect(synced('blue')).toBe('Unknown NoSyncer');
  expect(synced('green')).toBe('False Asleep');
  expect(synced('grey')).toBe('True Joined');

  say('blue', 'True', 'Joined');
  renew('three');
  await look(30_000);
  expect(synced('blue')).toBe('True Joined');
  server.remove(resources.leases, { namespace: settings.namespace, name: 'vc-syncer-0' });
  await look(150_000);
  expect(synced('blue')).toBe('Unknown NoSyncer');
});
