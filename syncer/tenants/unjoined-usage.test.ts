import { expect, it } from 'vitest';
import { labelKeys } from '../../api/labels.ts';
import { isAsleep } from '../../api/tenant-state.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { type KubeObject, resources } from '../../kube/index.ts';
import { FakeClock } from '../../kube/testing/index.ts';
import { allKinds } from '../kinds/registry.ts';
import { Caches } from '../reconcile/caches.ts';
import type { UsedResources } from './status-writer.ts';
import { UnjoinedTenantUsage } from './unjoined-usage.ts';

const everyMs = 5 * 60_000;
const before = { pods: 2, services: 1, nodes: 1, cpu: '900m', memory: '1Gi', resources: { pods: '2' } };

function sleeper(name: string, usage: object | undefined): VirtualCluster {
  const metadata = { namespace: 'acme', name, uid: `uid-${name}` };
  return { metadata, status: { phase: 'Asleep', ...(usage === undefined ? {} : { usage }) } };
}

function world(used: (uid: string, pods: readonly KubeObject[]) => Promise<UsedResources | undefined>) {
  const clock = new FakeClock();
  const superCaches = new Caches(allKinds, 'super');
  for (const [tenant, name] of [
    ['blue', 'a'],
    ['blue', 'b'],
    ['green', 'c'],
  ])
    superCaches.store(resources.pods).apply('ADDED', {
      metadata: { namespace: 'x', name: name ?? '', labels: { [labelKeys.tenant]: `uid-${tenant}` } },
    });
  const sleepers: VirtualCluster[] = [];
  const written: unknown[] = [];
  const warned: string[] = [];
  const usage = new UnjoinedTenantUsage({
    superCaches,
    kinds: allKinds,
    virtualClusters: () => sleepers,
    isUnjoined: isAsleep,
    used: (uid, pods) => used(uid, pods),
    status: {
      usageUnjoined: async (ref, uid, { used: what, counted }) =>
        void written.push([ref.name, uid, what, counted.pods]),
    },
    clock,
    onError: ({ metadata }, error) => warned.push(`${metadata.name}: ${String(error)}`),
  });
  const stop = new AbortController();
  const running = usage.run(stop.signal);
  const end = async (): Promise<void> => {
    stop.abort();
    await running;
  };
  const pass = async (): Promise<void> => {
    await clock.untilSleeping();
    await clock.advance(everyMs);
    await clock.untilSleeping();
  };
  return { superCaches, sleepers, written, warned, pass, [Symbol.asyncDispose]: end };
}

it('measures the pods of tenants that are asleep', async () => {
  const asked: unknown[] = [];
  await using there = world(async (uid, pods) => {
    asked.push([uid, pods.map(({ metadata }) => metadata.name)]);
    return { cpu: '20m', memory: '64Mi' };
  });
  there.sleepers.push(sleeper('blue', before));
  await there.pass();
  expect(asked).toEqual([['uid-blue', ['a', 'b']]]);
  expect(there.written).toEqual([['blue', 'uid-blue', { cpu: '20m', memory: '64Mi' }, '2']]);
  there.sleepers.pop();
  await there.pass();
  expect(there.written).toHaveLength(1);
});

it('takes back a figure that cannot be measured any more, and goes on with others, measured before or not', async () => {
  await using there = world(async (uid) => {
    if (uid === 'uid-blue') throw new Error('no kubelet');
    return undefined;
  });
  there.sleepers.push(sleeper('blue', before), sleeper('new', undefined), sleeper('green', undefined));
  await there.pass();
  expect(there.written).toEqual([
    ['blue', 'uid-blue', undefined, '2'],
    ['green', 'uid-green', undefined, '1'],
  ]);
  expect(there.warned).toEqual(['blue: Error: no kubelet']);
});

it('counts the claims of a tenant that has no pods and was never measured', async () => {
  await using there = world(async () => undefined);
  there.superCaches.store(resources.persistentVolumeClaims).apply('ADDED', {
    metadata: { namespace: 'x', name: 'd', labels: { [labelKeys.tenant]: 'uid-red' } },
    spec: { resources: { requests: { storage: '1Gi' } } },
  });
  there.sleepers.push(sleeper('red', undefined), sleeper('empty', undefined));
  await there.pass();
  expect(there.written).toEqual([['red', 'uid-red', undefined, '0']]);
});
