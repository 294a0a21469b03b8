import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { annotationKeys } from '../../api/labels.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { resources } from '../../kube/index.ts';
import { EtcdError } from '../etcd/errors.ts';
import { dueMs } from './steps/datastore-usage.ts';
import { condition, fastPace, jobRequests, World } from './testing/world.ts';

describe('what a tenant takes in the datastore of all', () => {
  let world: World;
  let pace: ReturnType<typeof fastPace>;
  beforeEach(async () => {
    pace = fastPace(10);
    world = await World.start(pace);
  });
  afterEach(() => world.end());

  const settings = { recheckMs: 1_000 };
  const reason = (vc: VirtualCluster) => condition(vc, 'DatastoreWithinQuota')?.reason;
  const until = (wanted: string) => world.until('a', (vc) => reason(vc) === wanted);
  /** Authorizers that the API server was last started with. */
  const authorizers = (): string[] => {
    const files = world.driver.ensured.at(-1)?.components[0]?.files ?? [];
    const content = files.find(({ path }) => path === 'authorization.yaml')?.content ?? '';
    return (parse(content) as { authorizers: { name: string }[] }).authorizers.map(({ name }) => name);
  };

  it('stops writes beyond the quota, and lets them go on when enough is deleted', async () => {
    world.run({
      settings: { ...settings, advertiseAddress: '192.0.2.1', etcdEndpoint: 'https://127.0.0.1:2379' },
    });
    world.create('a', { quota: { 'datastore.keys': '1000' } });
    await world.untilReady('a');
    world.datastore.usage = { keys: 700, bytes: 1 };
    expect((await until('Enough')).status?.datastoreUsage?.writesStopped).toBeUndefined();
    expect(authorizers()).toEqual(['node-ports', 'rbac']);
    world.datastore.usage = { keys: 900, bytes: 1 };
    await until('NearQuota');
    expect(authorizers()).toEqual(['node-ports', 'rbac']);
    world.datastore.usage = { keys: 1_001, bytes: 1 };
    const stopped = await until('WritesStopped');
    expect(stopped.status?.datastoreUsage).toMatchObject({ keys: 1_001, writesStopped: true });
    expect(condition(stopped, 'DatastoreWithinQuota')).toMatchObject({
      status: 'False',
      message: expect.stringContaining('1001 keys of 1000'),
    });
    await world.until('a', () => authorizers().length === 3);
    expect(authorizers()).toEqual(['datastore-quota', 'node-ports', 'rbac']);
    // It grows all the same: what finishes deletions is refused as well, until it is back within its quota.
    const exempt = () =>
      JSON.stringify(world.driver.ensured.at(-1)?.components[0]?.files).includes('generic-garbage-collector');
    expect(exempt()).toBe(true);
    world.datastore.usage = { keys: 1_600, bytes: 1 };
    await world.until('a', (vc) => vc.status?.datastoreUsage?.sealed === true);
    await world.until('a', () => !exempt());
    world.datastore.usage = { keys: 950, bytes: 1 };
    await world.until('a', (vc) => vc.status?.datastoreUsage?.keys === 950 && exempt());
    expect(reason(world.get('a') as VirtualCluster)).toBe('WritesStopped');
    world.datastore.usage = { keys: 1_001, bytes: 1 };
    // More room by a larger quota counts at once; there has to be a tenth of it.
    world.edit('a', { quota: { 'datastore.keys': '1100' } });
    await world.until('a', (vc) => vc.status?.policy?.quota?.['datastore.keys'] === '1100');
    expect(reason(world.get('a') as VirtualCluster)).toBe('WritesStopped');
    world.edit('a', { quota: { 'datastore.keys': '2000' } });
    await until('Enough');
    await world.until('a', () => authorizers().length === 2);
  });

  it('starts no API server anew each time that a tenant swings about its quota', async () => {
    let laterMs = 0;
    world.run({
      settings: { ...settings, advertiseAddress: '192.0.2.1', etcdEndpoint: 'https://127.0.0.1:2379' },
      clock: { ...pace.clock, now: () => pace.clock.now() + laterMs },
    });
    world.create('a', { quota: { 'datastore.keys': '1000' } });
    await world.untilReady('a');
    /** Measured by the next look. */
    const takes = (keys: number): void => {
      world.datastore.usage = { keys, bytes: 1 };
      laterMs += 6_000;
    };
    takes(1_001);
    await until('WritesStopped');
    takes(850);
    const held = await world.until('a', (vc) => vc.status?.datastoreUsage?.keys === 850);
    expect(reason(held)).toBe('WritesStopped');
    expect(condition(held, 'DatastoreWithinQuota')?.message).toContain('after 10 minutes');
    laterMs += 11 * 60_000;
    await until('NearQuota');
    expect(world.get('a')?.status?.datastoreUsage?.stoppedSince).toBeUndefined();
    takes(1_001);
    await until('WritesStopped');
    // The time counts from then.
    takes(850);
    expect(reason(await world.until('a', (vc) => vc.status?.datastoreUsage?.keys === 850))).toBe(
      'WritesStopped',
    );
    // With much room nobody waits.
    takes(590);
    await until('Enough');
  });

  it('keeps its decision while the datastore does not answer', async () => {
    world.run({
      settings: { ...settings, advertiseAddress: '192.0.2.1', etcdEndpoint: 'https://127.0.0.1:2379' },
    });
    world.create('a', { quota: { 'datastore.bytes': '1Mi' } });
    await world.untilReady('a');
    world.datastore.usage = { keys: 1, bytes: 2 * 1024 ** 2 };
    world.datastore.total.bytesInUse = 1;
    world.edit('a', { weight: 2 });
    await until('WritesStopped');
    let asked = 0;
    world.datastore.countTenantKeys = async () => {
      asked++;
      throw new EtcdError('Unavailable', 'no leader');
    };
    world.edit('a', { weight: 3 });
    const after = await world.until('a', (vc) => vc.status?.observedGeneration === 3 && asked > 0);
    expect(reason(after)).toBe('WritesStopped');
    expect(after.status?.phase).toBe('Ready');
    expect(authorizers()).toEqual(['datastore-quota', 'node-ports', 'rbac']);
  });

  it('is not measured before one that wakes is started, but right after', async () => {
    let laterMs = 0;
    world.run({
      settings: { ...settings, advertiseAddress: '192.0.2.1', etcdEndpoint: 'https://127.0.0.1:2379' },
      clock: { ...pace.clock, now: () => pace.clock.now() + laterMs },
    });
    world.create('a');
    await world.untilReady('a');
    await until('Enough');
    const { annotate } = jobRequests(() => world);
    annotate('a', annotationKeys.sleep, 'one');
    await world.until('a', (vc) => vc.status?.sleep?.stopped === true);
    laterMs = 24 * 60 * 60_000;
    world.datastore.usage = { keys: 7, bytes: 1 };
    const before = world.datastore.measured;
    const atStart: number[] = [];
    const ensure = world.driver.ensure.bind(world.driver);
    world.driver.ensure = (...args) => {
      atStart.push(world.datastore.measured - before);
      return ensure(...args);
    };
    annotate('a', annotationKeys.wake, 'one');
    await world.until('a', (vc) => vc.status?.datastoreUsage?.keys === 7);
    expect(atStart[0]).toBe(0);
  });

  it('is measured before one goes back to sleep that was woken for a moment', async () => {
    let laterMs = 0;
    world.run({
      settings: { ...settings, advertiseAddress: '192.0.2.1', etcdEndpoint: 'https://127.0.0.1:2379' },
      clock: { ...pace.clock, now: () => pace.clock.now() + laterMs },
    });
    world.create('a', { quota: { 'datastore.bytes': '1Mi' } });
    await world.untilReady('a');
    await until('Enough');
    jobRequests(() => world).annotate('a', annotationKeys.sleep, '2026-11-28T05:00:00Z');
    await world.until('a', (vc) => vc.status?.sleep?.stopped === true);
    laterMs = 24 * 60 * 60_000;
    world.datastore.usage = { keys: 7, bytes: 2 * 1024 ** 2 };
    const vc = world.get('a') as VirtualCluster;
    const annotations = {
      [annotationKeys.wake]: '2026-11-28T06:00:00Z',
      [annotationKeys.sleep]: '2026-11-28T06:00:01Z',
    };
    world.superCluster.put(resources.virtualClusters, { ...vc, metadata: { ...vc.metadata, annotations } });
    const after = await world.until(
      'a',
      ({ status }) => status?.sleep?.stopped === true && status.datastoreUsage?.keys === 7,
    );
    expect(after.status?.phase).toBe('Asleep');
    expect(after.status?.datastoreUsage?.writesStopped).toBe(true);
  });

  it('says so where the template cannot stop anything', async () => {
    world.changeTemplates(({ spec }) => {
      for (const { args } of spec.components) {
        if (args['authorization-config'] === undefined) continue;
        delete args['authorization-config'];
        args['authorization-mode'] = 'RBAC';
      }
    });
    world.run({
      settings: { ...settings, advertiseAddress: '192.0.2.1', etcdEndpoint: 'https://127.0.0.1:2379' },
    });
    world.datastore.usage = { keys: 2, bytes: 2 };
    world.create('a', { quota: { 'datastore.keys': '1' } });
    await world.untilReady('a');
    expect(condition(await until('OverQuota'), 'DatastoreWithinQuota')?.message).toMatch(
      /authorization-config/,
    );
  });
});

describe('the next measurement of a tenant', () => {
  const MiB = 1024 ** 2;
  const measured = '2026-03-01T00:00:00Z';
  const lastMs = Date.parse(measured);
  const known = (bytes: number) => ({ keys: 1_000, bytes, measured });

  it('when others have the datastore grow is so much later as it takes long', () => {
    const growthMs = lastMs + 1;
    expect(dueMs(known(4_000 * MiB), 1_000, growthMs)).toBe(lastMs + 1_000_000);
    expect(dueMs(known(4 * MiB), 1_000, growthMs)).toBe(lastMs + 1_000);
  });

  it('comes at once when it has many more keys itself', () => {
    expect(dueMs(known(4_000 * MiB), 1_200, 0)).toBe(0);
  });

  it('comes after a while where nothing grows', () => {
    expect(dueMs(known(1), 1_000, 0)).toBe(lastMs + 600_000);
  });
});
