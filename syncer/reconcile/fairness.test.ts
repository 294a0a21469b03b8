import { describe, expect, it } from 'vitest';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import { type KubeObject, resources } from '../../kube/index.ts';
import type { TenantState } from './tenant-state.ts';
import { StepEngine } from './testing/step-engine.ts';

const workers = 8;

const settings = (name: string): KubeObject => ({
  metadata: { namespace: 'shop', name, labels: { [labelKeys.sync]: 'true' } },
  data: { a: '1' },
});

const pod = (name: string): KubeObject => ({
  metadata: { namespace: 'shop', name },
  spec: { serviceAccountName: 'default', containers: [{ name: 'main', image: 'busybox' }] },
  status: { phase: 'Pending' },
});

function manySettings(sides: StepEngine, tenant: TenantState, count: number): void {
  for (let i = 0; i < count; i += 1) sides.show(tenant, resources.configMaps, settings(`x-${i}`));
}

/** Pods that run in the super cluster, and of which the tenant has yet to read that. */
function manyRunning(sides: StepEngine, tenant: TenantState, count: number, prefix = 'web'): void {
  for (let i = 0; i < count; i += 1) {
    const name = `${prefix}-${i}`;
    const own = pod(name);
    const bound = { ...own, spec: { ...(own['spec'] as object), nodeName: 'n1' } };
    const annotations = { [annotationKeys.superUid]: `s-${tenant.info.name}-pods-shop-${name}` };
    sides.show(tenant, resources.pods, { ...bound, metadata: { ...own.metadata, annotations } });
    const shown = tenant.caches.get(resources.pods, { namespace: 'shop', name });
    sides.showSuper(tenant, 'pods', shown, {
      spec: { nodeName: 'n1' },
      status: { phase: 'Running', podIP: '10.0.0.1' },
    });
  }
}

describe('a tenant with a single thing to do', () => {
  it('is served within the turns of the workers, though another has 5,000 ConfigMaps waiting', async () => {
    await using sides = new StepEngine({ workers });
    const [greedy, quiet] = [sides.join('greedy'), sides.join('quiet')];
    manySettings(sides, greedy, 5_000);
    for (let i = 0; i < 50; i += 1) await sides.turn();
    sides.show(quiet, resources.configMaps, settings('mine'));
    expect(await sides.turnsUntil('super create configmaps mine', workers)).toBeLessThanOrEqual(workers);
  });

  it('is not, when nothing is done for fairness', async () => {
    await using sides = new StepEngine({ workers, fair: false });
    const [greedy, quiet] = [sides.join('greedy'), sides.join('quiet')];
    manySettings(sides, greedy, 500);
    for (let i = 0; i < 50; i += 1) await sides.turn();
    sides.show(quiet, resources.configMaps, settings('mine'));
    expect(await sides.turnsUntil('super create configmaps mine', 600)).toBeGreaterThan(400);
  });

  it('is served at once while the API server of another hangs', async () => {
    await using sides = new StepEngine({ workers });
    const [hung, quiet] = [sides.join('hung'), sides.join('quiet')];
    sides.behave('hung', 'hangs');
    manyRunning(sides, hung, 200);
    await sides.idle();
    expect(sides.pending.filter(({ to }) => to === 'hung')).toHaveLength(workers / 2);
    manySettings(sides, quiet, 40);
    for (let i = 0; i < 40; i += 1) expect(await sides.turn()).toBe(true);
    expect(sides.made.filter((call) => call.startsWith('super create'))).toHaveLength(40);
  });

  it('is served within the turns of the workers while another gets nothing but conflicts', async () => {
    await using sides = new StepEngine({ workers });
    const [unlucky, quiet] = [sides.join('unlucky'), sides.join('quiet')];
    sides.behave('unlucky', 'conflicts');
    manyRunning(sides, unlucky, 1_000);
    for (let i = 0; i < 200; i += 1) await sides.turn();
    sides.show(quiet, resources.configMaps, settings('mine'));
    expect(await sides.turnsUntil('super create configmaps mine', workers)).toBeLessThanOrEqual(workers);
    // What failed waits outside the queue, and a turn is not used up by trying the same again and again.
    const tries = sides.made.filter((call) => call === 'unlucky patch pods/status web-0').length;
    expect(tries).toBe(1);
  });
});

describe('what comes up from the super cluster', () => {
  it('reaches one tenant within the turns of the workers, though 1,000 pods of another have started', async () => {
    await using sides = new StepEngine({ workers });
    const [greedy, quiet] = [sides.join('greedy'), sides.join('quiet')];
    manyRunning(sides, greedy, 1_000);
    for (let i = 0; i < 50; i += 1) await sides.turn();
    manyRunning(sides, quiet, 1, 'mine');
    const turns = await sides.turnsUntil('quiet patch pods/status mine-0', workers);
    expect(turns).toBeLessThanOrEqual(workers);
  });

  it('does so while every pod of another goes up and down again and again', async () => {
    await using sides = new StepEngine({ workers });
    const [looping, quiet] = [sides.join('looping'), sides.join('quiet')];
    manyRunning(sides, looping, 300);
    for (let round = 0; round < 5; round += 1) {
      for (let i = 0; i < 300; i += 1) {
        const own = looping.caches.get(resources.pods, { namespace: 'shop', name: `web-${i}` });
        const status = { phase: 'Running', podIP: '10.0.0.1', restarts: round };
        sides.showSuper(looping, 'pods', own, { spec: { nodeName: 'n1' }, status });
      }
      for (let i = 0; i < 20; i += 1) await sides.turn();
    }
    manyRunning(sides, quiet, 1, 'mine');
    const turns = await sides.turnsUntil('quiet patch pods/status mine-0', workers);
    expect(turns).toBeLessThanOrEqual(workers);
  });
});

