import { describe, expect, it, vi } from 'vitest';
import { defaultEffectivePolicy } from '../../api/default-policy.ts';
import { type Clock, type KubeObject, resources } from '../../kube/index.ts';
import { fastClock } from '../../kube/testing/fast-clock.ts';
import type { FakeCluster } from '../../kube/testing/index.ts';
import { DirectoryWorld, systemNamespace } from './testing/directory-world.ts';

const uid = (world: DirectoryWorld, name: string): string => world.vc(name).metadata.uid ?? '';

/** Its annotations, which are kept whole, take about half a MiB. */
function large(name: string): KubeObject {
  return { metadata: { name, annotations: { note: 'x'.repeat(500_000) } } };
}

describe('a tenant whose objects take more memory than it may', () => {
  const many = ['a', 'b', 'c', 'd'];

  async function crowded(): Promise<{ world: DirectoryWorld; blue: FakeCluster }> {
    const world = await DirectoryWorld.start(async (before) => {
      before.settings = { ...before.settings, tenantCacheMiB: 1 };
      const blue = await before.make('blue');
      for (const name of many) blue.server.put(resources.namespaces, large(name));
      await before.make('green');
    });
    return { world, blue: world.tenantOf('blue') };
  }

  it('is let go of, and the others are served', async () => {
    await using world = (await crowded()).world;
    const { message } = await world.says('blue', 'Synced', 'False', 'CacheLimitExceeded');
    expect(message).toMatch(/more than 1 MiB .* raise cacheMiB/);
    await world.says('green', 'Synced', 'True', 'Joined');
    expect(world.told).toContain('held acme/blue');
    const eventsOn = (name: string) =>
      world.super.server
        .list(resources.events)
        .filter((event) => (event['involvedObject'] as { name?: string }).name === name)
        .map(({ reason }) => reason);
    await world.super.server.until(() => eventsOn('blue').includes('CacheLimitExceeded'));
    expect(eventsOn('green')).toEqual([]);
    expect(world.told).not.toContain('held acme/green');
    expect(world.objectsOf('blue', resources.namespaces)).toEqual([]);
    expect(world.directory.session(uid(world, 'blue'))).toBeUndefined();
  });

  it('is let go of when all of them take too much together, and it takes most of that', async () => {
    await using world = await DirectoryWorld.start(async (before) => {
      before.settings = { ...before.settings, tenantCacheMiB: 64, totalCacheMiB: 2 };
      const green = await before.make('green');
      green.server.put(resources.namespaces, large('a'));
      const blue = await before.make('blue');
      for (const name of many) blue.server.put(resources.namespaces, large(name));
    });
    const { message } = await world.says('blue', 'Synced', 'False', 'CacheLimitExceeded');
    expect(message).toMatch(/of all tenants .* more than 2 MiB/);
    await world.says('green', 'Synced', 'True', 'Joined');
    expect(world.told).not.toContain('held acme/green');
    // There is room again.
    for (const name of many.slice(1)) world.tenantOf('blue').server.remove(resources.namespaces, { name });
    await world.says('blue', 'Synced', 'True', 'Joined');
  });

  it('is served when it has become smaller', async () => {
    const { world, blue } = await crowded();
    await using _ = world;
    await world.says('blue', 'Synced', 'False', 'CacheLimitExceeded');
    for (const name of many.slice(1)) blue.server.remove(resources.namespaces, { name });
    await world.says('blue', 'Synced', 'True', 'Joined');
  });

  it('is served at once when its policy allows more', async () => {
    await using world = (await crowded()).world;
    await world.says('blue', 'Synced', 'False', 'CacheLimitExceeded');
    const policy = { ...defaultEffectivePolicy, cacheMiB: 16 };
    world.change('blue', (vc) => ({ ...vc, status: { ...vc.status, policy } }));
    await world.says('blue', 'Synced', 'True', 'Joined');
  });

  it('is let go of while it is served, and nothing of it is deleted in the super cluster', async () => {
    await using world = await DirectoryWorld.start(async (before) => {
      before.settings = { ...before.settings, tenantCacheMiB: 1 };
    });
    const blue = await world.make('blue');
    blue.server.put(resources.namespaces, large('a'));
    await world.says('blue', 'Synced', 'True', 'Joined');
    await world.super.server.until(() => world.objectsOf('blue', resources.namespaces).length === 2);
    for (const name of many.slice(1)) blue.server.put(resources.namespaces, large(name));
    await world.says('blue', 'Synced', 'False', 'CacheLimitExceeded');
    expect(world.objectsOf('blue', resources.namespaces).length).toBeGreaterThanOrEqual(2);
  });

  it('is left like any other when it is deleted meanwhile', async () => {
    await using world = (await crowded()).world;
    await world.says('blue', 'Synced', 'False', 'CacheLimitExceeded');
    world.change('blue', (vc) => ({ ...vc, status: { ...vc.status, phase: 'Deleting' } }));
    await world.says('blue', 'Synced', 'False', 'Left');
  });
});

