import { describe, expect, it } from 'vitest';
import { isConflict } from './errors.ts';
import { resources } from './resources.ts';
import { startFakeCluster } from './testing/index.ts';
import type { KubeObject } from './types.ts';
import { modifyStatus } from './update-status.ts';

const ref = { namespace: 'ns', name: 'a' };

interface Counted extends KubeObject {
  status?: { count?: number; other?: string };
}

function increment(object: Counted): Counted {
  return { ...object, status: { ...object.status, count: (object.status?.count ?? 0) + 1 } };
}

describe('modifyStatus', () => {
  it('changes the status and nothing else', async () => {
    await using cluster = await startFakeCluster();
    cluster.server.put(resources.virtualClusters, {
      metadata: ref,
      spec: { a: 1 },
      status: { other: 'kept' },
    });
    const changed = await modifyStatus<Counted>(cluster.client, resources.virtualClusters, ref, (object) => ({
      ...increment(object),
      spec: { a: 2 },
    }));
    expect(changed).toMatchObject({ spec: { a: 1 }, status: { count: 1, other: 'kept' } });
  });

  it('loses no change when many write at once', async () => {
    await using cluster = await startFakeCluster();
    cluster.server.put(resources.virtualClusters, { metadata: ref });
    const writers = Array.from({ length: 6 }, () =>
      modifyStatus<Counted>(cluster.client, resources.virtualClusters, ref, increment),
    );
    await Promise.all(writers);
    expect(cluster.server.get(resources.virtualClusters, ref)).toMatchObject({ status: { count: 6 } });
  });

  it('writes nothing when there is nothing to do', async () => {
    await using cluster = await startFakeCluster();
    cluster.server.put(resources.virtualClusters, { metadata: ref });
    await modifyStatus(cluster.client, resources.virtualClusters, ref, () => undefined);
    expect(cluster.server.requests.map(({ verb }) => verb)).toEqual(['get']);
  });

  it('gives up on a conflict that never ends', async () => {
    await using cluster = await startFakeCluster();
    cluster.server.put(resources.virtualClusters, { metadata: ref });
    const conflict = { kind: 'status', code: 409, reason: 'Conflict' } as const;
    cluster.server.inject({ verb: 'update', times: 100, fault: conflict });
    const error = await modifyStatus<Counted>(
      cluster.client,
      resources.virtualClusters,
      ref,
      increment,
    ).catch((each: unknown) => each);
    expect(isConflict(error)).toBe(true);
    expect(cluster.server.requests.filter(({ verb }) => verb === 'update')).toHaveLength(10);
  });
});
