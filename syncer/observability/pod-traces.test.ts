import { describe, expect, it } from 'vitest';
import type { PodReport } from '../../api/pod-report.ts';
import { bound, ready, running, shop, TwoStores } from './testing/two-stores.ts';

function reportOf(world: TwoStores, name: string, tenant = 'blue'): PodReport | undefined {
  return world.traces.find(tenant, 'shop', name)?.report();
}

/** All that can happen to a pod, with a wait before each step that tells it from the others. */
async function wholeWay(world: TwoStores, name: string): Promise<void> {
  world.tenantPod(name);
  world.engine('queued', name);
  await world.after(1);
  world.engine('taken', name);
  world.engine('held', name);
  await world.after(2);
  world.engine('admitted', name);
  await world.after(3);
  world.engine('taken', name);
  world.engine('createSuper', name);
  await world.after(4);
  world.engine('createSuper done', name);
  world.superPod(name);
  await world.after(5);
  world.superPod(name, bound);
  world.engine('bindTenant', name);
  await world.after(6);
  world.engine('bindTenant done', name);
  world.tenantPod(name, bound);
  await world.after(7);
  world.engine('createSuper done', name, { kind: 'tokens' });
  await world.after(8);
  world.superPod(name, running);
  await world.after(9);
  world.superPod(name, ready);
  world.engine('patchTenant', name);
  await world.after(10);
  world.engine('patchTenant done', name);
  world.tenantPod(name, ready);
}