describe('a tenant that a replica takes up', () => {
  const attempts = (world: DirectoryWorld, name: string) => world.vc(name).status?.joinAttempts;

  it('is said to join before anything is read of it, and to have done so when it has been served for a while', async () => {
    await using world = await DirectoryWorld.start();
    const blue = await world.make('blue');
    await blue.server.until(() => blue.server.requests.length > 0);
    expect(attempts(world, 'blue')).toBe(1);
    await world.super.server.until(() => attempts(world, 'blue') === undefined);
    expect(world.condition('blue', 'Synced')?.reason).toBe('Joined');
  });

  it('joins after the others when the last replica died of it, or may have', async () => {
    const makeBoth = async (before: DirectoryWorld): Promise<void> => {
      await before.make('blue', { status: { joinAttempts: 1 } });
      await before.make('green');
    };
    // Slow enough that a busy machine ends the join of `green` before its turn ends.
    await using world = await DirectoryWorld.start(makeBoth, { clock: fastClock(10) });
    await world.says('blue', 'Synced', 'False', 'JoinsLast');
    const blue = world.tenantOf('blue').server;
    await blue.until(() => blue.requests.length > 0);
    expect(world.condition('green', 'Synced')?.reason).toBe('Joined');
    expect(attempts(world, 'blue')).toBe(2);
    await world.says('blue', 'Synced', 'True', 'Joined');
    await world.super.server.until(() => attempts(world, 'blue') === undefined);
  });

  it('joins alone when several have died', async () => {
    const names = ['blue', 'red', 'green'];
    await using world = await DirectoryWorld.start(async (before) => {
      for (const name of names) await before.make(name, { status: { joinAttempts: 3 } });
    });
    const begun = (): string[] => names.filter((name) => world.tenantOf(name).server.requests.length > 0);
    for (let count = 1; count <= names.length; count += 1) {
      await Promise.race(
        names.map((name) => world.tenantOf(name).server.until(() => begun().length >= count)),
      );
      const joined = begun().filter((name) => world.condition(name, 'Synced')?.reason === 'Joined');
      expect(joined).toHaveLength(count - 1);
      for (const name of begun()) await world.says(name, 'Synced', 'True', 'Joined');
    }
  });

  it('is on probation for long when several have died, and what is left in order before that is not forgotten', async () => {
    const clock = fastClock(400);
    await using world = await DirectoryWorld.start(
      (before) => before.make('blue', { status: { joinAttempts: 3 } }).then(() => undefined),
      { clock },
    );
    await world.says('blue', 'Synced', 'True', 'Joined');
    const joinedAt = clock.monotonic();
    expect(attempts(world, 'blue')).toBe(4);
    await world.super.server.until(() => attempts(world, 'blue') === undefined);
    expect(clock.monotonic() - joinedAt).toBeGreaterThan(9 * 60_000);
  });

  it('keeps what was noted while this thread was stuck in work for it, until it has gone on quietly', async () => {
    const clock = fastClock(400);
    await using world = await DirectoryWorld.start(undefined, { clock });
    await world.make('blue');
    await world.super.server.until(
      () => world.condition('blue', 'Synced')?.reason === 'Joined' && attempts(world, 'blue') === undefined,
    );
    const note = (): void => {
      world.change('blue', (vc) => ({ ...vc, status: { ...vc.status, joinAttempts: 3 } }));
      const suspect = world.directory.suspect(uid(world, 'blue'));
      if (suspect !== undefined) world.directory.noted(suspect);
    };
    note();
    expect(world.warnings.join()).toContain('was stuck in work for this tenant');
    await world.super.server.until(() => attempts(world, 'blue') === undefined);
    note();
    world.change('blue', (vc) => ({ ...vc, status: { ...vc.status, phase: 'Asleep' } }));
    await world.says('blue', 'Synced', 'False', 'Left');
    expect(attempts(world, 'blue')).toBe(3);
  });

  it('is let go of when this thread was stuck in work for it, joins after a time, and no other is', async () => {
    const clock = fastClock(50);
    const makeBoth = async (before: DirectoryWorld): Promise<void> => {
      await before.make('blue');
      await before.make('green');
    };
    await using world = await DirectoryWorld.start(makeBoth, { clock });
    await world.super.server.until(() =>
      ['blue', 'green'].every((name) => world.condition(name, 'Synced')?.reason === 'Joined'),
    );
    const other = world.directory.session(uid(world, 'green'));
    const suspect = world.directory.suspect(uid(world, 'blue'));
    if (suspect === undefined) throw new Error('not served');
    const reason = (): string | undefined => world.condition('blue', 'Synced')?.reason;
    const pauses: number[] = [];
    for (let time = 0; time < 2; time += 1) {
      const before = world.directory.session(suspect.uid);
      const notedAt = clock.monotonic();
      world.directory.noted(suspect);
      await world.super.server.until(() => reason() === 'JoinsLast');
      expect(world.condition('blue', 'Synced')?.message).toContain('was stuck in work');
      expect(world.directory.session(suspect.uid)).toBeUndefined();
      expect(world.served).toContain(`leaving ${suspect.uid}`);
      await world.super.server.until(() => reason() === 'Joined');
      pauses.push(clock.monotonic() - notedAt);
      expect(world.directory.session(suspect.uid)).not.toBe(before);
    }
    expect(pauses[0]).toBeGreaterThanOrEqual(30_000);
    expect(pauses[1]).toBeGreaterThanOrEqual(60_000);
    expect(world.directory.session(uid(world, 'green'))).toBe(other);
    expect(world.condition('green', 'Synced')?.reason).toBe('Joined');
  });

  it('is on probation for as long once more when that is noted again', async () => {
    const clock = fastClock(400);
    await using world = await DirectoryWorld.start((before) => before.make('blue').then(() => undefined), {
      clock,
    });
    await world.says('blue', 'Synced', 'True', 'Joined');
    const note = (): void => {
      world.change('blue', (vc) => ({ ...vc, status: { ...vc.status, joinAttempts: 3 } }));
      const suspect = world.directory.suspect(uid(world, 'blue'));
      if (suspect !== undefined) world.directory.noted(suspect);
    };
    note();
    await clock.sleep(9 * 60_000);
    note();
    const notedAt = clock.monotonic();
    await world.super.server.until(() => attempts(world, 'blue') === undefined);
    expect(clock.monotonic() - notedAt).toBeGreaterThan(9 * 60_000);
  });

  it('leaves nothing of that behind when it is left in order', async () => {
    await using world = await DirectoryWorld.start();
    await world.make('blue');
    await world.says('blue', 'Synced', 'True', 'Joined');
    world.change('blue', (vc) => ({ ...vc, status: { ...vc.status, phase: 'Deleting' } }));
    await world.says('blue', 'Synced', 'False', 'Left');
    expect(attempts(world, 'blue')).toBeUndefined();
  });
});