describe('what its policy demands of a tenant in the super cluster (sync rule `policy-over-holds`)', () => {
  const service = {
    metadata: { namespace: 'shop', name: 'open' },
    spec: { type: 'ClusterIP', ports: [{ port: 80 }], externalIPs: ['198.51.100.7'] },
  };
  const taken = 'super patch services open';

  /** A Service with an option that the policy allows at first. */
  function haveService(sides: StepEngine, tenant: TenantState): void {
    tenant.updateInfo({ ...tenant.info, policy: { ...tenant.info.policy, externalIPs: true } });
    sides.show(tenant, resources.services, service);
    sides.showSuper(tenant, 'services', tenant.caches.get(resources.services, service.metadata));
    const own = tenant.caches.get(resources.services, service.metadata);
    if (own !== undefined) tenant.caches.store(resources.services).apply('DELETED', own);
    tenant.frozen = 'TenantIdentity';
  }

  function tighten(sides: StepEngine, tenant: TenantState): void {
    tenant.updateInfo({ ...tenant.info, policy: { ...tenant.info.policy, externalIPs: false } });
    sides.engine.requeue(tenant);
  }

  it('is done within the turns of the workers, though the tenant has 2,000 ConfigMaps waiting', async () => {
    await using sides = new StepEngine({ workers });
    const greedy = sides.join('greedy');
    haveService(sides, greedy);
    manySettings(sides, greedy, 2_000);
    for (let i = 0; i < 50; i += 1) await sides.turn();
    expect(sides.made).not.toContain(taken);
    tighten(sides, greedy);
    sides.show(greedy, resources.configMaps, settings('last'));
    expect(await sides.turnsUntil(taken, 2 * workers)).toBeLessThanOrEqual(2 * workers);
    // Its own work waits its turn.
    expect(sides.made).not.toContain('super create configmaps last');
  });

  it('is done as soon as one of its calls has ended, while its server hangs', async () => {
    await using sides = new StepEngine({ workers });
    const hung = sides.join('hung');
    haveService(sides, hung);
    sides.behave('hung', 'hangs');
    manyRunning(sides, hung, 200);
    await sides.idle();
    tighten(sides, hung);
    await sides.idle();
    expect(sides.made).not.toContain(taken);
    sides.pending.find(({ to }) => to === 'hung')?.answer(new Error('timed out'));
    expect(await sides.turnsUntil(taken, 2)).toBeLessThanOrEqual(2);
  });
});

describe('weights', () => {
  it('of 1 and 3 get one and three of four turns', async () => {
    await using sides = new StepEngine({ workers });
    const [small, large] = [sides.join('small', 1), sides.join('large', 3)];
    // Every turn takes the same time, or there would be nothing to share out.
    for (const tenant of [small, large]) {
      for (let i = 0; i < 400; i += 1)
        sides.show(tenant, resources.configMaps, settings(`${tenant.info.name}-${i}`));
    }
    for (let i = 0; i < 200; i += 1) {
      await sides.clock.advance(1);
      await sides.turn();
    }
    const served = (name: string): number =>
      sides.made.filter((call) => call.startsWith(`super create configmaps ${name}`)).length;
    expect(served('large') / served('small')).toBeGreaterThan(2.5);
    expect(served('large') / served('small')).toBeLessThan(3.5);
  });
});