describe('PodTraces', () => {
  it('notes every step of a pod once, in order, and who took the time', async () => {
    const world = new TwoStores();
    await wholeWay(world, 'web');
    const report = reportOf(world, 'web');
    expect(report?.steps.map(({ name, atMs }) => `${name} ${atMs}`)).toEqual([
      'seen 0',
      'queued 0',
      'taken 1',
      'held 1',
      'admitted 3',
      'createSent 6',
      'created 10',
      'scheduled 15',
      'bindingSent 15',
      'bound 21',
      'tokensWritten 28',
      'running 36',
      'ready 45',
      'statusSent 45',
      'told 55',
    ]);
    expect(report).toMatchObject({
      tenant: shop,
      namespace: 'shop',
      name: 'web',
      uid: 'uid-web',
      node: 'n1',
      createdAt: '2030-01-01T00:00:00Z',
      seenAt: '2030-01-01T00:00:00.000Z',
      state: 'ready',
      totalMs: 55,
      // The scheduler from 10 to 15; kubelet from 28, when it had the tokens, to 45.
      shares: { skerry: 33, scheduler: 5, kubelet: 17 },
    });
    expect(report?.waitsFor).toBeUndefined();
    const spans = [
      ['queue', 1],
      ['window', 2],
      ['prepare', 3],
      ['create', 4],
      ['schedule', 5],
      ['bind', 6],
      ['tokens', 7],
      ['start', 17],
      ['status', 10],
    ];
    expect(report?.spans.map(({ name, tookMs }) => [name, tookMs])).toEqual(spans);
    expect(world.spans).toEqual(spans);
    expect(world.readies).toEqual([[shop, 55]]);
  });

  it('goes by the watch where an answer is late, and by the answer where the watch is', async () => {
    const world = new TwoStores();
    world.tenantPod('web');
    world.engine('taken', 'web');
    world.engine('createSuper', 'web');
    await world.after(3);
    world.superPod('web', bound);
    await world.after(1);
    world.engine('createSuper done', 'web');
    world.engine('bindTenant', 'web');
    await world.after(2);
    world.engine('bindTenant done', 'web');
    await world.after(5);
    world.tenantPod('web', bound);
    const at = Object.fromEntries(reportOf(world, 'web')?.steps.map(({ name, atMs }) => [name, atMs]) ?? []);
    expect(at).toMatchObject({ created: 3, scheduled: 3, bound: 6 });
  });

  it('counts kubelet from the node on when the pod was ready before it had tokens or a binding', async () => {
    const world = new TwoStores();
    world.tenantPod('web');
    world.engine('createSuper', 'web');
    world.superPod('web', bound);
    world.engine('bindTenant', 'web');
    await world.after(4);
    world.superPod('web', ready);
    await world.after(6);
    world.engine('bindTenant done', 'web');
    await world.after(1);
    world.engine('createSuper done', 'web', { kind: 'tokens' });
    await world.after(2);
    world.tenantPod('web', ready);
    expect(reportOf(world, 'web')?.shares).toEqual({ skerry: 9, scheduler: 0, kubelet: 4 });
    expect(world.spans).toContainEqual(['start', 4]);
    expect(world.spans).toContainEqual(['status', 3]);
  });

  it('counts tokens that come when the pod is ready already, but nothing else that happens later', async () => {
    const world = new TwoStores();
    world.tenantPod('web');
    world.superPod('web', ready);
    world.tenantPod('web', ready);
    await world.after(3);
    world.engine('createSuper done', 'web', { kind: 'tokens' });
    world.engine('patchTenant', 'web');
    expect(world.spans).toContainEqual(['tokens', 3]);
    expect(reportOf(world, 'web')).toMatchObject({ totalMs: 0, shares: { skerry: 0 } });
    expect(reportOf(world, 'web')?.steps.at(-1)).toEqual({ name: 'tokensWritten', atMs: 3 });
    await world.after(3);
    world.engine('createSuper done', 'web', { kind: 'tokens' });
    expect(reportOf(world, 'web')?.steps.at(-1)).toEqual({ name: 'tokensWritten', atMs: 3 });
  });

  it('says what a pod waits for, and charges who keeps it waiting', async () => {
    const world = new TwoStores();
    const waits = () => reportOf(world, 'web')?.waitsFor;
    world.tenantPod('web');
    await world.after(5);
    expect(waits()).toEqual({ name: 'queue', whose: 'skerry', sinceMs: 5 });
    world.engine('taken', 'web');
    expect(waits()?.name).toBe('prepare');
    world.engine('held', 'web');
    expect(waits()?.name).toBe('window');
    world.engine('admitted', 'web');
    world.engine('createSuper', 'web');
    expect(waits()?.name).toBe('create');
    world.superPod('web');
    await world.after(7);
    expect(waits()).toEqual({ name: 'schedule', whose: 'scheduler', sinceMs: 7 });
    expect(reportOf(world, 'web')).toMatchObject({
      state: 'pending',
      totalMs: 12,
      shares: { skerry: 5, scheduler: 7, kubelet: 0 },
    });
    world.superPod('web', bound);
    world.tenantPod('web', bound);
    await world.after(3);
    expect(waits()).toEqual({ name: 'start', whose: 'kubelet', sinceMs: 3 });
    world.superPod('web', ready);
    expect(waits()?.name).toBe('status');
  });

  it('does not trace what was there before: pods of a list, and pods that come with a node', () => {
    const world = new TwoStores();
    world.store().replace([{ metadata: { namespace: 'shop', name: 'old', uid: 'u' } }]);
    world.tenantPod('bound', bound);
    expect([...world.traces.of()]).toEqual([]);
  });

  it('begins anew with a pod of the same name, and is not misled by what is left of the last one', async () => {
    const world = new TwoStores();
    world.tenantPod('web', {}, { uid: 'first' });
    world.engine('createSuper', 'web', { uid: 'first' });
    await world.after(5);
    world.tenantPod('web', {}, { uid: 'second' });
    world.engine('createSuper done', 'web', { uid: 'first' });
    world.superPod('web', ready, { uid: 'first' });
    expect(reportOf(world, 'web')).toMatchObject({ uid: 'second', steps: [{ name: 'seen', atMs: 0 }] });
    world.engine('createSuper', 'web', { uid: 'second' });
    world.superPod('web', {}, { uid: 'second' });
    expect(reportOf(world, 'web')?.steps.map(({ name }) => name)).toEqual(['seen', 'createSent', 'created']);
  });

  it('ends with a pod that is deleted, or that has ended without ever being ready', async () => {
    const world = new TwoStores();
    world.tenantPod('web');
    await world.after(5);
    world.store().apply('DELETED', { metadata: { namespace: 'shop', name: 'web', uid: 'uid-web' } });
    await world.after(5);
    world.superPod('web', ready);
    expect(reportOf(world, 'web')).toMatchObject({ state: 'deleted', totalMs: 5 });
    const ended = { ...bound, status: { phase: 'Succeeded' } };
    world.tenantPod('job');
    world.superPod('job', ended);
    world.tenantPod('job', ended);
    await world.after(5);
    expect(reportOf(world, 'job')).toMatchObject({ state: 'ready', totalMs: 0 });
  });

  it('keeps the latest within its limit, and takes the oldest of the tenant that has the most', () => {
    const world = new TwoStores({ limit: 5, tenants: ['blue', 'green'] });
    for (const name of ['g1', 'g2']) world.tenantPod(name, {}, { tenant: 'green' });
    for (const name of ['b1', 'b2', 'b3', 'b4', 'b5']) world.tenantPod(name);
    const names = [...world.traces.of()].map(({ name }) => name);
    expect(names).toEqual(['b3', 'b4', 'b5', 'g1', 'g2']);
    expect(reportOf(world, 'b3')?.steps).toEqual([{ name: 'seen', atMs: 0 }]);
  });

  it('forgets a tenant that is let go of, and hears no more of its old store', () => {
    const world = new TwoStores({ limit: 2 });
    world.tenantPod('web');
    world.traces.leave('blue');
    world.tenantPod('other');
    expect([...world.traces.of()]).toEqual([]);
    expect(world.traces.tenants).toEqual([]);
    world.traces.follow('blue', shop, world.store());
    for (const name of ['x', 'y', 'z']) world.tenantPod(name);
    expect([...world.traces.of(shop)].map(({ name }) => name)).toEqual(['y', 'z']);
  });

  it('keeps what it knows when a session is followed by another', () => {
    const world = new TwoStores();
    world.tenantPod('web');
    const next = new TwoStores().store();
    world.traces.follow('blue', shop, next);
    next.replace([{ metadata: { namespace: 'shop', name: 'web', uid: 'uid-web' } }]);
    expect(reportOf(world, 'web')?.state).toBe('pending');
  });

  it('refuses a limit that is none', () => {
    expect(() => new TwoStores({ limit: 0 })).toThrow('1 or more');
  });
});
