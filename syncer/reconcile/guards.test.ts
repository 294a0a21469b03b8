import { describe, expect, it, vi } from 'vitest';
import { resources } from '../../kube/index.ts';
import { type FakeCluster, startFakeCluster } from '../../kube/testing/index.ts';
import {
  DefinitionGuard,
  IdentityGuard,
  MassDeletionGuard,
  type Unmatched,
  VersionHistory,
} from './guards.ts';

const kubeSystem = { name: 'kube-system' };

async function server(uid: string): Promise<FakeCluster> {
  const cluster = await startFakeCluster();
  cluster.server.put(resources.namespaces, { metadata: { ...kubeSystem, uid } });
  return cluster;
}

describe('the identity guard', () => {
  it('passes the server that it was told to expect, and no other', async () => {
    await using cluster = await server('a');
    expect(await new IdentityGuard(cluster.client, 'a').verify()).toBe(true);
    expect(await new IdentityGuard(cluster.client, 'b').verify()).toBe(false);
  });

  it('expects the first that it sees where none was given', async () => {
    await using cluster = await server('a');
    const guard = new IdentityGuard(cluster.client, undefined);
    expect(guard.expectedUid).toBeUndefined();
    expect(await guard.verify()).toBe(true);
    cluster.server.remove(resources.namespaces, kubeSystem);
    cluster.server.put(resources.namespaces, { metadata: { ...kubeSystem, uid: 'b' } });
    expect(await guard.verify()).toBe(false);
    guard.accept('b');
    expect(await guard.verify()).toBe(true);
  });

  it('does not take a server without kube-system for any', async () => {
    await using cluster = await startFakeCluster();
    const guard = new IdentityGuard(cluster.client, undefined);
    expect(await guard.verify()).toBe(false);
    expect(guard.expectedUid).toBeUndefined();
  });

  it('throws when it cannot tell, to all who wait, and can tell again afterwards', async () => {
    await using cluster = await server('a');
    const guard = new IdentityGuard(cluster.client, 'a');
    cluster.server.inject({ verb: 'get', times: 2, fault: { kind: 'status', code: 500 } });
    const answers = await Promise.allSettled([guard.verify(), guard.verify(), guard.verify()]);
    expect(answers.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
    expect(await guard.verify()).toBe(true);
  });

  it('shares a check among all who came before it began, and with none that came later', async () => {
    await using cluster = await server('a');
    const guard = new IdentityGuard(cluster.client, 'a');
    const first = guard.verify();
    const others = Array.from({ length: 50 }, () => guard.verify());
    await first;
    // The check of the others may run; its answer could be older than what this one has seen.
    await Promise.all([...others, guard.verify()]);
    const { length } = cluster.server.requests;
    expect(length).toBeGreaterThanOrEqual(2);
    expect(length).toBeLessThanOrEqual(3);
  });

  it('never passes once it distrusts the server', async () => {
    await using cluster = await server('a');
    const guard = new IdentityGuard(cluster.client, 'a');
    const underWay = guard.verify();
    guard.distrust('it has shown its own past');
    expect(await underWay).toBe(false);
    expect(await guard.verify()).toBe(false);
    expect(guard.distrusted).toBe('it has shown its own past');
  });
});

const definitions = resources.customResourceDefinitions;

it('a definition is intact while it is there, is the same, and is not on its way out', async () => {
  await using cluster = await startFakeCluster();
  const { server, client } = cluster;
  const metadata = { name: 'widgets.example.com', uid: 'first' };
  const guard = new DefinitionGuard(client, 'widgets.example.com', 'first');
  expect(await guard.isIntact()).toBe(false);
  server.put(definitions, { metadata });
  expect(await guard.isIntact()).toBe(true);
  server.put(definitions, { metadata: { ...metadata, deletionTimestamp: '2026-01-01T00:00:00Z' } });
  expect(await guard.isIntact()).toBe(false);
  server.remove(definitions, { name: 'widgets.example.com' });
  server.put(definitions, { metadata: { ...metadata, uid: 'second' } });
  expect(await guard.isIntact()).toBe(false);
});

it('who cannot tell says so, instead of that it is gone', async () => {
  await using cluster = await startFakeCluster();
  cluster.server.inject({ verb: 'get', fault: { kind: 'status', code: 500, reason: 'InternalError' } });
  const guard = new DefinitionGuard(cluster.client, 'widgets.example.com', 'first');
  await expect(guard.isIntact()).rejects.toThrow();
});

function guarded(
  missing: number,
  total: number,
): { guard: MassDeletionGuard; set: (missing: number, from?: number) => void; tick: () => void } {
  let nowMs = 0;
  let state: Unmatched = { uids: [], total };
  const set = (count: number, from = 0): void => {
    state = { uids: Array.from({ length: count }, (_, index) => `uid-${from + index}`), total };
    nowMs += 1_000;
  };
  set(missing);
  return {
    guard: new MassDeletionGuard(
      { id: 'k3v9' },
      () => state,
      () => nowMs,
    ),
    set,
    tick: () => (nowMs += 1_000),
  };
}

describe('the mass-deletion guard', () => {
  it('minds neither fewer than 20 nor a fifth', () => {
    expect(guarded(19, 19).guard.allowsUnwatched()).toBe(true);
    expect(guarded(20, 100).guard.allowsUnwatched()).toBe(true);
    expect(guarded(21, 100).guard.allowsUnwatched()).toBe(false);
    expect(guarded(20, 20).guard.allowsUnwatched()).toBe(false);
  });

  it('opens when what was missing is back, and asks anew the next time', () => {
    const { guard, set } = guarded(30, 50);
    expect(guard.allowsUnwatched()).toBe(false);
    set(0);
    expect(guard.allowsUnwatched()).toBe(true);
    expect(guard.hold).toBeUndefined();
  });

  it('opens for the id that it asked about, and says so once', () => {
    const { guard, tick } = guarded(30, 50);
    guard.allowsUnwatched();
    const id = guard.hold?.id ?? '';
    expect(guard.confirm('something else')).toBe(false);
    expect(guard.confirm(id)).toBe(true);
    expect(guard.confirm(id)).toBe(false);
    tick();
    expect(guard.allowsUnwatched()).toBe(true);
  });

  it('stays open while what was agreed to goes, and shuts for more than that', () => {
    const { guard, set } = guarded(30, 50);
    guard.allowsUnwatched();
    guard.confirm(guard.hold?.id ?? '');
    set(25);
    expect(guard.allowsUnwatched()).toBe(true);
    set(31);
    expect(guard.allowsUnwatched()).toBe(false);
  });

  it('knows the same objects again after a restart, and takes no old consent for as many others', () => {
    const first = guarded(30, 30).guard;
    first.allowsUnwatched();
    const id = first.hold?.id ?? '';
    const again = guarded(30, 30).guard;
    again.confirm(id);
    expect(again.allowsUnwatched()).toBe(true);
    const others = guarded(0, 30);
    others.set(30, 1_000);
    others.guard.confirm(id);
    expect(others.guard.allowsUnwatched()).toBe(false);
  });

  it('counts what takes long to count as seldom as that is long', () => {
    let nowMs = 0;
    let counts = 0;
    let costMs = 0;
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => counts * costMs);
    try {
      const guard = new MassDeletionGuard(
        { id: 'k3v9' },
        () => {
          counts += 1;
          return { uids: [], total: 30 };
        },
        () => nowMs,
      );
      const countsIn = (ms: number): number => {
        const before = counts;
        for (const endMs = nowMs + ms; nowMs < endMs; nowMs += 100) guard.allowsUnwatched();
        return counts - before;
      };
      expect(countsIn(10_000)).toBe(20);
      costMs = 250;
      countsIn(500);
      expect(countsIn(10_000)).toBe(2);
    } finally {
      clock.mockRestore();
    }
  });

  it('does not answer from memory once something was found missing', () => {
    let uids: string[] = [];
    const guard = new MassDeletionGuard(
      { id: 'k3v9' },
      () => ({ uids, total: 30 }),
      () => 0,
    );
    expect(guard.allowsUnwatched()).toBe(true);
    uids = Array.from({ length: 30 }, (_, index) => `uid-${index}`);
    expect(guard.allowsUnwatched()).toBe(true);
    guard.invalidate();
    expect(guard.allowsUnwatched()).toBe(false);
  });
});