describe('a VirtualCluster', () => {
  it('is served once it is ready: its namespaces appear, and its condition says so', async () => {
    await using world = await DirectoryWorld.start();
    const blue = await world.make('blue');
    blue.server.put(resources.namespaces, { metadata: { name: 'shop' } });
    await world.says('blue', 'Synced', 'True', 'Joined');
    await world.super.server.until(() => world.objectsOf('blue', resources.namespaces).length === 2);
    expect(world.told).toEqual(['joined acme/blue']);
    expect(world.directory.size).toBe(1);
  });

  it('is said to be taken up before anything is written for it', async () => {
    await using world = await DirectoryWorld.start();
    await world.make('blue');
    await world.says('blue', 'Synced', 'True', 'Joined');
    await world.super.server.until(() => world.objectsOf('blue', resources.namespaces).length > 0);
    const writes = world.super.server.requests.filter(({ verb }) => verb === 'create' || verb === 'update');
    expect(writes[0]).toMatchObject({ verb: 'update', plural: 'virtualclusters' });
  });

  it('is not served before it says how', async () => {
    await using world = await DirectoryWorld.start();
    await world.make('blue', { status: { syncerSecret: undefined } });
    await world.make('green');
    await world.says('green', 'Synced', 'True', 'Joined');
    expect(world.told).toEqual(['joined acme/green']);
  });

  it('takes over settings of the syncer that have changed, and is looked at again', async () => {
    await using world = await DirectoryWorld.start();
    await world.make('blue');
    await world.says('blue', 'Synced', 'True', 'Joined');
    const { state } = world.directory.session(uid(world, 'blue')) ?? {};
    const before = state?.info;
    world.directory.reconsider();
    // Nothing is new.
    expect(state?.info).toBe(before);
    world.settings = { ...world.settings, protectedCIDRs: ['192.0.2.0/24'] };
    world.directory.reconsider();
    expect(state?.info.protectedCIDRs).toEqual(['192.0.2.0/24']);
    expect(world.engine.depth(state?.info.uid)).toBeGreaterThan(0);
  });

  it('is left when it is to go, and the manager is told', async () => {
    await using world = await DirectoryWorld.start();
    await world.make('blue');
    await world.says('blue', 'Synced', 'True', 'Joined');
    world.change('blue', (vc) => ({ ...vc, status: { ...vc.status, phase: 'Deleting' } }));
    await world.says('blue', 'Synced', 'False', 'Left');
    expect(world.told).toEqual(['joined acme/blue', 'left acme/blue']);
    expect(world.directory.size).toBe(0);
  });

  it('is served again when it turns out to stay, even if that is said while it is being left', async () => {
    await using world = await DirectoryWorld.start();
    await world.make('blue');
    await world.says('blue', 'Synced', 'True', 'Joined');
    // No word of the syncer may get through: nothing but the change itself can bring the tenant back.
    world.super.server.inject({
      verb: 'update',
      plural: 'virtualclusters',
      times: 4,
      fault: { kind: 'status', code: 500 },
    });
    world.change('blue', (vc) => ({ ...vc, status: { ...vc.status, phase: 'Deleting' } }));
    world.change('blue', (vc) => ({ ...vc, status: { ...vc.status, phase: 'Ready' } }));
    await world.super.server.until(() => world.told.filter((told) => told.startsWith('joined')).length === 2);
    expect(world.told).toEqual(['joined acme/blue', 'left acme/blue', 'joined acme/blue']);
  });

  it('that is made anew under its name is another one', async () => {
    await using world = await DirectoryWorld.start();
    await world.make('blue', { uid: 'first' });
    await world.says('blue', 'Synced', 'True', 'Joined');
    const first = world.directory.session(uid(world, 'blue'));
    world.remove('blue');
    await world.make('blue', { uid: 'second' });
    await world.says('blue', 'Synced', 'True', 'Joined');
    expect(world.directory.session('first')).toBeUndefined();
    expect(world.directory.session('second')).not.toBe(first);
    // What is kept by name belongs to the new one now.
    expect(world.told.at(-1)).not.toBe('left acme/blue');
  });

  it('whose Secret is missing is tried again and again', async () => {
    await using world = await DirectoryWorld.start();
    const blue = await world.make('blue', {
      status: { syncerSecret: { namespace: systemNamespace, name: 'elsewhere', key: 'kubeconfig' } },
    });
    await world.super.server.until(
      () => world.super.server.requests.filter(({ name }) => name === 'elsewhere').length >= 3,
    );
    expect(world.warnings).toContain('cannot serve this tenant; trying again');
    world.change('blue', (vc) => ({
      ...vc,
      status: {
        ...vc.status,
        syncerSecret: { namespace: systemNamespace, name: 'blue-syncer', key: 'kubeconfig' },
      },
    }));
    await world.says('blue', 'Synced', 'True', 'Joined');
    expect(blue.server.requests.length).toBeGreaterThan(0);
  });

  it('gets a new session when its credentials change, and stays in agreement', async () => {
    await using world = await DirectoryWorld.start();
    const blue = await world.make('blue');
    await world.says('blue', 'Synced', 'True', 'Joined');
    const first = world.directory.session(uid(world, 'blue'));
    world.issue('blue', blue, 'renewed');
    await world.super.server.until(() => {
      const now = world.directory.session(uid(world, 'blue'));
      return now !== undefined && now !== first;
    });
    blue.server.put(resources.namespaces, { metadata: { name: 'shop' } });
    await world.super.server.until(() => world.objectsOf('blue', resources.namespaces).length === 2);
  });

  it('is told of with what proves its API server, and no longer from the moment in which it is to go', async () => {
    await using world = await DirectoryWorld.start();
    const blue = await world.make('blue', { uid: 'the-uid' });
    await world.says('blue', 'Synced', 'True', 'Joined');
    expect(world.served).toEqual(['serving acme/blue unproven']);
    world.issue('blue', blue, 'vc-syncer', 'AUTHORITY');
    await world.super.server.until(() => world.served.length === 2);
    expect(world.served.at(-1)).toBe('serving acme/blue AUTHORITY');
    // Its end may take long: nobody waits for that.
    blue.server.inject({ fault: { kind: 'hang' } });
    world.change('blue', (vc) => ({ ...vc, status: { ...vc.status, phase: 'Deleting' } }));
    await world.super.server.until(() => world.served.includes('leaving the-uid'));
  });

  it('has its credentials read anew as soon as its status names another version of them', async () => {
    const fast = fastClock(100);
    const clock: Clock = {
      now: () => fast.now(),
      monotonic: () => fast.monotonic(),
      // Their own time never comes.
      sleep: (ms, signal) => fast.sleep(ms === 60_000 ? 1e9 : ms, signal),
    };
    await using world = await DirectoryWorld.start(undefined, { clock });
    const blue = await world.make('blue');
    await world.says('blue', 'Synced', 'True', 'Joined');
    world.issue('blue', blue, 'vc-syncer', 'AUTHORITY');
    const secret = { namespace: systemNamespace, name: 'blue-syncer', key: 'kubeconfig', version: '2' };
    world.change('blue', (vc) => ({ ...vc, status: { ...vc.status, syncerSecret: secret } }));
    await world.super.server.until(() => world.served.includes('serving acme/blue AUTHORITY'));
  });

  it('is looked at as a whole once in a while, however often its owner changes its settings', async () => {
    const fast = fastClock(100);
    const rests: (() => void)[] = [];
    const sleep: Clock['sleep'] = (ms, signal) =>
      ms === 2_000 ? new Promise((resolve) => rests.push(resolve)) : fast.sleep(ms, signal);
    await using world = await DirectoryWorld.start(undefined, { clock: { ...fast, sleep } });
    await world.make('blue');
    await world.says('blue', 'Synced', 'True', 'Joined');
    const requeue = vi.spyOn(world.engine, 'requeue');
    const hides = () => world.directory.session(uid(world, 'blue'))?.state.info.hideNodes;
    for (const hidden of [true, false, true]) {
      world.change('blue', (vc) => ({ ...vc, spec: { ...vc.spec, nodes: { hidden } } }));
      await expect.poll(hides).toBe(hidden);
    }
    expect(requeue).toHaveBeenCalledTimes(1);
    expect(rests).toHaveLength(1);
    rests.pop()?.();
    await expect.poll(() => rests.length).toBe(1);
    expect(requeue).toHaveBeenCalledTimes(2);
    rests.pop()?.();
  });

  it('does not lose its session because its status cannot be written', async () => {
    await using world = await DirectoryWorld.start();
    world.super.server.inject({
      verb: 'update',
      plural: 'virtualclusters',
      times: 3,
      fault: { kind: 'status', code: 500 },
    });
    await world.make('blue');
    await world.super.server.until(() => world.directory.session(uid(world, 'blue')) !== undefined);
    const session = world.directory.session(uid(world, 'blue'));
    await world.says('blue', 'Synced', 'True', 'Joined');
    expect(world.directory.session(uid(world, 'blue'))).toBe(session);
  });
});

