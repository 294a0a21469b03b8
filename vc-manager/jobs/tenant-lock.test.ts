import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Connection, KubeClient, resources, systemClock } from '../../kube/index.ts';
import { FakeApiServer } from '../../kube/testing/index.ts';
import { TenantLock } from './tenant-lock.ts';

const job = { key: 'team/a', uid: 'uid-a' };
const ref = { namespace: 'skerry-system', name: 'skerry-job-uid-a' };
const { signal } = new AbortController();

describe('the lock of a tenant', () => {
  let server: FakeApiServer;
  let client: KubeClient;
  beforeEach(async () => {
    server = await FakeApiServer.start();
    client = new KubeClient(new Connection(server.connectionOptions));
  });
  afterEach(async () => {
    await client.connection.close();
    await server.stop();
  });

  const lock = (identity: string, waitMs = 10_000, leaseDurationMs = 2_000): TenantLock =>
    new TenantLock({
      ...{ client, identity, waitMs, clock: systemClock },
      ...{ namespace: 'skerry-system', leaseDurationMs, renewMs: 100 },
    });

  it('is held by one at a time, also within one manager, and let go at once', async () => {
    let active = 0;
    let most = 0;
    const work = async (): Promise<void> => {
      active += 1;
      most = Math.max(most, active);
      await new Promise((resolve) => setTimeout(resolve, 20));
      active -= 1;
    };
    const holders = [lock('m1'), lock('m1'), lock('m2')];
    await Promise.all(holders.map((each) => each.hold(job, signal, work)));
    expect(most).toBe(1);
    expect(server.get(resources.leases, ref)?.['spec']).toMatchObject({ holderIdentity: '' });
  });

  it('is not waited for longer than is sensible', async () => {
    const gate = Promise.withResolvers<void>();
    const held = Promise.withResolvers<void>();
    const first = lock('m1').hold(job, signal, () => {
      held.resolve();
      return gate.promise;
    });
    await held.promise;
    await expect(lock('m2', 300).hold(job, signal, async () => {})).rejects.toMatchObject({
      code: 'TenantBusy',
    });
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
    const work = lock('m1', 10_000, 60_000).hold(job, signal, (fence, term) => {
      begun += 1;
      held.resolve(() => fence.holdsNow());
      return new Promise((_, reject) => term.addEventListener('abort', () => reject(term.reason)));
    });
    const holds = await held.promise;
    expect(holds()).toBe(true);
    server.put(resources.leases, {
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
    expect(server.get(resources.leases, ref)).toBeDefined();
    await lock('m1').forget(job.uid);
    expect(server.get(resources.leases, ref)).toBeUndefined();
    await lock('m1').forget(job.uid);
  });
});