const { signal } = new AbortController();
const { pods, events } = resources;

describe('the history of resourceVersions', () => {
  it('does not mind a list that is merely late', async () => {
    await using cluster = await startFakeCluster();
    while (Number(cluster.server.resourceVersion) < 10) cluster.server.bump();
    const history = new VersionHistory();
    history.observe(pods, '9');
    history.observe(pods, '10');
    expect(await history.regression(cluster.client, pods, '9', signal)).toBeUndefined();
    expect(cluster.server.requests).toHaveLength(1);
    expect(await history.regression(cluster.client, pods, '10', signal)).toBeUndefined();
    expect(cluster.server.requests).toHaveLength(1);
  });

  it('notices a server that shows its past', async () => {
    await using cluster = await startFakeCluster();
    const history = new VersionHistory();
    history.observe(pods, '1000');
    expect(await history.regression(cluster.client, pods, '1', signal)).toEqual({
      resource: 'pods',
      shown: '1000',
      now: '1',
    });
    history.forget();
    expect(await history.regression(cluster.client, pods, '1', signal)).toBeUndefined();
  });

  it('does not hold against an answer what was heard while it was on its way', async () => {
    await using cluster = await startFakeCluster();
    while (Number(cluster.server.resourceVersion) < 20) cluster.server.bump();
    const history = new VersionHistory();
    history.observe(pods, '20');
    const checked = history.regression(cluster.client, pods, '19', signal);
    history.observe(pods, '21');
    expect(await checked).toBeUndefined();
  });

  it('does not compare resources with one another: events may be kept elsewhere', async () => {
    await using cluster = await startFakeCluster();
    const history = new VersionHistory();
    history.observe(events, '1000');
    expect(await history.regression(cluster.client, pods, '1', signal)).toBeUndefined();
  });
});