describe('a session', () => {
  it('says when the API server does not answer, and when it does again', async () => {
    await using world = await DirectoryWorld.start();
    const blue = await world.make('blue');
    await world.says('blue', 'Synced', 'True', 'Joined');
    await blue.server.stop();
    const { message } = await world.says('blue', 'Synced', 'False', 'Unreachable');
    expect(message).toContain('ECONNREFUSED');
    await blue.server.listen();
    await world.says('blue', 'Synced', 'True', 'Joined');
  });

  it('does not go on claiming agreement while calls fail, though health checks are answered', async () => {
    await using world = await DirectoryWorld.start();
    const blue = await world.make('blue');
    await world.says('blue', 'Synced', 'True', 'Joined');
    const fault = { kind: 'status', code: 500 } as const;
    const mended = (['watch', 'list'] as const).map((verb) =>
      blue.server.inject({ verb, plural: 'pods', fault, times: Infinity }),
    );
    for (const each of blue.server.watches('pods')) each.end();
    const { message } = await world.says('blue', 'Synced', 'False', 'CallsFail');
    expect(message).toContain('pods');
    for (const mend of mended) mend();
    await world.says('blue', 'Synced', 'True', 'Joined');
  });

  it('does not go on claiming what a syncer before it has said, while the first lists fail', async () => {
    const joined = { type: 'Synced', status: 'True', reason: 'Joined', message: 'by an earlier syncer' };
    const fault = { kind: 'status', code: 500 } as const;
    let mend = (): void => undefined;
    await using world = await DirectoryWorld.start(async (before) => {
      const blue = await before.make('blue', { status: { conditions: [joined] } });
      const mended = (['watch', 'list'] as const).map((verb) =>
        blue.server.inject({ verb, plural: 'pods', fault, times: Infinity }),
      );
      mend = () => {
        for (const each of mended) each();
      };
      await before.make('green');
    });
    await world.says('green', 'Synced', 'True', 'Joined');
    const { message } = await world.says('blue', 'Synced', 'False', 'CallsFail');
    expect(message).toContain('follow pods');
    mend();
    await world.says('blue', 'Synced', 'True', 'Joined');
  });

  it('nor while the credentials cannot be used, as when their owner had them run something', async () => {
    const joined = { type: 'Synced', status: 'True', reason: 'Joined', message: 'by an earlier syncer' };
    const secret = { namespace: systemNamespace, name: 'blue-syncer' };
    let honest: KubeObject | undefined;
    await using world = await DirectoryWorld.start(async (before) => {
      await before.make('blue', { status: { conditions: [joined] } });
      honest = before.super.server.get(resources.secrets, secret);
      const exec = {
        'current-context': 'c',
        contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
        clusters: [{ name: 'c', cluster: { server: 'https://127.0.0.1:1' } }],
        users: [{ name: 'u', user: { exec: { command: '/bin/true', apiVersion: 'x' } } }],
      };
      const kubeconfig = Buffer.from(JSON.stringify(exec)).toString('base64');
      before.super.server.put(resources.secrets, {
        ...(honest as KubeObject),
        data: { kubeconfig },
      });
    });
    const { message } = await world.says('blue', 'Synced', 'False', 'CannotServe');
    expect(message).toContain('exec');
    world.super.server.put(resources.secrets, honest as KubeObject);
    await world.says('blue', 'Synced', 'True', 'Joined');
  });

  describe('of a tenant that cannot be served', () => {
    /** Its pauses up to a minute pass fast, and later ones never; `paused` has all of them that a session waits for. */
    function clockWithPauses(): { clock: Clock; paused: number[] } {
      const fast = fastClock(100);
      const paused: number[] = [];
      const pauses = [2_000, 4_000, 8_000, 16_000, 32_000, 60_000];
      const sleep: Clock['sleep'] = (ms, signal) => {
        if (!pauses.includes(ms)) return fast.sleep(ms, signal);
        paused.push(ms);
        return paused.length > 7 ? fast.sleep(1e9, signal) : fast.sleep(0, signal);
      };
      return { clock: { ...fast, sleep }, paused };
    }
    const eventsOn = (world: DirectoryWorld) =>
      world.super.server.list(resources.events).filter(({ reason }) => reason === 'CannotServe');
    const startWithoutCredentials = (clock: Clock) =>
      DirectoryWorld.start(
        async (before) => {
          await before.make('blue');
          before.super.server.remove(resources.secrets, { namespace: systemNamespace, name: 'blue-syncer' });
        },
        { clock },
      );

    it('is tried ever more rarely, with one event, and at once when the manager has mended it', async () => {
      const { clock, paused } = clockWithPauses();
      await using world = await startWithoutCredentials(clock);
      await expect.poll(() => paused.length).toBe(8);
      expect(paused).toEqual([2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000]);
      expect(world.condition('blue', 'Synced')?.reason).toBe('CannotServe');
      expect(eventsOn(world).map(({ count }) => count)).toEqual([1]);
      // Nothing that matters to it.
      world.annotate('blue', { note: 'x' });
      world.issue('blue', world.tenantOf('blue'));
      const renewed = { namespace: systemNamespace, name: 'blue-syncer', key: 'kubeconfig', version: '2' };
      world.change('blue', (vc) => ({ ...vc, status: { ...vc.status, syncerSecret: renewed } }));
      await world.says('blue', 'Synced', 'True', 'Joined');
    });

    it('is tried soon again once something has changed, though it still cannot be', async () => {
      const { clock, paused } = clockWithPauses();
      await using world = await startWithoutCredentials(clock);
      await expect.poll(() => paused.length).toBe(8);
      world.change('blue', (vc) => ({ ...vc, status: { ...vc.status, endpoint: 'https://192.0.2.9:1' } }));
      await expect.poll(() => paused.length).toBe(9);
      expect(paused.at(-1)).toBe(2_000);
    });
  });

  it('is not needed for its usage: of a tenant that does not let the syncer join, what runs is measured', async () => {
    const fast = fastClock(100);
    const sleep: Clock['sleep'] = (ms, signal) => fast.sleep(ms === 5 * 60_000 ? 1_000 : ms, signal);
    await using world = await DirectoryWorld.start(
      async (before) => {
        const usage = { pods: 1, services: 0, nodes: 0, resources: { pods: '1' } };
        const blue = await before.make('blue', { uid: 'the-uid', status: { usage } });
        blue.server.inject({ plural: 'pods', times: Number.POSITIVE_INFINITY, fault: { kind: 'hang' } });
        for (const name of ['a', 'b'])
          before.super.server.put(resources.pods, {
            metadata: { name, namespace: 'x', labels: { 'skerry.dev/tenant': 'the-uid' } },
            spec: { nodeName: 'n1', containers: [] },
          });
      },
      { clock: { ...fast, sleep } },
    );
    await world.super.server.until(() => world.vc('blue').status?.usage?.resources?.['pods'] === '2');
    expect(world.condition('blue', 'Synced')?.status).not.toBe('True');
  });

  it('counts what the tenant has', async () => {
    await using world = await DirectoryWorld.start();
    const blue = await world.make('blue');
    blue.server.put(resources.pods, {
      metadata: { name: 'web', namespace: 'kube-system' },
      spec: { containers: [] },
    });
    await world.super.server.until(() => world.vc('blue').status?.usage?.pods === 1);
  });
});
