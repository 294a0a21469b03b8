import { EventEmitter, once } from 'node:events';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Clock, resources, systemClock } from '../../kube/index.ts';
import { type FakeCluster, startFakeCluster } from '../../kube/testing/index.ts';
import { TenantLock } from './tenant-lock.ts';

const job = { key: 'team/a', uid: 'uid-a' };
const ref = { namespace: 'skerry-system', name: 'skerry-job-uid-a' };
const { signal } = new AbortController();

describe('the lock of a tenant', () => {
  let cluster: FakeCluster;
  beforeEach(async () => {
    cluster = await startFakeCluster();
  });
  afterEach(() => cluster[Symbol.asyncDispose]());

  const renewMs = 100;
  /** Far longer than a test lasts: no lease runs out, and nobody gives up waiting. */
  const longMs = 24 * 60 * 60_000;
  const lock = (identity: string, clock: Clock = systemClock): TenantLock =>
    new TenantLock({
      ...{ client: cluster.client, identity, clock, namespace: 'skerry-system' },
      ...{ leaseDurationMs: longMs, renewMs, waitMs: longMs },
    });

  it('is held by one at a time, also within one manager, and let go at once', async () => {
    let active = 0;
    let most = 0;
    /** Tells of each look at the lease of one who does not have it. */
    const looks = new EventEmitter();
    const waiting = new Set(['first of m1', 'second of m1', 'm2']);
    const hold = (name: string): Promise<void> => {
      const sleep: Clock['sleep'] = (ms, end) => {
        if (ms === renewMs) looks.emit(name);
        return systemClock.sleep(ms, end);
      };
      const each = lock(name.slice(-2), { ...systemClock, sleep });
      return each.hold(job, signal, async () => {
        waiting.delete(name);
        active += 1;
        most = Math.max(most, active);
        await Promise.all([...waiting].map((other) => once(looks, other)));
        active -= 1;
      });
    };
    await Promise.all([...waiting].map(hold));
    expect(most).toBe(1);
    expect(cluster.server.get(resources.leases, ref)?.['spec']).toMatchObject({ holderIdentity: '' });
  });

  it('is not waited for longer than is sensible', async () => {
    const gate = Promise.withResolvers<void>();
    const held = Promise.withResolvers<void>();
    const first = lock('m1').hold(job, signal, () => {
      held.resolve();
      return gate.promise;
    });
    await held.promise;
    const looked = Promise.withResolvers<void>();
    // The time to wait is over when it has looked once.
    const sleep: Clock['sleep'] = (ms, end) => {
      if (ms === longMs) return looked.promise;
      looked.resolve();
      return systemClock.sleep(ms, end);
    };
    const second = lock('m2', { ...systemClock, sleep }).hold(job, signal, async () => {});
    await expect(second).rejects.toMatchObject({ code: 'TenantBusy' });
    gate.resolve();
    await first;
  });

  it('hands on what the work has come to, good or bad', async () => {
    expect(await lock('m1').hold(job, signal, async () => 42)).toBe(42);
    const failing = lock('m1').hold(job, signal, () => Promise.reject(new Error('no luck')));
    await expect(failing).rejects.toThrow('no luck');
  });

  it('ends the work of one who has lost it, who does not begin again', async () => {
    let begun = 0;
    const held = Promise.withResolvers<() => boolean>();
    const work = lock('m1').hold(job, signal, (fence, term) => {
      begun += 1;
      held.resolve(() => fence.holdsNow());
      return new Promise((_, reject) => term.addEventListener('abort', () => reject(term.reason)));
    });
    const holds = await held.promise;
    expect(holds()).toBe(true);
    cluster.server.put(resources.leases, {
      metadata: ref,
      spec: { holderIdentity: 'another', leaseDurationSeconds: 600 },
    });
    await expect(work).rejects.toThrow('lost');
    expect(holds()).toBe(false);
    expect(begun).toBe(1);
  });

  it('is given up with the job', async () => {
    const controller = new AbortController();
    const work = lock('m1').hold(job, controller.signal, (_, term) => {
      controller.abort(new Error('enough'));
      return new Promise((_resolve, reject) => {
        if (term.aborted) reject(term.reason);
        term.addEventListener('abort', () => reject(term.reason));
      });
    });
    await expect(work).rejects.toThrow('enough');
  });

  it('leaves nothing of a tenant that is gone', async () => {
    await lock('m1').hold(job, signal, async () => {});
    expect(cluster.server.get(resources.leases, ref)).toBeDefined();
    await lock('m1').forget(job.uid);
    expect(cluster.server.get(resources.leases, ref)).toBeUndefined();
    await lock('m1').forget(job.uid);
  });
});
