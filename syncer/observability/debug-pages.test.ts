import { describe, expect, it } from 'vitest';
import { Store } from '../../kube/index.ts';
import { podsPage } from './debug-pages.ts';
import { bound, ready, shop, TwoStores } from './testing/two-stores.ts';

const ask = (world: TwoStores, query: string) => podsPage(world.traces, new URLSearchParams(query));

/** Pods that take as many milliseconds as their names say, half of it the scheduler's. */
async function worldWith(...took: number[]): Promise<TwoStores> {
  const world = new TwoStores({ tenants: ['blue', 'green'] });
  for (const ms of took) {
    const name = String(ms);
    world.tenantPod(name);
    world.engine('createSuper', name);
    world.superPod(name);
    await world.after(ms / 2);
    world.superPod(name, bound);
    world.superPod(name, ready);
    await world.after(ms / 2);
    world.tenantPod(name, ready);
  }
  return world;
}

describe('/debug/pods', () => {
  it('tells the way of one pod', async () => {
    const world = await worldWith(10);
    expect(ask(world, `tenant=${shop}&namespace=shop&name=10`)).toMatchObject({
      status: 200,
      body: { name: '10', state: 'ready', totalMs: 10, shares: { skerry: 5, scheduler: 5, kubelet: 0 } },
    });
  });

  it.each([
    ['tenant=acme/red&namespace=shop&name=10', 404, 'UnknownTenant'],
    ['tenant=acme/blue&namespace=shop&name=11', 404, 'UnknownPod'],
    ['tenant=acme/green&namespace=shop&name=10', 404, 'UnknownPod'],
    ['tenant=acme/blue&namespace=bank&name=10', 404, 'UnknownPod'],
    ['name=10', 400, 'BadRequest'],
    ['slowest=all', 400, 'BadRequest'],
    ['slowest=0', 400, 'BadRequest'],
  ])('answers %s with %i %s', async (query, status, reason) => {
    expect(ask(await worldWith(10), query)).toMatchObject({ status, body: { reason } });
  });

  it('lists the slowest first, pending ones too, and says what is usual', async () => {
    const world = await worldWith(20, 40, 10, 30);
    world.tenantPod('pending');
    world.tenantPod('deleted');
    world.store().apply('DELETED', { metadata: { namespace: 'shop', name: 'deleted', uid: 'uid-deleted' } });
    await world.after(35);
    const { body } = ask(world, `tenant=${shop}&slowest=3`);
    expect(body).toMatchObject({
      tenant: shop,
      known: 5,
      ready: 4,
      total: { p50Ms: 20, p99Ms: 40 },
      pods: [{ name: '40' }, { name: 'pending', state: 'pending', totalMs: 35 }, { name: '30' }],
    });
    const { spans } = body as { spans: { name: string }[] };
    expect(spans.find(({ name }) => name === 'schedule')).toEqual({
      name: 'schedule',
      whose: 'scheduler',
      pods: 4,
      p50Ms: 10,
      p99Ms: 20,
    });
  });

  it('lists only those that came since the tenant was taken up: not those from before it slept', async () => {
    const world = await worldWith(10);
    world.tenantPod('refused');
    world.traces.leave('blue');
    const woken = new Store();
    world.traces.follow('blue', shop, woken);
    woken.replace([{ metadata: { namespace: 'shop', name: 'refused', uid: 'uid-refused' } }]);
    expect(ask(world, `tenant=${shop}`).body).toMatchObject({ known: 0, pods: [] });
    woken.apply('ADDED', { metadata: { namespace: 'shop', name: 'later', uid: 'uid-later' } });
    expect(ask(world, `tenant=${shop}`).body).toMatchObject({ known: 1, pods: [{ name: 'later' }] });
  });

  it('lists those of one namespace, or of all tenants', async () => {
    const world = await worldWith(10);
    world.tenantPod('other', {}, { tenant: 'green' });
    expect(ask(world, '').body).toMatchObject({ known: 2 });
    expect(ask(world, `tenant=${shop}&namespace=bank`).body).toMatchObject({ known: 0, ready: 0, pods: [] });
    expect(ask(world, 'tenant=acme/green').body).toMatchObject({ known: 1, ready: 0 });
  });
});
