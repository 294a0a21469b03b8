import { afterEach, describe, expect, it } from 'vitest';
import { Connection, KubeClient, resources } from '../kube/index.ts';
import { FakeApiServer } from '../kube/testing/index.ts';
import { Fleet } from './fleet.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function startedFleet(
  api: FakeApiServer,
  startedMs: number,
  onProblem: (problem: string | undefined) => void = () => undefined,
): Promise<Fleet> {
  const connection = new Connection(api.connectionOptions);
  const stop = new AbortController();
  const fleet = new Fleet(() => ({ problems: [], failing: [], advice: [], quota: [], jobs: [] }), startedMs);
  const running = fleet.run(new KubeClient(connection), stop.signal, () => onProblem(fleet.problem));
  cleanups.push(
    () => connection.close(),
    () => running,
    () => stop.abort(),
  );
  await fleet.synced;
  return fleet;
}

describe('the changes of a fleet', () => {
  it('are all there is for a page that comes from another process or replica, and none for its own', async () => {
    const api = await FakeApiServer.start();
    cleanups.push(() => api.stop());
    for (const name of ['blue', 'green', 'red'])
      api.put(resources.virtualClusters, { metadata: { namespace: 'a', name } });
    const all = () => true;
    const [before, after] = [await startedFleet(api, 1_000), await startedFleet(api, 1_001)];
    // More changes than the other process has seen.
    expect(after.changes(before.version, all)).toMatchObject({ isWhole: true });
    expect(after.changes(before.version - 2, all).rows).toHaveLength(3);
    expect(before.changes(after.version - 2, all)).toMatchObject({ isWhole: true });
    expect(after.changes(after.version, all)).toMatchObject({ isWhole: false, rows: [] });
    expect(after.changes(after.version - 1, all).rows).toHaveLength(1);
  });
});

describe('a fleet', () => {
  it('says what keeps it from knowing, until the super cluster answers again, though nothing has changed', async () => {
    const api = await FakeApiServer.start();
    cleanups.push(() => api.stop());
    api.put(resources.virtualClusters, { metadata: { namespace: 'a', name: 'blue' } });
    const fleet = await startedFleet(api, 1_000);
    const told = Promise.withResolvers<void>();
    fleet.subscribe(() => told.resolve());
    expect(fleet.problem).toBeUndefined();
    await api.stop();
    await told.promise;
    expect(fleet.problem).toContain('cannot be watched');
    const { version } = fleet;
    await api.listen();
    await api.until(() => api.watches('virtualclusters').length > 0);
    api.bookmark();
    await expect.poll(() => fleet.problem).toBeUndefined();
    expect(fleet.version).toBe(version);
  });

  it('tells what keeps it from knowing once, however often it is met', async () => {
    const api = await FakeApiServer.start();
    cleanups.push(() => api.stop());
    api.inject({ fault: { kind: 'status', code: 403, message: 'no right' }, times: 2 });
    const told: (string | undefined)[] = [];
    const fleet = await startedFleet(api, 1_000, (problem) => told.push(problem));
    expect(fleet.problem).toBeUndefined();
    expect(told).toEqual([expect.stringContaining('no right')]);
  });

  it('holds no control plane that waits for an owner', async () => {
    const api = await FakeApiServer.start();
    cleanups.push(() => api.stop());
    const labels = { 'skerry.dev/warm': '1.36.3' };
    api.put(resources.virtualClusters, { metadata: { namespace: 'skerry-system', name: 'warm-1', labels } });
    api.put(resources.virtualClusters, { metadata: { namespace: 'a', name: 'blue' } });
    const fleet = await startedFleet(api, 1_000);
    expect(fleet.get({ namespace: 'skerry-system', name: 'warm-1' })).toBeUndefined();
    expect(fleet.get({ namespace: 'a', name: 'blue' })).toBeDefined();
    expect(fleet.namespaces()).toEqual(['a']);
  });
});