describe("the super cluster's scheduler", () => {
  const places = 32;

  function manyPods(sides: StepEngine, tenant: TenantState, count: number): void {
    for (let i = 0; i < count; i += 1) sides.show(tenant, resources.pods, pod(`${tenant.info.name}-${i}`));
  }

  async function settle(sides: StepEngine): Promise<void> {
    while (await sides.turn());
  }

  function created(sides: StepEngine): string[] {
    return sides.made
      .filter((call) => call.startsWith('super create pods'))
      .map((call) => call.split(' ')[3] ?? '');
  }

  function schedule(sides: StepEngine, tenant: TenantState, name: string): void {
    const own = tenant.caches.get(resources.pods, { namespace: 'shop', name });
    sides.showSuper(tenant, 'pods', own);
    sides.showSuper(tenant, 'pods', own, { spec: { nodeName: 'n1' } });
  }

  it('gets so many pods at once, and the next when it has placed one, in the order in which they came', async () => {
    await using sides = new StepEngine({ workers });
    const greedy = sides.join('greedy');
    manyPods(sides, greedy, 100);
    await settle(sides);
    expect(created(sides)).toEqual(Array.from({ length: places }, (_, i) => `greedy-${i}`));
    // Nothing is done for those that wait, and a resync does not take them for lost.
    const calls = sides.made.length;
    expect((await sides.engine.resync(greedy)).filter(({ kind }) => kind === 'pods')).toEqual([]);
    await settle(sides);
    expect(sides.made.length).toBe(calls);

    schedule(sides, greedy, 'greedy-3');
    await settle(sides);
    expect(created(sides).slice(places)).toEqual([`greedy-${places}`]);
  });

  it('gets the pod of another tenant at once, however many are parked', async () => {
    await using sides = new StepEngine({ workers });
    const [greedy, quiet] = [sides.join('greedy'), sides.join('quiet')];
    manyPods(sides, greedy, 100);
    await settle(sides);
    manyPods(sides, quiet, 1);
    await settle(sides);
    expect(created(sides)).toContain('quiet-0');
    expect(created(sides)).toHaveLength(places + 1);
  });

  it('gets two at a time of a tenant with much to do while those of another find a place at once (sync rule `backlog-gives-way`)', async () => {
    await using sides = new StepEngine({ workers });
    const [greedy, quiet] = [sides.join('greedy'), sides.join('quiet')];
    manyPods(sides, quiet, 1);
    await settle(sides);
    manyPods(sides, greedy, 100);
    await settle(sides);
    expect(created(sides)).toEqual(['quiet-0', 'greedy-0', 'greedy-1']);

    await sides.clock.advance(30);
    schedule(sides, greedy, 'greedy-0');
    await sides.clock.advance(29);
    await settle(sides);
    expect(created(sides)).toHaveLength(3);
    await sides.clock.advance(1);
    await settle(sides);
    expect(created(sides).slice(3)).toEqual(['greedy-2']);
    // A second after the last pod of the other one.
    await sides.clock.advance(1_000);
    await settle(sides);
    expect(created(sides)).toHaveLength(1 + places);
  });

  it('gets all of them when nothing is done for fairness', async () => {
    await using sides = new StepEngine({ workers, fair: false });
    manyPods(sides, sides.join('greedy'), 100);
    await settle(sides);
    expect(created(sides)).toHaveLength(100);
  });

  it('gets the others when parked pods and a whole tenant go away', async () => {
    await using sides = new StepEngine({ workers });
    const [greedy, other] = [sides.join('greedy'), sides.join('other')];
    manyPods(sides, greedy, 36);
    manyPods(sides, other, 36);
    await settle(sides);
    const next = Array.from({ length: 36 }, (_, i) => `other-${i}`).find(
      (name) => !created(sides).includes(name),
    );
    const gone = other.caches.get(resources.pods, { namespace: 'shop', name: next ?? '' }) as KubeObject;
    other.caches.store(resources.pods).apply('DELETED', gone);
    await settle(sides);
    sides.engine.leave(greedy.info.uid);
    await settle(sides);
    const ofOther = created(sides).filter((name) => name.startsWith('other'));
    expect(ofOther).not.toContain(next);
    expect(ofOther).toHaveLength(places);
    expect(sides.engine.scheduling()?.tenants).toEqual([
      { tenant: other.info.uid, parked: 3, scheduling: places, refused: 0 },
    ]);
  });

  it('is not asked by an engine that starts for more than it has already', async () => {
    await using sides = new StepEngine({ workers });
    const tenant = sides.join('blue');
    const { uid } = tenant.info;
    sides.engine.leave(uid);
    manyPods(sides, tenant, 40);
    for (let i = 0; i < places; i += 1) {
      const own = tenant.caches.get(resources.pods, { namespace: 'shop', name: `blue-${i}` });
      sides.showSuper(tenant, 'pods', own);
    }
    sides.engine.join(tenant, 1);
    await settle(sides);
    expect(created(sides)).toEqual([]);
    schedule(sides, tenant, 'blue-0');
    await settle(sides);
    expect(created(sides)).toEqual([`blue-${places}`]);
  });

  it('is not thought to have pods that came and went unseen, after the next comparison of both sides', async () => {
    await using sides = new StepEngine({ workers });
    const tenant = sides.join('blue');
    manyPods(sides, tenant, places + 1);
    await settle(sides);
    for (let i = 0; i < places; i += 1) {
      const own = tenant.caches.get(resources.pods, { namespace: 'shop', name: `blue-${i}` }) as KubeObject;
      tenant.caches.store(resources.pods).apply('DELETED', own);
    }
    await sides.clock.advance(60_000);
    await settle(sides);
    const counts = (): object | undefined => sides.engine.scheduling()?.tenants[0];
    // It has been silent about them for long, so others were let in.
    expect(counts()).toMatchObject({ parked: 0, scheduling: 1, refused: places });
    await sides.engine.resync(tenant);
    expect(counts()).toMatchObject({ parked: 0, scheduling: 1, refused: 0 });
    expect(created(sides)).toContain(`blue-${places}`);
  });
});
