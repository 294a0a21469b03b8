import { describe, expect, it } from 'vitest';
import { isConflict } from './errors.ts';
import { resources } from './resources.ts';
import { findCondition, modifyStatus, setCondition } from './status.ts';
import { startFakeCluster } from './testing/index.ts';
import type { KubeObject } from './types.ts';

const wanted = { type: 'Ready', status: 'True', reason: 'AllGood', message: 'works' } as const;
const noon = new Date('2030-01-01T12:00:00.123Z');
const later = new Date('2030-01-01T13:00:00Z');

describe('setCondition', () => {
  it('adds a condition with a time in whole seconds', () => {
    expect(setCondition(undefined, wanted, noon)).toEqual([
      { ...wanted, lastTransitionTime: '2030-01-01T12:00:00Z' },
    ]);
  });

  it('says what servers said without what a terminal would act on', () => {
    const said = { ...wanted, message: `no: \u001b[2J\n\u202egnorw${'x'.repeat(10_000)}` };
    const [condition] = setCondition(undefined, said, noon);
    expect(condition?.message).toMatch(/^no: \?\[2J \?gnorwx+\.\.\.$/);
    expect(condition?.message?.length).toBeLessThan(9_000);
  });

  it('keeps lastTransitionTime while the status stays', () => {
    const [first] = setCondition(undefined, wanted, noon);
    const [second] = setCondition(first && [first], { ...wanted, message: 'still works' }, later);
    expect(second).toMatchObject({ message: 'still works', lastTransitionTime: '2030-01-01T12:00:00Z' });
  });

  it('moves lastTransitionTime when the status changes', () => {
    const conditions = setCondition(
      setCondition(undefined, wanted, noon),
      { ...wanted, status: 'False' },
      later,
    );
    expect(findCondition(conditions, 'Ready')?.lastTransitionTime).toBe('2030-01-01T13:00:00Z');
  });

  it('leaves the conditions of others as they are, in their order', () => {
    const others = [
      { type: 'A', status: 'True' as const, extra: 1 },
      { type: 'Ready', status: 'False' as const },
      { type: 'B', status: 'Unknown' as const },
    ];
    const conditions = setCondition(others, wanted, noon);
    expect(conditions.map(({ type }) => type)).toEqual(['A', 'Ready', 'B']);
    expect(conditions[0]).toBe(others[0]);
    expect(others[1]?.status).toBe('False');
  });
});

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
