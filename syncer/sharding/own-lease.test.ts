import { describe, expect, it } from 'vitest';
import { type Clock, readClock, resources, systemClock } from '../../kube/index.ts';
import { FakeClock, type FakeCluster, startFakeCluster } from '../../kube/testing/index.ts';
import { Fence, LeaseLapsed, OwnLease } from './own-lease.ts';

describe('a fence', () => {
  it('is closed until a renewal, and closes by itself, counted from when that was sent', async () => {
    const clock = new FakeClock();
    let refused = 0;
    const fence = new Fence({ windowMs: 6_000, clock, onRefused: () => (refused += 1) });
    expect(() => fence.check()).toThrow(LeaseLapsed);
    const sentAt = readClock(clock);
    await clock.advance(2_000);
    fence.open(sentAt);
    expect(() => fence.check()).not.toThrow();
    await clock.advance(3_999);
    expect(fence.isOpen).toBe(true);
    await clock.advance(1);
    expect(() => fence.check()).toThrow('nothing is written until it is');
    expect(refused).toBe(2);
  });

  it('is closed after a machine has slept, when the monotonic clock has stood still', () => {
    let slept = 0;
    const clock: Clock = { now: () => 1_000 + slept, monotonic: () => 5, sleep: () => Promise.resolve() };
    const fence = new Fence({ windowMs: 6_000, clock });
    fence.open(readClock(clock));
    expect(fence.isOpen).toBe(true);
    slept = 60_000;
    expect(fence.isOpen).toBe(false);
  });
});

describe('the Lease of a replica that stops while it takes it', () => {
  const lease = ({ server }: FakeCluster) =>
    server.get(resources.leases, { namespace: 'skerry-system', name: 'vc-syncer-first' });

  function ownLease({ client }: FakeCluster, identity = 'first_1'): OwnLease {
    const times = { durationMs: 10_000, windowMs: 6_600, clock: systemClock };
    return new OwnLease({ client, namespace: 'skerry-system', replica: 'first', identity, ...times });
  }

  it('is released when it is won after that', async () => {
    await using cluster = await startFakeCluster();
    const stop = new AbortController();
    const own = ownLease(cluster);
    const taken = own.take(stop.signal);
    await cluster.server.until(() => cluster.server.requests.some(({ verb }) => verb === 'create'));
    stop.abort(new Error('stops'));
    await taken;
    expect(lease(cluster)?.['spec']).toMatchObject({ holderIdentity: 'first_1' });
    await own.release();
    expect(lease(cluster)).toBeUndefined();
  });

  it('is released when it was written and the answer did not come', async () => {
    await using cluster = await startFakeCluster();
    cluster.server.inject({ verb: 'create', fault: { kind: 'reset-in-body' } });
    const own = ownLease(cluster);
    await expect(own.take(new AbortController().signal)).rejects.toThrow();
    expect(lease(cluster)?.['spec']).toMatchObject({ holderIdentity: 'first_1' });
    await own.release();
    expect(lease(cluster)).toBeUndefined();
  });

  it('is left to the one that has it by then', async () => {
    await using cluster = await startFakeCluster();
    const own = ownLease(cluster);
    await own.take(new AbortController().signal);
    const other = ownLease(cluster, 'first_2');
    await other.take(new AbortController().signal);
    await own.release();
    expect(lease(cluster)?.['spec']).toMatchObject({ holderIdentity: 'first_2' });
  });
});
