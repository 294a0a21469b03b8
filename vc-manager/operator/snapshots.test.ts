import { randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { cp, mkdir, mkdtemp, readdir, rm, truncate } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { generateX25519Identity, identityToRecipient } from 'age-encryption';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import { activityLeaseName } from '../../api/names.ts';
import { isServed } from '../../api/tenant-state.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { type KubeObject, resources } from '../../kube/index.ts';
import { EtcdError } from '../etcd/errors.ts';
import type { Entry } from '../etcd/keyspace.ts';
import { readArchive } from '../snapshot/archive.ts';
import { storeFailed } from '../snapshot/errors.ts';
import { DirectoryStore } from '../snapshot/store.ts';
import { isRestoreWanted, isSnapshotWanted, SnapshotTurns, snapshotDueMs } from './snapshots.ts';
import { LocatingDriver } from './testing/locating-driver.ts';
import { condition, FakeDatastore, fastPace, jobRequests, World } from './testing/world.ts';

const entry = (key: string, value: string): Entry => ({ key, value: Buffer.from(value) });

describe('snapshots', () => {
  let world: World;
  let root: string;
  let snapshots: { store: DirectoryStore; recipients: string[]; identities: string[] };
  beforeEach(async () => {
    world = await World.start();
    root = await mkdtemp(join(tmpdir(), 'skerry-snapshots-'));
    snapshots = { store: new DirectoryStore(root), recipients: [], identities: [] };
  });
  afterEach(async () => {
    await world.end();
    await rm(root, { recursive: true });
  });

  const { annotate, cancel } = jobRequests(() => world);
  const id = (name = 'a'): string => world.get(name)?.status?.id ?? '';
  const keys = (name = 'a'): string[] => (world.datastore.entries.get(id(name)) ?? []).map(({ key }) => key);
  const files = (name = 'a'): Promise<string[]> => readdir(join(root, 'team', name));
  const make = async (name = 'a'): Promise<void> => {
    world.create(name);
    await world.untilReady(name);
    world.datastore.entries.set(id(name), [
      entry('configmaps/shop/settings', 'blue'),
      entry('leases/kube-system/holder', 'me'),
      entry('events/shop/said', 'something'),
    ]);
  };
  const take = async (request: string, name = 'a'): Promise<string> => {
    annotate(name, annotationKeys.snapshot, request);
    const { status } = await world.until(name, (vc) => vc.status?.snapshots?.taken === request);
    return status?.snapshots?.kept?.[0]?.name ?? '';
  };
  const restore = (from: string, request: string, name = 'a'): void => {
    annotate(name, annotationKeys.restoreFrom, from);
    annotate(name, annotationKeys.restore, request);
  };
  const untilRestored = (request: string, name = 'a'): Promise<VirtualCluster> =>
    world.until(
      name,
      ({ status }) =>
        status?.restored?.request === request &&
        status.restore === undefined &&
        status.jobs?.current === undefined,
    );

  it('are kept on request, as many as asked for, without who is alive and what has happened', async () => {
    world.run({ snapshots });
    await make();
    world.edit('a', { snapshots: { keep: 2 } });
    const first = await take('1');
    const second = await take('2');
    const third = await take('3');
    expect(new Set([first, second, third]).size).toBe(3);
    expect((await files()).sort()).toEqual([second, third].map((each) => each.split('/')[2]).sort());
    const { status } = await world.until('a', (vc) => vc.status?.jobs?.current === undefined);
    expect(status?.snapshots?.kept?.map(({ name, entries }) => [name, entries])).toEqual([
      [third, 1],
      [second, 1],
    ]);
    expect(status?.jobs?.history?.[0]).toMatchObject({ kind: 'snapshot', result: 'Succeeded' });
    expect(condition(await world.untilReady('a'), 'SnapshotTaken')).toMatchObject({ status: 'True' });
  });

  it('that somebody is being put back to or filled from are kept until that is over, however few are to be kept', async () => {
    world.run({ snapshots });
    await make();
    world.edit('a', { snapshots: { keep: 1 } });
    const first = await take('1');
    world.datastore.entries.set(id(), [entry('configmaps/shop/other', 'green')]);
    restore(first, 'one');
    const { status } = await untilRestored('one');
    const wayBack = status?.snapshots?.kept?.find(({ reason }) => reason === 'BeforeRestore')?.name ?? '';
    restore(wayBack, 'two');
    await untilRestored('two');
    expect(keys()).toEqual(['configmaps/shop/other']);

    const source = first.split('/')[2];
    const gate = Promise.withResolvers<void>();
    world.driver.beforeEnsure = (plan) => (plan.id === id() ? undefined : gate.promise);
    world.create('b', { restoreFrom: first });
    await world.until('b', (vc) => vc.status?.restore?.from === first);
    await take('2');
    expect(await files()).toContain(source);
    gate.resolve();
    await world.untilReady('b');
    await take('3');
    expect(await files()).not.toContain(source);
  });

  it('are listed before older ones go: a manager that is killed then leaves one that is whole', async () => {
    const first = world.run({ snapshots });
    await make();
    world.edit('a', { snapshots: { keep: 1 } });
    await take('1');
    const removal = Promise.withResolvers<void>();
    const { store } = snapshots;
    store.remove = async (name, options) => {
      await DirectoryStore.prototype.remove.call(store, name, options);
      removal.resolve();
      await new Promise((_, reject) =>
        options.signal.addEventListener('abort', () => reject(options.signal.reason), { once: true }),
      );
    };
    annotate('a', annotationKeys.snapshot, '2');
    await removal.promise;
    await first.stop();
    store.remove = DirectoryStore.prototype.remove.bind(store);
    store.write = async () => {
      throw storeFailed(root, new Error('it is unplugged'));
    };
    world.run({ snapshots });
    await world.untilReason('a', 'SnapshotTaken', 'SnapshotStoreFailed');
    const there = await files();
    expect(there).toHaveLength(1);
    const listed = world.get('a')?.status?.snapshots?.kept?.map(({ name }) => name);
    expect(listed).toContain(`team/a/${there[0]}`);
  });

  it('that were not recorded are not removed before somebody is put back to them, but later', async () => {
    world.run({ snapshots });
    await make();
    const from = await take('1');
    world.datastore.entries.set(id(), [entry('configmaps/shop/other', 'green')]);
    // As a manager leaves it that is killed when the file is written.
    const vc = await world.until('a', ({ status }) => status?.jobs?.current === undefined);
    const status = { ...vc.status, snapshots: { taken: '1', begun: from } };
    world.superCluster.put(resources.virtualClusters, { ...vc, status });
    restore(from, 'one');
    await untilRestored('one');
    expect(keys()).toEqual(['configmaps/shop/settings']);
    expect(await files()).toContain(from.split('/')[2]);
    await take('2');
    expect(await files()).not.toContain(from.split('/')[2]);
    expect(world.get('a')?.status?.snapshots?.left).toBeUndefined();
  });

  it('that are cancelled when the file is there leave nothing behind', async () => {
    const write = snapshots.store.write.bind(snapshots.store);
    const written = Promise.withResolvers<void>();
    snapshots.store.write = async (...args) => {
      await write(...args);
      written.resolve();
      const { signal } = args[2];
      return new Promise((_, reject) =>
        signal.addEventListener('abort', () => reject(signal.reason), { once: true }),
      );
    };
    world.run({ snapshots });
    await make();
    annotate('a', annotationKeys.snapshot, '1');
    await written.promise;
    expect(await files()).toHaveLength(1);
    cancel('a');
    const { status } = await world.until('a', (vc) => vc.status?.snapshots?.left !== undefined);
    expect(status?.jobs?.history?.[0]).toMatchObject({ kind: 'snapshot', result: 'Cancelled' });
    expect(await files()).toEqual([]);
    snapshots.store.write = write;
    await take('2');
    expect(world.get('a')?.status?.snapshots?.left).toBeUndefined();
  });

  it('are not kept for a VirtualCluster of another namespace, which cannot be made of them', async () => {
    world.run({ snapshots });
    await make();
    world.edit('a', { snapshots: { keep: 1 } });
    const from = await take('1');
    const ref = { namespace: 'other', name: 'x' };
    world.superCluster.put(resources.virtualClusters, {
      metadata: { ...ref, generation: 1 },
      spec: { clusterDomain: 'cluster.local', weight: 1, restoreFrom: from },
    });
    await world.superCluster.until(
      () => world.superCluster.get(resources.virtualClusters, ref)?.['status'] !== undefined,
    );
    await take('2');
    expect(await files()).not.toContain(from.split('/')[2]);
  });

  it('of another tenant, whose status this is a copy of, are forgotten and not removed', async () => {
    world.run({ snapshots });
    await make();
    const other = await take('1');
    await make('b');
    const vc = world.get('b') as VirtualCluster;
    world.superCluster.put(resources.virtualClusters, {
      ...vc,
      spec: { ...vc.spec, snapshots: { keep: 1 } },
      status: { ...vc.status, snapshots: { ...world.get('a')?.status?.snapshots } },
    });
    const own = await take('2', 'b');
    expect(await files()).toEqual([other.split('/')[2]]);
    expect(world.get('b')?.status?.snapshots?.kept?.map(({ name }) => name)).toEqual([own]);
  });

  it('that were written although the store has failed at the end are taken back', async () => {
    const write = snapshots.store.write.bind(snapshots.store);
    snapshots.store.write = async (...args) => {
      await write(...args);
      throw storeFailed(root, new Error('the answer is lost'));
    };
    world.run({ snapshots });
    await make();
    annotate('a', annotationKeys.snapshot, '1');
    const failed = await world.untilReason('a', 'SnapshotTaken', 'SnapshotStoreFailed');
    expect(condition(failed, 'SnapshotTaken')?.message).toMatch(/the answer is lost/);
    expect(await files()).toEqual([]);
  });

  it('on schedule are tried for one tenant at a time while the store is away, and all of them say so', async () => {
    const write = snapshots.store.write.bind(snapshots.store);
    let tried = 0;
    snapshots.store.write = async () => {
      tried++;
      throw storeFailed(root, new Error('it is unplugged'));
    };
    world.run({ snapshots });
    const every = { snapshots: { every: '6h', keep: 2 } };
    for (const name of ['a', 'b', 'c']) await make(name);
    for (const name of ['a', 'b', 'c']) {
      world.edit(name, every);
      await world.untilReason(name, 'SnapshotTaken', 'SnapshotStoreFailed');
      await world.until(name, ({ status: { jobs } = {} }) =>
        [jobs?.current, jobs?.history?.[0]].some((job) => job?.message?.includes('unplugged')),
      );
      await world.untilReady(name);
    }
    expect(tried).toBe(1);
    // One that is asked for is always tried; when it succeeds, the others need not wait any longer.
    snapshots.store.write = write;
    await take('now', 'b');
    world.edit('c', { weight: 2 });
    const { status } = await world.until('c', (vc) => vc.status?.snapshots?.kept !== undefined);
    expect(status?.snapshots?.kept?.map(({ reason }) => reason)).toEqual(['Scheduled']);
  });

  it('that wait for a store that is away start no etcd of a tenant that is asleep', async () => {
    snapshots.store.write = async () => {
      throw storeFailed(root, new Error('it is unplugged'));
    };
    world.run({ snapshots });
    world.create('a', { template: 'v1-36-own-etcd' });
    await world.untilReady('a');
    annotate('a', annotationKeys.sleep, 'one');
    await world.until('a', (vc) => vc.status?.sleep?.stopped === true);
    await make('b');
    world.edit('b', { snapshots: { every: '6h', keep: 2 } });
    await world.untilReason('b', 'SnapshotTaken', 'SnapshotStoreFailed');
    const started: string[] = [];
    world.driver.beforeEnsure = (plan) => void started.push(plan.id);
    world.edit('a', { snapshots: { every: '6h', keep: 2 } });
    await world.untilReason('a', 'SnapshotTaken', 'SnapshotStoreFailed');
    expect(started).not.toContain(id());
    expect(world.get('a')?.status?.sleep?.stopped).toBe(true);
  });

  it('are taken of a tenant that is asleep, which sleeps on', async () => {
    world.run({ snapshots });
    await make();
    annotate('a', annotationKeys.sleep, 'one');
    await world.until('a', (vc) => vc.status?.sleep?.stopped === true);
    const started = world.driver.ensured.length;
    await take('1');
    expect(await files()).toHaveLength(1);
    expect(world.get('a')?.status?.phase).toBe('Asleep');
    expect(world.driver.ensured).toHaveLength(started);
  });

  it.each([
    [
      'connects',
      () =>
        void world.superCluster.put(resources.leases, {
          metadata: {
            ...{ namespace: 'skerry-system', name: activityLeaseName(id()) },
            labels: { [labelKeys.activity]: id() },
            annotations: { [annotationKeys.wakeRequested]: new Date().toISOString() },
          },
        }),
    ],
    ['asks for it', () => annotate('a', annotationKeys.wake, 'one')],
  ])(
    'of a tenant that is asleep give way when somebody %s, and are taken when it is awake',
    async (_, wake) => {
      const { store } = snapshots;
      const write = store.write.bind(store);
      const begun = Promise.withResolvers<void>();
      let writes = 0;
      store.write = async (_name, content, { signal }) => {
        writes++;
        content.destroy();
        begun.resolve();
        return new Promise((_, reject) =>
          signal.addEventListener('abort', () => reject(signal.reason), { once: true }),
        );
      };
      // A store that is away answers to nothing.
      store.remove = () => new Promise(() => {});
      world.run({ snapshots });
      await make();
      annotate('a', annotationKeys.sleep, 'one');
      await world.until('a', (vc) => vc.status?.sleep?.stopped === true);
      annotate('a', annotationKeys.snapshot, '1');
      await begun.promise;
      let before = 0;
      world.driver.beforeEnsure = () => {
        before ||= writes;
        store.write = write;
        store.remove = DirectoryStore.prototype.remove.bind(store);
      };
      wake();
      await world.until('a', ({ status }) => status?.phase === 'Ready');
      expect(before).toBe(1);
      const { status } = await world.until('a', (vc) => vc.status?.snapshots?.taken === '1');
      expect(status?.jobs?.history?.find(({ kind }) => kind === 'wake')).toMatchObject({
        result: 'Succeeded',
      });
    },
  );

  it('that fail are failed jobs and a condition; the control plane stays ready', async () => {
    world.run({});
    await make();
    await take('1');
    const { status } = await world.until('a', (vc) => vc.status?.jobs?.current?.failing === true);
    expect(status?.jobs?.current?.message).toMatch(/--snapshot-store/);
    expect(condition(await world.untilReady('a'), 'SnapshotTaken')).toMatchObject({
      status: 'False',
      reason: 'NoSnapshotStore',
    });
  });

  describe('with maxSnapshotStorage', () => {
    const allow = (maxSnapshotStorage: number | string): void => {
      world.superCluster.put(resources.virtualClusterPolicies, {
        metadata: { name: 'gold' },
        spec: { namespaces: ['team'], maxSnapshotStorage: String(maxSnapshotStorage) },
      });
    };
    /** That cannot be compressed. */
    const fill = (bytes: number): void => {
      world.datastore.entries.set(id(), [{ key: 'configmaps/shop/large', value: randomBytes(bytes) }]);
    };
    const storageOf = (name = 'a') => world.get(name)?.status?.snapshots?.storage;
    const neverAborted = { signal: new AbortController().signal };
    const sizes = async (): Promise<number[]> => [
      ...(await snapshots.store.sizes('team', neverAborted)).values(),
    ];

    it('are refused beyond it before anything is written, those of deleted tenants included, until it is raised', async () => {
      world.run({ snapshots });
      await make();
      fill(20_000);
      await take('1');
      await world.delete('a');
      await world.untilGone('a');
      const [before = 0] = await sizes();
      allow(before);
      await make('b');
      const write = snapshots.store.write.bind(snapshots.store);
      let written = 0;
      snapshots.store.write = async (...args) => {
        written += 1;
        return write(...args);
      };
      annotate('b', annotationKeys.snapshot, '2');
      const refused = await world.untilReason('b', 'SnapshotTaken', 'SnapshotStorageExceeded');
      expect(condition(refused, 'SnapshotTaken')?.message).toMatch(
        /namespace team may take .*maxSnapshotStorage/,
      );
      const { status } = await world.until(
        'b',
        ({ status }) => status?.jobs?.history?.[0]?.kind === 'snapshot',
      );
      expect(status?.jobs?.history?.[0]).toMatchObject({ result: 'Failed' });
      expect(storageOf('b')).toEqual({ usedBytes: before, maxBytes: before });
      expect(written).toBe(0);
      expect(await sizes()).toEqual([before]);
      await world.untilReady('b');

      allow(2 * before);
      await take('3', 'b');
      expect(storageOf('b')).toMatchObject({ maxBytes: 2 * before });
      expect(storageOf('b')?.usedBytes).toBe((await sizes()).reduce((sum, each) => sum + each, 0));
      allow('*');
      await take('4', 'b');
      expect(storageOf('b')).toBeUndefined();
    });

    it('leave nothing of one that grows beyond it while it is written, and remove nothing for it', async () => {
      world.run({ snapshots });
      await make();
      fill(20_000);
      await take('1');
      const before = await sizes();
      allow((before[0] ?? 0) + 10_000);
      fill(200_000);
      annotate('a', annotationKeys.snapshot, '2');
      await world.untilReason('a', 'SnapshotTaken', 'SnapshotStorageExceeded');
      expect(await sizes()).toEqual(before);
    });

    it('refuse a restore that could not keep what is there, before it touches anything', async () => {
      world.run({ snapshots });
      await make();
      const from = await take('1');
      allow((await sizes())[0] ?? 0);
      fill(20_000);
      restore(from, 'one');
      expect((await untilRestored('one')).status?.restored?.refused).toContain('maxSnapshotStorage');
      expect(keys()).toEqual(['configmaps/shop/large']);
    });

    /** So many that were taken on schedule, the latest first, of so many bytes each. */
    const scheduled = async (count: number, bytes: number, isUnfinished = false): Promise<string[]> => {
      const kept = Array.from({ length: count }, (_, at) => ({
        ...{ name: `team/a/2026-03-0${count - at}T06-00-00Z-1a2b.snapshot`, entries: 1, bytes },
        ...{ at: `2026-03-0${count - at}T06:00:00Z`, reason: 'Scheduled' as const, kubernetes: '1.36.3' },
      }));
      for (const { name } of kept)
        await snapshots.store.write(name, Readable.from([Buffer.alloc(bytes)]), neverAborted);
      const vc = await world.until('a', ({ status }) => status?.jobs?.current === undefined);
      world.superCluster.put(resources.virtualClusters, {
        ...vc,
        status: {
          ...vc.status,
          snapshots: { kept, ...(isUnfinished && { begun: kept[0]?.name ?? '' }) },
        },
      });
      await world.until('a', ({ status }) => status?.snapshots?.kept?.length === count);
      return kept.map(({ name }) => name);
    };
    const listed = (): (string | undefined)[] =>
      world.get('a')?.status?.snapshots?.kept?.map(({ name }) => name) ?? [];

    it('have room where the oldest on schedule go, as few as that takes', async () => {
      world.run({ snapshots });
      await make();
      const [latest = '', second = '', third = ''] = await scheduled(4, 10_000);
      fill(11_000);
      allow(42_000);
      const first = await take('1');
      expect(listed()).toEqual([first, latest, second, third]);
      expect((await files()).length).toBe(4);
      fill(19_000);
      const large = await take('2');
      expect(listed()).toEqual([large, first, latest]);
    });

    it('that were there before stay where they take more, and go only as far as a new one adds', async () => {
      world.run({ snapshots });
      await make();
      const names = await scheduled(6, 10_000);
      allow(15_000);
      fill(11_000);
      const next = await take('1');
      expect(listed()).toEqual([next, ...names.slice(0, 4)]);
      expect((await sizes()).reduce((sum, each) => sum + each, 0)).toBeLessThanOrEqual(60_000);
      expect(world.get('a')?.status?.snapshots?.begun).toBeUndefined();
      // One that all of them would not be enough for leaves them there.
      fill(80_000);
      annotate('a', annotationKeys.snapshot, '2');
      await world.untilReason('a', 'SnapshotTaken', 'SnapshotStorageExceeded');
      expect(listed()).toEqual([next, ...names.slice(0, 4)]);
    });

    it('that a manager left over it when it was killed go before another one is taken, as many as the last one took', async () => {
      world.run({ snapshots });
      await make();
      const [latest = '', second = ''] = await scheduled(3, 10_000, true);
      allow(15_000);
      fill(1_000);
      const written: number[] = [];
      const write = snapshots.store.write.bind(snapshots.store);
      snapshots.store.write = async (...args) => {
        written.push((await sizes()).length);
        return write(...args);
      };
      const next = await take('1');
      expect(written).toEqual([2]);
      expect(listed()).toEqual([next, latest]);
      expect(await files()).not.toContain(second.split('/')[2]);
    });

    it('that a manager left over it go once, and no others with each attempt that fails', async () => {
      // Between the attempts there are pauses of many seconds.
      world.run({ snapshots, ...fastPace(20) });
      await make();
      await scheduled(5, 10_000, true);
      await snapshots.store.write(
        'team/b/other.snapshot',
        Readable.from([Buffer.alloc(30_000)]),
        neverAborted,
      );
      allow(15_000);
      fill(1_000);
      const view = world.datastore.viewTenant.bind(world.datastore);
      const left: number[] = [];
      world.datastore.viewTenant = async (which) => {
        if (left.length === 3) return view(which);
        left.push((await files()).length);
        throw new Error('the datastore does not answer');
      };
      await take('1');
      expect(left).toEqual([4, 4, 4]);
    });

    it('take no more each time in a store that removes nothing', async () => {
      world.run({ snapshots });
      await make();
      await scheduled(3, 10_000);
      allow(30_000);
      fill(5_000);
      snapshots.store.remove = async () => {
        throw storeFailed(root, new Error('nobody may remove anything'));
      };
      const first = await take('1');
      expect(world.get('a')?.status?.snapshots?.begun).toBe(first);
      const before = await sizes();
      annotate('a', annotationKeys.snapshot, '2');
      await world.untilReason('a', 'SnapshotTaken', 'SnapshotStorageExceeded');
      expect(await sizes()).toEqual(before);
    });

    it('are taken back where another manager has used up the room meanwhile', async () => {
      world.run({ snapshots });
      await make();
      fill(10_000);
      allow(15_000);
      const write = snapshots.store.write.bind(snapshots.store);
      snapshots.store.write = async (name, ...args) => {
        const bytes = await write(name, ...args);
        await write('team/b/other.snapshot', Readable.from([Buffer.alloc(10_000)]), neverAborted);
        return bytes;
      };
      annotate('a', annotationKeys.snapshot, '1');
      await world.untilReason('a', 'SnapshotTaken', 'SnapshotStorageExceeded');
      expect(await files()).toEqual([]);
    });
  });

  it('are due on schedule, and later again after one that failed', () => {
    const nowMs = Date.parse('2026-03-01T12:00:00Z');
    const kept = (at: string, reason: 'Scheduled' | 'Requested') => ({
      ...{ name: 'x', at, reason, kubernetes: '1.36.3', entries: 0, bytes: 0 },
    });
    const vc = (every: string | undefined, snapshots: object, isMade = true): VirtualCluster => ({
      metadata: { name: 'a' },
      spec: { snapshots: { ...(every && { every }) } },
      status: { snapshots, ...(isMade && { identities: { tenant: 'x' } }) },
    });
    const due = (each: VirtualCluster): number | undefined => {
      const dueMs = snapshotDueMs(each);
      expect(isSnapshotWanted(each, nowMs)).toBe(dueMs !== undefined && dueMs <= nowMs);
      return dueMs === undefined ? undefined : (dueMs - nowMs) / 60_000;
    };
    expect(due(vc(undefined, {}))).toBeUndefined();
    expect(due(vc('6h', {}, false))).toBeUndefined();
    expect(due(vc('6h', {}))).toBeLessThan(0);
    expect(due(vc('6h', { kept: [kept('2026-03-01T11:00:00Z', 'Requested')] }))).toBeLessThan(0);
    expect(due(vc('6h', { kept: [kept('2026-03-01T11:00:00Z', 'Scheduled')] }))).toBe(300);
    expect(due(vc('1d', { kept: [kept('2026-03-01T11:00:00Z', 'Scheduled')] }))).toBe(23 * 60);
    expect(due(vc('6h', { tried: '2026-03-01T11:58:00Z' }))).toBe(8);
  });

  it('are put back by a control plane that is stopped and started, after what was there is kept', async () => {
    world.run({ snapshots });
    await make();
    const from = await take('1');
    world.datastore.entries.set(id(), [entry('configmaps/shop/other', 'green')]);
    const stopped: string[][] = [];
    world.driver.beforeStop = () => void stopped.push(keys());
    const served: boolean[] = [];
    world.driver.beforeEnsure = () => {
      served.push(isServed(world.get('a') as VirtualCluster));
      expect(keys()).toEqual(['configmaps/shop/settings']);
    };
    restore(from, 'one');
    const { status } = await untilRestored('one');
    expect(stopped).toEqual([['configmaps/shop/other']]);
    expect(served[0]).toBe(false);
    expect(keys()).toEqual(['configmaps/shop/settings']);
    expect(status?.jobs?.history?.[0]).toMatchObject({ kind: 'restore', result: 'Succeeded' });
    expect(isServed(await world.untilReady('a'))).toBe(true);
    // The way back.
    const kept = status?.snapshots?.kept?.find(({ reason }) => reason === 'BeforeRestore')?.name ?? '';
    world.driver.beforeEnsure = () => {};
    restore(kept, 'two');
    await untilRestored('two');
    expect(keys()).toEqual(['configmaps/shop/other']);
  });

  it('that can be read where nothing can be written are read again after longer and longer pauses', async () => {
    let aheadMs = 0;
    // Slow, so that no pause ends by itself while the test looks.
    const pace = fastPace(0.1);
    const clock = {
      ...pace.clock,
      now: () => pace.clock.now() + aheadMs,
      monotonic: () => pace.clock.monotonic() + aheadMs,
    };
    world.run({ snapshots, ...pace, clock });
    await make();
    const from = await take('1');
    const write = snapshots.store.write.bind(snapshots.store);
    let tried = 0;
    snapshots.store.write = async () => {
      tried++;
      throw storeFailed(root, new Error('it is read-only'));
    };
    /** How long until the next attempt, as the job says. */
    const pauseAfter = async (attempts: number): Promise<number> => {
      let pauseMs = Number.NaN;
      await world.until('a', ({ status }) => {
        const { message = '' } = status?.jobs?.current ?? {};
        const at = Date.parse(/read-only.*the next one is at (\S+Z);/.exec(message)?.[1] ?? '');
        pauseMs = at - clock.now();
        return tried === attempts && pauseMs > 0;
      });
      return pauseMs;
    };
    const tenSeconds = 10_000;
    restore(from, 'one');
    expect(await pauseAfter(1)).toBeLessThanOrEqual(tenSeconds);
    // Something else to do for it is no reason to read the file.
    world.edit('a', { weight: 2 });
    await world.until('a', (vc) => vc.status?.observedGeneration === vc.metadata.generation);
    expect(tried).toBe(1);
    for (const attempts of [2, 3, 4]) {
      aheadMs += 2 ** (attempts - 2) * tenSeconds;
      world.edit('a', { weight: attempts + 1 });
      const pauseMs = await pauseAfter(attempts);
      expect(pauseMs).toBeGreaterThan(2 ** (attempts - 2) * tenSeconds);
      expect(pauseMs).toBeLessThanOrEqual(2 ** (attempts - 1) * tenSeconds);
    }
    snapshots.store.write = write;
    restore(from, 'two');
    await untilRestored('two');
  });

  it('are tried again, also before a restore, when the datastore has forgotten what was read too slowly', async () => {
    world.run({ snapshots });
    await make();
    const from = await take('1');
    const view = world.datastore.viewTenant.bind(world.datastore);
    world.datastore.viewTenant = async (which) => {
      const { entries, ...others } = await view(which);
      async function* forgotten(): AsyncGenerator<Entry> {
        for await (const each of entries) {
          yield each;
          throw new EtcdError('Compacted', 'required revision has been compacted');
        }
      }
      return { ...others, entries: forgotten() };
    };
    annotate('a', annotationKeys.snapshot, '2');
    const failed = await world.untilReason('a', 'SnapshotTaken', 'SnapshotTooSlow');
    expect(condition(failed, 'SnapshotTaken')?.message).toMatch(
      /1 of about 3 entries were read. Look whether/,
    );
    expect(failed.status?.snapshots?.taken).toBe('1');
    restore(from, 'one');
    await world.until(
      'a',
      ({ status }) => status?.jobs?.current?.message?.includes('the next one is at') === true,
    );
    world.datastore.viewTenant = view;
    annotate('a', annotationKeys.retryJob, 'x');
    expect((await untilRestored('one')).status?.restored?.refused).toBeUndefined();
  });

  it('are read from the datastore without waiting for a slow store', async () => {
    world.run({ snapshots });
    await make();
    const isRead = Promise.withResolvers<void>();
    async function* many(): AsyncGenerator<Entry> {
      for (let each = 0; each < 64; each++) yield { key: `configmaps/a/${each}`, value: randomBytes(32_768) };
      isRead.resolve();
    }
    world.datastore.viewTenant = async () => ({ revision: 1, count: 64, entries: many() });
    const write = snapshots.store.write.bind(snapshots.store);
    snapshots.store.write = async (...args) => {
      await isRead.promise;
      return write(...args);
    };
    await take('1');
    expect(world.get('a')?.status?.snapshots?.kept?.[0]?.entries).toBe(64);
  });

  it('that are due let a tenant fall asleep while the store is away', async () => {
    snapshots.store.write = async () => {
      throw storeFailed(root, new Error('it is unplugged'));
    };
    world.run({ snapshots });
    for (const name of ['b', 'a']) {
      await make(name);
      world.edit(name, { snapshots: { every: '6h', keep: 2 } });
      await world.untilReason(name, 'SnapshotTaken', 'SnapshotStoreFailed');
    }
    // The first has found out, and the other one waits.
    expect(world.get('a')?.status?.snapshots?.tried).toBeUndefined();
    annotate('a', annotationKeys.sleep, 'one');
    await world.until('a', (vc) => vc.status?.sleep?.stopped === true);
    expect(world.get('a')?.status?.sleep?.slept).toBe('one');
  });

  it('that wait for their next attempt are tried at once when the job is retried', async () => {
    world.run({ snapshots });
    await make();
    const from = await take('1');
    const write = snapshots.store.write.bind(snapshots.store);
    snapshots.store.write = async () => {
      throw storeFailed(root, new Error('it is read-only'));
    };
    restore(from, 'one');
    const { status } = await world.until('a', (vc) => vc.status?.jobs?.current?.failing === true);
    const next = /the next one is at (\S+Z);/.exec(status?.jobs?.current?.message ?? '')?.[1] ?? '';
    snapshots.store.write = write;
    annotate('a', annotationKeys.retryJob, 'x');
    const { status: { restored } = {} } = await untilRestored('one');
    expect(restored?.refused).toBeUndefined();
    expect(Date.parse(restored?.at ?? '')).toBeLessThan(Date.parse(next));
  });

  it('that are damaged, of another tenant or another namespace are refused before anything is touched', async () => {
    world.run({ snapshots });
    await make();
    const from = await take('1');
    world.driver.beforeStop = () => {
      throw new Error('nothing may be stopped');
    };
    const refused = async (name: string, request: string): Promise<string> => {
      restore(name, request);
      const { status } = await untilRestored(request);
      expect(status?.jobs?.history?.[0]).toMatchObject({ kind: 'restore', result: 'Failed' });
      return status?.restored?.refused ?? '';
    };
    expect(await refused('team/a/gone.snapshot', '1')).toMatch(/there is no snapshot team\/a\/gone/);
    expect(await refused(`team/../${from}`, '2')).toMatch(/there is no snapshot/);
    expect(await refused(from.replace('team/', 'other/'), '3')).toMatch(/there is no snapshot other/);
    const vc = world.get('a') as VirtualCluster;
    const identities = { ...vc.status?.identities, tenant: 'another' };
    world.superCluster.put(resources.virtualClusters, { ...vc, status: { ...vc.status, identities } });
    expect(await refused(from, '4')).toMatch(/of another tenant, team\/a: "vc-manager create/);
    world.superCluster.put(resources.virtualClusters, {
      ...(world.get('a') as VirtualCluster),
      status: { ...world.get('a')?.status, identities: vc.status?.identities ?? {} },
    });
    await truncate(join(root, from), 60);
    expect(await refused(from, '5')).toMatch(/damaged/);
    expect(keys()).toContain('leases/kube-system/holder');
    await world.untilReady('a');
  });

  it('are put back to the end by the next manager when one is killed in between', async () => {
    const first = world.run({ snapshots });
    await make();
    const from = await take('1');
    world.datastore.entries.set(id(), [entry('configmaps/shop/other', 'green')]);
    const replaceTenant = world.datastore.replaceTenant.bind(world.datastore);
    world.datastore.replaceTenant = async () => {
      world.datastore.entries.set(id(), []);
      throw new Error('killed');
    };
    restore(from, 'one');
    await world.until('a', (vc) => vc.status?.jobs?.current?.failing === true);
    await first.stop();
    expect(isServed(world.get('a') as VirtualCluster)).toBe(false);
    expect(world.get('a')?.status?.restore).toMatchObject({ from });
    world.datastore.replaceTenant = replaceTenant;
    // After everything is written, and before the control plane is ready.
    world.driver.beforeEnsure = () => {
      throw new Error('killed');
    };
    const second = world.run({ snapshots });
    await world.until('a', (vc) => vc.status?.restore?.replaced === true);
    expect(isServed(world.get('a') as VirtualCluster)).toBe(false);
    await second.stop();
    world.driver.beforeEnsure = () => {};
    world.datastore.replaceTenant = async () => {
      throw new Error('written twice');
    };
    world.run({ snapshots });
    await untilRestored('one');
    expect(keys()).toEqual(['configmaps/shop/settings']);
  });

  /** What is read of the store from now on. */
  const readsOf = (): Readable[] => {
    const opened: Readable[] = [];
    const { store } = snapshots;
    store.read = async (...args) => {
      const content = await DirectoryStore.prototype.read.apply(store, args);
      opened.push(content);
      return content;
    };
    return opened;
  };
  // More than is read ahead.
  const large = (): Entry => entry('configmaps/shop/large', randomBytes(1_000_000).toString('hex'));

  it('are read one at a time before they are put back, as others are taken', async () => {
    const read = snapshots.store.read.bind(snapshots.store);
    const gate = Promise.withResolvers<void>();
    world.run({ snapshots });
    for (const name of ['a', 'b']) await make(name);
    const from = await take('1');
    let reading = 0;
    snapshots.store.read = async (...args) => {
      reading += 1;
      await gate.promise;
      return read(...args);
    };
    restore(from, 'one');
    await world.until('a', () => reading > 0);
    annotate('b', annotationKeys.snapshot, '2');
    const waits = (vc: VirtualCluster): boolean =>
      vc.status?.jobs?.current?.message?.includes('waits until another snapshot') === true ||
      vc.status?.snapshots?.taken === '2';
    const { status } = await world.until('b', waits).finally(gate.resolve);
    expect(status?.snapshots?.taken).toBeUndefined();
    await untilRestored('one');
    await world.until('b', (vc) => vc.status?.snapshots?.taken === '2');
  });

  it('are not taken while one is to be kept of a tenant whose etcd is started to put another back', async () => {
    world.run({ snapshots });
    world.create('a', { template: 'v1-36-own-etcd' });
    await world.untilReady('a');
    await make('b');
    const from = await take('1');
    annotate('a', annotationKeys.sleep, 'one');
    await world.until('a', (vc) => vc.status?.sleep?.stopped === true);
    const starts = Promise.withResolvers<void>();
    const gate = Promise.withResolvers<void>();
    world.driver.beforeEnsure = (plan) => {
      if (plan.id !== id()) return undefined;
      starts.resolve();
      return gate.promise;
    };
    restore(from, 'one');
    await starts.promise;
    annotate('b', annotationKeys.snapshot, '2');
    const waits = (vc: VirtualCluster): boolean =>
      vc.status?.jobs?.current?.message?.includes('waits until another snapshot') === true ||
      vc.status?.snapshots?.taken === '2';
    const { status } = await world.until('b', waits).finally(gate.resolve);
    expect(status?.snapshots?.taken).toBeUndefined();
    await untilRestored('one');
    await world.until('b', (vc) => vc.status?.snapshots?.taken === '2');
  });

  it('are closed when nothing of them is put back', async () => {
    const opened = readsOf();
    world.run({ snapshots });
    await make();
    world.datastore.entries.set(id(), [large()]);
    const from = await take('1');
    world.datastore.replaceTenant = async () => {
      throw new Error('no');
    };
    restore(from, 'one');
    await world.until('a', (vc) => vc.status?.jobs?.current?.failing === true);
    expect(opened.length).toBeGreaterThan(1);
    expect(opened.map(({ destroyed }) => destroyed)).not.toContain(false);
  });

  it.each([
    ['filled', false],
    ['adapted', true],
  ])('are closed when a new tenant cannot be %s from them', async (_, whenAdapted) => {
    const opened = readsOf();
    world.run({ snapshots });
    await make();
    world.datastore.entries.set(id(), [large()]);
    const restoreFrom = await take('1');
    const { datastore } = world;
    let atFirst: Readable[] | undefined;
    datastore.replaceTenant = async (...args) => {
      if ((args[2].keepOthers ?? false) === whenAdapted) {
        atFirst ??= [...opened];
        throw new Error('no');
      }
      return FakeDatastore.prototype.replaceTenant.apply(datastore, args);
    };
    world.create('b', { restoreFrom });
    await world.until('b', (vc) => vc.status?.jobs?.current?.failing === true);
    expect(atFirst?.map(({ destroyed }) => destroyed)).toEqual(
      // The first reading measures what the quota is asked for.
      whenAdapted ? [true, true, true] : [true, true],
    );
  });

  it('cannot be cancelled once what was there is being replaced; another one can be asked for', async () => {
    world.run({ snapshots });
    await make();
    const from = await take('1');
    world.datastore.replaceTenant = async () => {
      throw new Error('no');
    };
    restore(from, 'one');
    await world.until('a', (vc) => vc.status?.jobs?.current?.failing === true);
    cancel('a');
    const { status } = await world.until('a', (vc) => vc.status?.jobs?.current?.refusal !== undefined);
    expect(status?.jobs?.current?.refusal).toMatch(/restore the snapshot that was taken before/);
    const before = status?.snapshots?.kept?.find(({ reason }) => reason === 'BeforeRestore')?.name ?? '';
    delete (world.datastore as { replaceTenant?: unknown }).replaceTenant;
    restore(before, 'two');
    expect((await untilRestored('two')).status?.restored).toMatchObject({ from: before });
  });

  it('are not taken while what the tenant has is being replaced', async () => {
    world.run({ snapshots });
    await make();
    const from = await take('1');
    world.datastore.replaceTenant = async () => {
      world.datastore.entries.set(id(), []);
      throw new Error('in the middle');
    };
    restore(from, 'one');
    await world.until('a', (vc) => vc.status?.jobs?.current?.failing === true);
    annotate('a', annotationKeys.snapshot, '2');
    const { attempts = 0 } = world.get('a')?.status?.jobs?.current ?? {};
    const { status } = await world.until('a', (vc) => (vc.status?.jobs?.current?.attempts ?? 0) > attempts);
    expect(status?.snapshots?.taken).toBe('1');
    delete (world.datastore as { replaceTenant?: unknown }).replaceTenant;
    await world.until('a', (vc) => vc.status?.snapshots?.taken === '2');
    expect(world.get('a')?.status?.snapshots?.kept?.map(({ reason, entries }) => [reason, entries])).toEqual([
      ['Requested', 1],
      ['BeforeRestore', 1],
      ['Requested', 1],
    ]);
  });

  it('are not put back by a request that is older than the VirtualCluster', () => {
    const vc = (request: string, restored?: string): VirtualCluster => ({
      metadata: {
        name: 'a',
        creationTimestamp: '2026-03-01T12:00:00Z',
        annotations: { [annotationKeys.restore]: request, [annotationKeys.restoreFrom]: 'team/a/x.snapshot' },
      },
      status: {
        identities: { tenant: 'x' },
        ...(restored && { restored: { request: restored, from: '', at: '' } }),
      },
    });
    expect(isRestoreWanted(vc('2026-03-01T11:00:00.000Z'))).toBe(false);
    expect(isRestoreWanted(vc('2026-03-01T11:58:00.000Z'))).toBe(true);
    expect(isRestoreWanted(vc('2026-03-01T13:00:00.000Z'))).toBe(true);
    expect(isRestoreWanted(vc('2026-03-01T13:00:00.000Z', '2026-03-01T13:00:00.000Z'))).toBe(false);
    for (const noTime of ['whenever', '4']) expect(isRestoreWanted(vc(noTime))).toBe(true);
  });

  it('fill one new tenant at a time, and others are made meanwhile', async () => {
    const read = snapshots.store.read.bind(snapshots.store);
    const gate = Promise.withResolvers<void>();
    world.run({ snapshots });
    await make();
    const restoreFrom = await take('1');
    let reading = 0;
    snapshots.store.read = async (...args) => {
      reading += 1;
      await gate.promise;
      return read(...args);
    };
    const names = ['b0', 'b1'];
    for (const name of names) world.create(name, { restoreFrom });
    await world.until('b0', () => reading > 0);
    world.create('other');
    await world.untilReady('other').finally(gate.resolve);
    expect(reading).toBe(1);
    for (const name of names) await world.untilReady(name);
  });

  it('fill a new tenant in vain as rarely as if it had not to wait for its turn, and its status says why', async () => {
    world.run({ snapshots, ...fastPace(50) });
    await make();
    const restoreFrom = await take('1');
    world.datastore.replaceTenant = async () => {
      throw new Error('no');
    };
    const { mayTake } = SnapshotTurns.prototype;
    let asked = 0;
    const turns = vi.spyOn(SnapshotTurns.prototype, 'mayTake').mockImplementation(function (
      this: SnapshotTurns,
      ...args
    ) {
      asked += 1;
      // It waits before each try but the first.
      return asked % 2 === 1 && mayTake.apply(this, args);
    });
    onTestFinished(() => turns.mockRestore());
    world.create('b', { restoreFrom });
    const failures = 5;
    const { status } = await world.until(
      'b',
      ({ status: { jobs } = {} }) =>
        asked >= 2 * failures && jobs?.current?.failing === true && jobs.current.attempts === failures,
    );
    // So many in a row are lasting ones.
    expect(status?.phase).toBe('Failed');
    for (const message of [
      condition({ status } as VirtualCluster, 'Ready')?.message,
      status?.jobs?.current?.message,
    ])
      expect(message).toBe('no');
    world.datastore.replaceTenant = FakeDatastore.prototype.replaceTenant;
    await world.untilReady('b');
  });

  it('fill a new tenant once, also when another one is taken before it is adapted', async () => {
    world.run({ snapshots });
    await make();
    const restoreFrom = await take('1');
    const { store } = snapshots;
    const [read, write] = [store.read.bind(store), store.write.bind(store)];
    let reads = 0;
    store.read = (...args) => {
      reads += 1;
      return read(...args);
    };
    const [writing, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    store.write = async (...args) => {
      writing.resolve();
      await gate.promise;
      return write(...args);
    };
    world.driver.beforeEnsure = async (plan) => {
      if (plan.id !== id('b')) return;
      annotate('a', annotationKeys.snapshot, '2');
      await writing.promise;
    };
    world.create('b', { restoreFrom });
    await world.untilReady('b').finally(gate.resolve);
    // To look whether it can be read, to fill the tenant, and to adapt it.
    expect(reads).toBe(3);
  });

  it('fill a new tenant, but for what is of the other place, from the beginning again after a manager was killed', async () => {
    const first = world.run({ snapshots });
    await make();
    world.datastore.entries.set(id(), [
      entry('configmaps/shop/settings', 'blue'),
      entry('ipaddresses/10.112.0.1', 'x'),
      entry('minions/node-1', 'x'),
      entry('namespaces/kube-system', 'x'),
      entry('namespaces/kube-system-2', 'x'),
      entry('services/specs/default/kubernetes', 'x'),
      entry('services/specs/default/kubernetes-2', 'x'),
      entry('validatingwebhookconfigurations/refuses-all', 'x'),
    ]);
    const restoreFrom = await take('1');
    const kept = [
      'configmaps/shop/settings',
      'namespaces/kube-system-2',
      'services/specs/default/kubernetes-2',
    ];
    const started: string[][] = [];
    world.driver.beforeEnsure = ({ id: which }) => {
      if (which === id()) return;
      started.push(keys('b'));
      if (started.length === 1) throw new Error('killed');
    };
    world.create('b', { restoreFrom });
    await world.until('b', (vc) => vc.status?.jobs?.current?.failing === true);
    await first.stop();
    // Of what had been started.
    world.datastore.entries.get(id('b'))?.push(entry('pods/shop/half', 'x'));
    world.run({ snapshots });
    const { status } = await world.untilReady('b');
    expect(started.slice(0, 2)).toEqual([kept, kept]);
    expect(keys('b')).toEqual([...kept, 'validatingwebhookconfigurations/refuses-all']);
    expect(status?.restored).toMatchObject({ from: restoreFrom });
    // Once only: what it has since then is its own.
    world.datastore.entries.set(id('b'), []);
    annotate('b', annotationKeys.retryJob, 'x');
    world.edit('b', { weight: 2 });
    await world.until('b', (vc) => vc.status?.observedGeneration === vc.metadata.generation);
    expect(keys('b')).toEqual([]);
  });

  it('beyond the datastore quota are not put back, and nothing is touched; they are when it is raised', async () => {
    world.run({ snapshots });
    await make();
    world.datastore.entries.get(id())?.push(entry('secrets/shop/other', 'x'));
    const from = await take('1');
    world.edit('a', { quota: { 'datastore.keys': '1' } });
    await world.until('a', (vc) => vc.status?.policy?.quota?.['datastore.keys'] === '1');
    const before = keys();
    world.driver.beforeStop = () => {
      throw new Error('nothing may be stopped');
    };
    restore(from, 'one');
    const { status } = await untilRestored('one');
    expect(status?.restored?.refused).toMatch(/quota datastore\.keys of the tenant, 1\./);
    expect(keys()).toEqual(before);

    world.driver.beforeStop = () => {};
    world.edit('a', { quota: { 'datastore.keys': '2' } });
    await world.until('a', (vc) => vc.status?.policy?.quota?.['datastore.keys'] === '2');
    restore(from, 'two');
    expect((await untilRestored('two')).status?.restored?.refused).toBeUndefined();
    expect(keys()).toEqual(['configmaps/shop/settings', 'secrets/shop/other']);
  });

  it('beyond the datastore quota fill no new tenant of the shared datastore until it is raised', async () => {
    world.run({ snapshots });
    await make();
    const large = entry('configmaps/shop/large', 'x'.repeat(2_000));
    world.datastore.entries.set(id(), [large]);
    const restoreFrom = await take('1');
    const quota = { 'datastore.bytes': '1Ki' };
    world.create('own', { restoreFrom, quota, template: 'v1-36-own-etcd' });
    world.create('b', { restoreFrom, quota });
    await world.untilReady('own');
    const vc = await world.untilReason('b', 'DatastoreReady', 'DatastoreQuotaExceeded');
    expect(condition(vc, 'DatastoreReady')?.message).toMatch(/datastore\.bytes/);
    expect(keys('b')).toEqual([]);
    world.edit('b', { quota: { 'datastore.bytes': '1Mi' } });
    await world.untilReady('b');
    expect(keys('b')).toEqual(['configmaps/shop/large']);
  });

  it('do not replace what a VirtualCluster finds again that has lost its status', async () => {
    const first = world.run({ snapshots });
    await make();
    const restoreFrom = await take('1');
    world.create('b', { restoreFrom });
    const { status } = await world.untilReady('b');
    await first.stop();
    const own = entry('configmaps/shop/since', 'then');
    world.datastore.entries.set(status?.id ?? '', [own]);
    world.datastore.usage = { keys: 1, bytes: 1 };
    const vc = world.get('b') as VirtualCluster;
    const annotations = { ...vc.metadata.annotations, [annotationKeys.id]: status?.id ?? '' };
    const { status: _, ...without } = vc;
    world.superCluster.put(resources.virtualClusters, {
      ...without,
      metadata: { ...vc.metadata, annotations },
    });
    world.run({ snapshots });
    const again = await world.untilReady('b');
    expect(again.status?.id).toBe(status?.id);
    expect(world.datastore.entries.get(status?.id ?? '')).toEqual([own]);
    expect(again.status?.restore).toBeUndefined();
  });

  it('are taken of a tenant with an etcd of its own, and put back to it while nothing of it writes', async () => {
    world.run({ snapshots });
    world.create('a', { template: 'v1-36-own-etcd' });
    const { status } = await world.untilReady('a');
    const endpoint = `https://127.0.0.1:${status?.datastorePorts?.[0]}`;
    const { entries } = world.ownDatastores;
    entries.set(endpoint, [entry('configmaps/shop/settings', 'blue'), entry('leases/x/y', 'me')]);
    const from = await take('1');
    entries.set(endpoint, [entry('configmaps/shop/other', 'green')]);
    const running: string[][] = [];
    world.ownDatastores.beforeReplace = () =>
      void running.push(world.driver.plans.get(id())?.components.map(({ name }) => name) ?? []);
    restore(from, 'one');
    await untilRestored('one');
    expect(running).toEqual([['etcd']]);
    expect(entries.get(endpoint)?.map(({ key }) => key)).toEqual(['configmaps/shop/settings']);
    expect(world.driver.plans.get(id())?.components.map(({ name }) => name)).toEqual([
      'etcd',
      'kube-apiserver',
      'kube-controller-manager',
    ]);
  });

  it('that are refused, or cannot be put back yet, let a tenant sleep on, until somebody needs it', async () => {
    world.run({ snapshots });
    await make();
    const from = await take('1');
    annotate('a', annotationKeys.sleep, 'one');
    await world.until('a', (vc) => vc.status?.sleep?.stopped === true);
    const started = world.driver.ensured.length;
    restore('team/a/gone.snapshot', 'one');
    await world.until('a', ({ status }) => status?.restored?.request === 'one' && !status.jobs?.current);
    snapshots.store.write = async () => {
      throw storeFailed(root, new Error('it is unplugged'));
    };
    restore(from, 'two');
    await world.until('a', ({ status }) => status?.jobs?.current?.failing === true);
    world.superCluster.put(resources.virtualClusterPolicies, {
      metadata: { name: 'gold' },
      spec: { namespaces: ['team'], hideNodes: true },
    });
    await world.until('a', ({ status }) => status?.policy?.hideNodes === true);
    expect(world.get('a')?.status?.phase).toBe('Asleep');
    expect(world.get('a')?.status?.sleep?.wokenBy).toBeUndefined();
    expect(world.driver.ensured).toHaveLength(started);
    annotate('a', annotationKeys.wake, 'one');
    await world.until('a', ({ status }) => status?.phase === 'Ready');
  });

  it('are put back to a tenant that is asleep with an etcd of its own, which is stopped while that waits', async () => {
    world.run({ snapshots });
    world.create('a', { template: 'v1-36-own-etcd' });
    const { status } = await world.untilReady('a');
    const endpoint = `https://127.0.0.1:${status?.datastorePorts?.[0]}`;
    const { entries } = world.ownDatastores;
    entries.set(endpoint, [entry('configmaps/shop/settings', 'blue')]);
    const from = await take('1');
    annotate('a', annotationKeys.sleep, 'one');
    await world.until('a', (vc) => vc.status?.sleep?.stopped === true);
    const before = world.driver.ensured.length;
    const write = snapshots.store.write.bind(snapshots.store);
    snapshots.store.write = async () => {
      throw storeFailed(root, new Error('it is unplugged'));
    };
    restore(from, 'one');
    await world.until('a', ({ status }) => status?.jobs?.current?.failing === true);
    const asleep = await world.until('a', (vc) => vc.status?.sleep?.stopped === true);
    expect(asleep.status?.phase).toBe('Asleep');
    expect(world.driver.ensured.slice(before).map(({ components }) => components.length)).toEqual([1]);
    expect((await world.driver.observe(id())).components.map(({ state }) => state)).toEqual(['stopped']);
    snapshots.store.write = write;
    entries.set(endpoint, [entry('configmaps/shop/other', 'green')]);
    restore(from, 'two');
    const { status: after } = await untilRestored('two');
    expect(after?.snapshots?.kept?.map(({ reason }) => reason)).toEqual(['BeforeRestore', 'Requested']);
    expect(entries.get(endpoint)?.map(({ key }) => key)).toEqual(['configmaps/shop/settings']);
    const { sleep } = (await world.untilReady('a')).status ?? {};
    expect(sleep).toMatchObject({ wokenBy: 'Restore' });
    expect(sleep?.since).toBeUndefined();
  });

  it('of a tenant with an etcd of its own that is asleep start that alone, and stop it again', async () => {
    world.run({ snapshots });
    world.create('a', { template: 'v1-36-own-etcd' });
    await world.untilReady('a');
    annotate('a', annotationKeys.sleep, 'one');
    await world.until('a', (vc) => vc.status?.sleep?.stopped === true);
    const before = world.driver.ensured.length;
    await take('1');
    await world.until('a', (vc) => vc.status?.sleep?.stopped === true);
    expect(world.driver.ensured.slice(before).map(({ components }) => components.length)).toEqual([1]);
    expect(world.get('a')?.status?.phase).toBe('Asleep');
    expect((await world.driver.observe(id())).components.map(({ state }) => state)).toEqual(['stopped']);
  });

  it('of a tenant of one driver and its own etcd fill one of another driver in the shared datastore, and back', async () => {
    const own = world.run({ snapshots });
    world.create('a', { template: 'v1-36-own-etcd' });
    const { status } = await world.untilReady('a');
    const { entries } = world.ownDatastores;
    entries.set(`https://127.0.0.1:${status?.datastorePorts?.[0]}`, [
      entry('configmaps/shop/settings', 'blue'),
      entry('minions/node-1', 'x'),
    ]);
    const fromOwn = await take('1');
    await own.stop();
    const located = new LocatingDriver();
    const settings = { advertiseAddress: '192.0.2.1', etcdEndpoint: 'https://127.0.0.1:2379' };
    const kubernetes = { ...settings, driver: 'kubernetes' } as const;
    world.run({ snapshots, driver: located, settings: kubernetes });
    world.create('b', { restoreFrom: fromOwn });
    const { status: there } = await world.untilReady('b');
    expect(there).toMatchObject({ driver: 'kubernetes', datastore: 'shared' });
    expect(keys('b')).toEqual(['configmaps/shop/settings']);

    const fromShared = await take('2', 'b');
    world.create('c', { restoreFrom: fromShared, template: 'v1-36-own-etcd' });
    await world.untilReady('c');
    expect(entries.get('https://10.96.0.8:2379')?.map(({ key }) => key)).toEqual([
      'configmaps/shop/settings',
    ]);
    // It ran before anything of it wrote.
    expect(
      located.ensured.filter((plan) => plan.id === id('c')).map(({ components }) => components.length),
    ).toEqual([1, 3]);
  });

  it('that are cut short fill no tenant, with an etcd of its own either', async () => {
    world.run({ snapshots });
    await make();
    world.datastore.entries.set(
      id(),
      Array.from({ length: 50 }, (_, each) => ({ key: `configmaps/a/${each}`, value: randomBytes(4_096) })),
    );
    const from = await take('1');
    await truncate(join(root, from), 100_000);
    let writes = 0;
    world.ownDatastores.beforeReplace = () => void writes++;
    world.create('b', { restoreFrom: from, template: 'v1-36-own-etcd' });
    const { status } = await world.until('b', (vc) => vc.status?.phase === 'Failed');
    expect(status?.conditions?.find(({ type }) => type === 'Ready')?.reason).toBe('SnapshotDamaged');
    expect(writes).toBe(0);
  });

  it('hold no certificates unless asked, and are not taken with them where they would be readable', async () => {
    world.run({ snapshots });
    await make();
    await take('1 certificates');
    const { status } = await world.until('a', (vc) => vc.status?.jobs?.current?.failing === true);
    expect(status?.jobs?.current?.message).toMatch(/encrypted snapshots only: .*--snapshot-recipient/);
    expect(await readdir(root)).toEqual([]);
    const plain = await take('2');
    expect((await headerOf(plain)).certificates).toBeUndefined();
  });

  const headerOf = async (name: string, identities: string[] = []) =>
    (await readArchive(createReadStream(join(root, name)), { name, identities })).header;
  const encryptedFor = async (): Promise<void> => {
    const identity = await generateX25519Identity();
    snapshots.recipients.push(await identityToRecipient(identity));
    snapshots.identities.push(identity);
  };
  const pkiOf = (name: string): Record<string, string> =>
    (world.secretOf(name, 'pki') as KubeObject)['data'] as Record<string, string>;
  const whatKubeconfigsTrust = (name: string): string[] => {
    const pki = pkiOf(name);
    return ['client-ca.crt', 'serving-ca.crt', 'service-account.pub'].map((entry) => pki[entry] ?? '');
  };

  it('make kubeconfigs valid at a new tenant when asked, under the same id, once that of them is gone', async () => {
    await encryptedFor();
    world.run({ snapshots });
    await make();
    const former = { id: id(), trust: whatKubeconfigsTrust('a'), pki: pkiOf('a') };
    const without = await take('1');
    const restoreFrom = await take('2 certificates');
    expect(world.get('a')?.status?.snapshots?.kept?.map(({ certificates }) => certificates)).toEqual([
      true,
      undefined,
    ]);
    expect(Object.keys((await headerOf(restoreFrom, snapshots.identities)).certificates ?? {})).toEqual([
      'client-ca.crt',
      'client-ca.key',
      'serving-ca.crt',
      'serving-ca.key',
      'service-account.key',
    ]);

    world.create('b', { restoreFrom, restoreCertificates: true });
    const early = await world.untilReason('b', 'Ready', 'CertificatesInUse');
    expect(condition(early, 'Ready')?.message).toMatch(/the tenant team\/a, .* is still here/);
    await world.delete('b');
    await world.untilGone('b');
    await world.delete('a');
    await world.untilGone('a');

    world.create('c', { restoreFrom, restoreCertificates: true });
    await world.untilReady('c');
    expect(id('c')).toBe(former.id);
    expect(whatKubeconfigsTrust('c')).toEqual(former.trust);
    // By these the syncer tells tenants apart.
    for (const entry of ['kubelet-client-ca.crt', 'front-proxy-ca.crt'])
      expect(pkiOf('c')[entry]).not.toBe(former.pki[entry]);
    expect(keys('c')).toEqual(['configmaps/shop/settings']);

    // One server stands for all tenants: of the new one the UID is another.
    const copy = world.get('c') as VirtualCluster;
    const identities = { ...copy.status?.identities, tenant: 'of-the-new-one' };
    world.superCluster.put(resources.virtualClusters, { ...copy, status: { ...copy.status, identities } });
    world.create('second', { restoreFrom, restoreCertificates: true });
    const taken = await world.untilReason('second', 'Ready', 'CertificatesInUse');
    expect(condition(taken, 'Ready')?.message).toMatch(/the tenant team\/c, .* is still here/);

    world.create('d', { restoreFrom });
    await world.untilReady('d');
    expect(whatKubeconfigsTrust('d')).not.toEqual(former.trust);
    world.create('e', { restoreFrom: without, restoreCertificates: true });
    const none = await world.untilReason('e', 'Ready', 'CertificatesAbsent');
    expect(condition(none, 'Ready')?.message).toMatch(/--with-certificates/);
  });

  it('make kubeconfigs valid at one tenant only, also where that could not have the id', async () => {
    await encryptedFor();
    world.run({ snapshots });
    await make();
    const former = { id: id(), trust: whatKubeconfigsTrust('a') };
    const first = await take('1 certificates');
    const second = await take('2 certificates');
    await world.delete('a');
    await world.untilGone('a');
    // Something of the old one was left behind.
    world.datastore.tenants.add(former.id);
    world.create('b', { restoreFrom: first, restoreCertificates: true });
    await world.untilReady('b');
    expect(id('b')).not.toBe(former.id);
    expect(whatKubeconfigsTrust('b')).toEqual(former.trust);
    const copy = world.get('b') as VirtualCluster;
    const identities = { ...copy.status?.identities, tenant: 'of-the-new-one' };
    world.superCluster.put(resources.virtualClusters, { ...copy, status: { ...copy.status, identities } });
    world.create('c', { restoreFrom: second, restoreCertificates: true });
    const refused = await world.untilReason('c', 'Ready', 'CertificatesInUse');
    expect(condition(refused, 'Ready')?.message).toMatch(/the tenant team\/b, .* is still here/);
  });

  it.each([
    ['', false],
    [', also where both were written before they could look for each other', true],
  ])(
    'make kubeconfigs valid at only one of two tenants that are made at the same time%s',
    async (_, isCut) => {
      await encryptedFor();
      world.run({ snapshots });
      await make();
      const former = { id: id(), trust: whatKubeconfigsTrust('a') };
      const restoreFrom = await take('1 certificates');
      await world.delete('a');
      await world.untilGone('a');
      // Something of the old one was left behind: nobody takes its id over.
      world.datastore.tenants.add(former.id);
      // Each reads it for the id, and then for the certificates: neither comes first.
      const rounds = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      // As of two managers, which have a turn each.
      const turns = [
        vi.spyOn(SnapshotTurns.prototype, 'mayTake').mockReturnValue(true),
        vi.spyOn(SnapshotTurns.prototype, 'take').mockImplementation((_tenant, work) => work()),
      ];
      onTestFinished(() => {
        for (const spy of turns) spy.mockRestore();
      });
      const { store } = snapshots;
      let reads = 0;
      store.read = async (...args) => {
        const round = rounds[Math.floor(reads / 2)];
        if (reads++ % 2 === 1) round?.resolve();
        await round?.promise;
        return DirectoryStore.prototype.read.apply(store, args);
      };
      const fault = { kind: 'status', code: 403, reason: 'Forbidden' } as const;
      const heal = isCut
        ? world.superCluster.inject({ verb: 'list', plural: 'virtualclusters', fault, times: 1_000 })
        : undefined;
      world.create('b', { restoreFrom, restoreCertificates: true });
      world.create('c', { restoreFrom, restoreCertificates: true });
      if (heal !== undefined) {
        await world.superCluster.until(() =>
          ['b', 'c'].every((name) => {
            const { failing, attempts = 0 } = world.get(name)?.status?.jobs?.current ?? {};
            return failing === true || attempts > 1;
          }),
        );
        heal();
      }
      const reasons = (): (string | undefined)[] =>
        ['b', 'c'].map((name) => condition(world.get(name) as VirtualCluster, 'Ready')?.reason).sort();
      await world.superCluster.until(() =>
        reasons().every((each) => each === 'Available' || each === 'CertificatesInUse'),
      );
      expect(reasons()).toEqual(['Available', 'CertificatesInUse']);
      const [made = '', refused = ''] = ['b', 'c'].sort((one) =>
        world.get(one)?.status?.phase === 'Ready' ? -1 : 1,
      );
      expect(whatKubeconfigsTrust(made)).toEqual(former.trust);
      expect(world.secretOf(refused, 'pki')).toBeUndefined();
      const age = (name: string): string => {
        const { creationTimestamp, uid } = world.get(name)?.metadata ?? {};
        return `${creationTimestamp} ${uid}`;
      };
      if (isCut) expect(age(made) < age(refused)).toBe(true);
    },
  );

  it('have their certificates read in turn with other snapshots, too', async () => {
    await encryptedFor();
    world.run({ snapshots });
    await make();
    await make('other');
    const restoreFrom = await take('1 certificates');
    await world.delete('a');
    await world.untilGone('a');
    const { store } = snapshots;
    const write = store.write.bind(store);
    const [writing, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    store.write = async (...args) => {
      writing.resolve();
      await gate.promise;
      return write(...args);
    };
    annotate('other', annotationKeys.snapshot, '1');
    await writing.promise;
    try {
      world.create('b', { restoreFrom, restoreCertificates: true });
      await world.untilReason('b', 'Ready', 'Waiting');
      expect(world.secretOf('b', 'pki')).toBeUndefined();
    } finally {
      gate.resolve();
    }
    await world.untilReady('b');
  });

  it('put back the authorities that a tenant has had, when asked', async () => {
    await encryptedFor();
    world.run({ snapshots });
    await make();
    const before = whatKubeconfigsTrust('a');
    const from = await take('1 certificates');
    annotate('a', annotationKeys.renewAuthorities, 'x overlap=0');
    await world.until('a', (vc) => vc.status?.jobs?.authorities === 'x overlap=0');
    const renewed = whatKubeconfigsTrust('a');
    expect(renewed).not.toEqual(before);
    restore(from, 'one');
    await untilRestored('one');
    expect(whatKubeconfigsTrust('a')).toEqual(renewed);
    restore(from, 'two certificates');
    await untilRestored('two certificates');
    expect(whatKubeconfigsTrust('a')).toEqual(before);
    const files = world.driver.ensured.at(-1)?.components.flatMap((each) => each.files) ?? [];
    const clientCa = files.find(({ path }) => path === 'client-ca.crt')?.content ?? '';
    expect(Buffer.from(clientCa).toString('base64')).toBe(before[0]);
  });

  it('of another namespace fill no tenant', async () => {
    world.run({ snapshots });
    await make();
    const from = await take('1');
    await mkdir(join(root, 'other'));
    await cp(join(root, 'team', 'a'), join(root, 'other', 'a'), { recursive: true });
    world.create('b', { restoreFrom: from.replace('team/', 'other/') });
    const { status } = await world.until('b', (vc) => vc.status?.phase === 'Failed');
    expect(condition({ metadata: { name: 'b' }, ...(status && { status }) }, 'Ready')).toMatchObject({
      reason: 'SnapshotNotFound',
    });
    expect(world.datastore.entries.has(id('b'))).toBe(false);
  });
});

describe('the turn to take a snapshot', () => {
  const tenant = (namespace: string, uid: string) => ({ uid, ref: { namespace, name: uid } });
  const [mine, mineToo] = [tenant('mine', '1'), tenant('mine', '2')];
  const [other, otherToo] = [tenant('other', '3'), tenant('other', '4')];
  let nowMs: number;
  let turns: SnapshotTurns;
  beforeEach(() => {
    nowMs = 0;
    turns = new SnapshotTurns({ monotonic: () => nowMs });
  });
  const nothing = async (): Promise<void> => undefined;
  /** Has a turn during which these ask for one. */
  const take = (who: typeof mine, ...asking: readonly (typeof mine)[]): Promise<void> =>
    turns.take(who, async () => {
      for (const each of asking) expect(turns.mayTake(each)).toBe(false);
      nowMs += 1_000;
    });

  it('is not had twice by tenants of one namespace while one of another waits', async () => {
    expect(turns.mayTake(mine)).toBe(true);
    await take(mine, mineToo, other);
    // The owner asks again before the other one does.
    expect([turns.mayTake(mine), turns.mayTake(mineToo)]).toEqual([false, false]);
    expect(turns.mayTake(other)).toBe(true);
    await take(other);
    expect(turns.mayTake(mine)).toBe(true);
  });

  it('is had again and again while nobody else waits', async () => {
    for (let each = 0; each < 3; each++) {
      expect(turns.mayTake(mine)).toBe(true);
      await take(mine, mineToo);
    }
  });

  it('goes round where tenants of two namespaces wait, each for the other', async () => {
    await take(mine, mineToo, other, otherToo);
    expect([turns.mayTake(mineToo), turns.mayTake(other)]).toEqual([false, true]);
    await take(other);
    expect([turns.mayTake(otherToo), turns.mayTake(mineToo)]).toEqual([false, true]);
    await take(mineToo);
    expect(turns.mayTake(otherToo)).toBe(true);
  });

  it('waits for nobody who does not ask any more', async () => {
    await take(mine, other);
    nowMs += 29_000;
    expect(turns.mayTake(mine)).toBe(false);
    nowMs += 2_000;
    expect(turns.mayTake(mine)).toBe(true);
  });

  it('is one', async () => {
    await turns.take(mine, () => expect(turns.take(other, nothing)).rejects.toThrow(RangeError));
    await turns.take(other, nothing);
  });
});
