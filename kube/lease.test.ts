import { describe, expect, it } from 'vitest';
import { KubeClient } from './client.ts';
import { Connection } from './connection.ts';
import { LeaseElection } from './lease.ts';
import { resources } from './resources.ts';
import { FakeClock, type FakeCluster, startFakeCluster } from './testing/index.ts';

const ref = { namespace: 'system', name: 'leader' };

interface Candidate {
  election: LeaseElection;
  clock: FakeClock;
  terms: string[];
  stop(): Promise<void>;
  ended: Promise<void>;
}

/** A candidate with a clock of its own, as on another machine. */
function compete(
  cluster: FakeCluster,
  identity: string,
  options: { client?: KubeClient; work?: (signal: AbortSignal) => Promise<void> } = {},
): Candidate {
  const clock = new FakeClock({ now: identity === 'one' ? 0 : 10 ** 12 });
  const election = new LeaseElection({
    client: options.client ?? cluster.client,
    ...ref,
    identity,
    clock,
    // Real time, which is not what these tests are about.
    callTimeoutMs: 30_000,
  });
  const terms: string[] = [];
  const controller = new AbortController();
  const ended = election.run(controller.signal, async (signal) => {
    terms.push('began');
    await (options.work?.(signal) ?? untilAborted(signal));
    terms.push('ended');
  });
  ended.catch(() => {});
  return {
    election,
    clock,
    terms,
    ended,
    stop: async () => {
      controller.abort();
      await ended;
    },
  };
}

function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve()));
}

function spec({ server }: FakeCluster): Record<string, unknown> | undefined {
  return server.get(resources.leases, ref)?.['spec'] as Record<string, unknown> | undefined;
}

/** Lets a candidate take `turns` turns of `ms`, each with its calls to the server. */
async function pass(candidate: Candidate, ms: number): Promise<void> {
  const step = 2_000;
  for (let at = 0; at < ms; at += step) {
    await candidate.clock.untilSleeping();
    await candidate.clock.advance(step);
  }
  await candidate.clock.untilSleeping();
}

describe('LeaseElection', () => {
  it('lets one lead and the other wait', async () => {
    await using cluster = await startFakeCluster();
    const one = compete(cluster, 'one');
    await one.clock.untilSleeping();
    const two = compete(cluster, 'two');
    await pass(two, 10_000);
    expect([one.terms, two.terms]).toEqual([['began'], []]);
    expect([one.election.holdsNow(), two.election.holdsNow()]).toEqual([true, false]);
    await one.stop();
    await two.stop();
  });

  it('writes times as the API server demands them', async () => {
    await using cluster = await startFakeCluster();
    const one = compete(cluster, 'one');
    await one.clock.untilSleeping();
    expect(spec(cluster)).toEqual({
      holderIdentity: 'one',
      leaseDurationSeconds: 15,
      acquireTime: '1970-01-01T00:00:00.000000Z',
      renewTime: '1970-01-01T00:00:00.000000Z',
      leaseTransitions: 0,
    });
    await pass(one, 2_000);
    expect(spec(cluster)).toMatchObject({
      acquireTime: '1970-01-01T00:00:00.000000Z',
      renewTime: '1970-01-01T00:00:02.000000Z',
    });
    await one.stop();
  });

  it('hands over at once when the leader stops', async () => {
    await using cluster = await startFakeCluster();
    const one = compete(cluster, 'one');
    await one.clock.untilSleeping();
    const two = compete(cluster, 'two');
    await two.clock.untilSleeping();
    await one.stop();
    expect(one.terms).toEqual(['began', 'ended']);
    expect(one.election.holdsNow()).toBe(false);
    await pass(two, 2_000);
    expect(two.terms).toEqual(['began']);
    expect(spec(cluster)).toMatchObject({ holderIdentity: 'two', leaseTransitions: 1 });
    await two.stop();
  });

  it('gives back what it gets after it was stopped', async () => {
    await using cluster = await startFakeCluster();
    const one = compete(cluster, 'one');
    await cluster.server.until(() => cluster.server.requests.some(({ verb }) => verb === 'create'));
    await one.stop();
    expect(one.terms).toEqual([]);
    expect(spec(cluster)).toMatchObject({ holderIdentity: '' });
  });

  it('gives back what it got by a claim whose answer did not come', async () => {
    await using cluster = await startFakeCluster();
    cluster.server.inject({ verb: 'create', fault: { kind: 'reset-in-body' } });
    const one = compete(cluster, 'one');
    await one.clock.untilSleeping();
    expect(spec(cluster)).toMatchObject({ holderIdentity: 'one' });
    await one.stop();
    expect(one.terms).toEqual([]);
    expect(spec(cluster)).toMatchObject({ holderIdentity: '' });
  });

  it('takes over from a leader that says nothing, by its own clock alone', async () => {
    await using cluster = await startFakeCluster();
    const one = compete(cluster, 'one');
    await one.clock.untilSleeping();
    const two = compete(cluster, 'two');
    await pass(two, 14_000);
    expect(two.terms).toEqual([]);
    await pass(two, 4_000);
    expect(two.terms).toEqual(['began']);
    await one.clock.advance(2_000);
    await one.clock.untilSleeping();
    await pass(one, 8_000);
    expect(one.terms).toEqual(['began', 'ended']);
    await one.stop();
    await two.stop();
  });

  it('stops leading before others may take over, when it cannot renew', async () => {
    await using cluster = await startFakeCluster();
    const one = compete(cluster, 'one');
    await one.clock.untilSleeping();
    const broken = { kind: 'status', code: 500 } as const;
    cluster.server.inject({ plural: 'leases', times: 1_000, fault: broken });
    await pass(one, 8_000);
    expect(one.election.holdsNow()).toBe(true);
    await one.clock.advance(2_000);
    expect(one.election.holdsNow()).toBe(false);
    await pass(one, 2_000);
    expect(one.terms).toEqual(['began', 'ended']);
    cluster.server.clearFaults();
    await pass(one, 2_000);
    expect(one.terms).toEqual(['began', 'ended', 'began']);
    await one.stop();
  });

  it('holds for two thirds of the duration, counted from the last renewal', async () => {
    await using cluster = await startFakeCluster();
    const one = compete(cluster, 'one');
    await pass(one, 4_000);
    cluster.server.inject({ plural: 'leases', times: 1_000, fault: { kind: 'status', code: 500 } });
    await pass(one, 8_000);
    await one.clock.advance(1_999);
    expect(one.election.holdsNow()).toBe(true);
    await one.clock.advance(1);
    expect(one.election.holdsNow()).toBe(false);
    await one.stop();
  });

  it('holds nothing after a sleep of the machine, for which the monotonic clock stands still', async () => {
    await using cluster = await startFakeCluster();
    const one = compete(cluster, 'one');
    await pass(one, 2_000);
    expect(one.election.holdsNow()).toBe(true);
    one.clock.suspend(60_000);
    expect(one.election.holdsNow()).toBe(false);
    await pass(one, 2_000);
    expect(one.election.holdsNow()).toBe(true);
    await one.stop();
  });

  it('gives the lease up when the work ends by itself, and ends as it did', async () => {
    await using cluster = await startFakeCluster();
    const done = compete(cluster, 'one', { work: async () => {} });
    await done.ended;
    expect(spec(cluster)).toMatchObject({ holderIdentity: '' });
    const failure = new Error('the work failed');
    const failing = compete(cluster, 'two', {
      work: async () => {
        throw failure;
      },
    });
    await expect(failing.ended).rejects.toBe(failure);
    expect(spec(cluster)).toMatchObject({ holderIdentity: '' });
  });

  it('waits out a server that cannot be reached, and tells of it', async () => {
    await using cluster = await startFakeCluster();
    await cluster.server.stop();
    const connection = new Connection(cluster.server.connectionOptions);
    const problems: unknown[] = [];
    const clock = new FakeClock({ autoAdvance: true });
    const election = new LeaseElection({
      client: new KubeClient(connection),
      ...ref,
      identity: 'one',
      clock,
      onProblem: (problem) => problems.push(problem),
    });
    const controller = new AbortController();
    let led = false;
    const run = election.run(controller.signal, async (signal) => {
      led = true;
      controller.abort();
      expect(signal.aborted).toBe(true);
    });
    while (problems.length < 2) await new Promise((resolve) => setImmediate(resolve));
    await cluster.server.listen();
    await run;
    expect(led).toBe(true);
    expect(problems[0]).toMatchObject({ code: 'ECONNREFUSED' });
    await connection.close();
  });

  it('refuses options that cannot work', async () => {
    await using cluster = await startFakeCluster();
    const { client } = cluster;
    expect(() => new LeaseElection({ client, ...ref, identity: '' })).toThrow('identity');
    const options = { client, ...ref, identity: 'x', leaseDurationMs: 3_000, renewMs: 2_500 };
    expect(() => new LeaseElection(options)).toThrow('renewMs');
  });

  it('says of its holder what it is told to, and leaves what others have written', async () => {
    await using cluster = await startFakeCluster();
    const metadata = { ...ref, annotations: { other: 'x', version: '1' } };
    cluster.server.put(resources.leases, { metadata, spec: {} });
    const clock = new FakeClock();
    const annotations = { version: '2' };
    const election = new LeaseElection({
      ...{ client: cluster.client, ...ref, identity: 'one', annotations, clock },
      callTimeoutMs: 30_000,
    });
    const stop = new AbortController();
    await election.run(stop.signal, async () => stop.abort());
    expect(cluster.server.get(resources.leases, ref)?.metadata.annotations).toEqual({
      other: 'x',
      version: '2',
    });
  });
});
