import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import { activityLeaseName } from '../../api/names.ts';
import { isServed } from '../../api/tenant-state.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { type KubeObject, resources } from '../../kube/index.ts';
import { condition, fastPace, jobRequests, World } from './testing/world.ts';

const gateway = { domain: 'tenants.test', host: '127.0.0.1', port: 7443 };
const settings = { gateway, advertiseAddress: '192.0.2.1', etcdEndpoint: 'https://127.0.0.1:2379' };

describe('a tenant that nobody needs', () => {
  let world: World;
  beforeEach(async () => {
    world = await World.start();
  });
  afterEach(() => world.end());

  const { annotate } = jobRequests(() => world);
  const id = (): string => world.get('a')?.status?.id ?? '';
  const untilPhase = (phase: string): Promise<VirtualCluster> =>
    world.until('a', (vc) => vc.status?.phase === phase);
  const untilStopped = (): Promise<VirtualCluster> =>
    world.until('a', (vc) => vc.status?.phase === 'Asleep' && vc.status.sleep?.stopped === true);
  const runs = async (): Promise<boolean> =>
    (await world.driver.observe(id())).components.some(({ state }) => state === 'running');
  /** As the gateway writes it. */
  const lease = (metadata: { annotations?: Record<string, string> }, renewTime?: string): void => {
    const labels = { [labelKeys.activity]: id() };
    const named = { namespace: 'skerry-system', name: activityLeaseName(id()), labels };
    world.superCluster.put(resources.leases, {
      metadata: { ...metadata, ...named },
      spec: renewTime === undefined ? {} : { renewTime },
    } as KubeObject);
  };
  const requestWake = (at: Date, reason = 'Connection'): void =>
    lease({
      annotations: {
        [annotationKeys.wakeRequested]: at.toISOString(),
        [annotationKeys.wakeReason]: reason,
      },
    });
  const events = (): unknown[] =>
    world.superCluster
      .list(resources.events)
      .filter((event) => event['reason'] === 'Woken')
      .map((event) => event['message']);

  it('is stopped on request, left alone while it sleeps, and started when somebody connects', async () => {
    world.run({ settings });
    world.create('a');
    expect(isServed(await world.untilReady('a'))).toBe(true);
    annotate('a', annotationKeys.sleep, 'one');
    const asleep = await untilStopped();
    expect(await runs()).toBe(false);
    expect(isServed(asleep)).toBe(false);
    expect(condition(asleep, 'Ready')).toMatchObject({ status: 'False', reason: 'Asleep' });
    expect(asleep.status?.jobs?.history?.[0]).toMatchObject({ kind: 'sleep', result: 'Succeeded' });
    // A change that needs no API server, and what the gateway said before, let it sleep on.
    world.edit('a', { weight: 3 });
    requestWake(new Date(Date.parse(asleep.status?.sleep?.since ?? '') - 60_000));
    annotate('a', annotationKeys.sleep, 'two');
    expect(world.get('a')?.status?.phase).toBe('Asleep');

    requestWake(new Date());
    const awake = await untilPhase('Ready');
    expect(isServed(awake)).toBe(true);
    await world.until('a', (vc) => vc.status?.jobs?.history?.[0]?.kind === 'wake');
    expect(await runs()).toBe(true);
    // The request that came while it slept is not followed later.
    const { status } = await world.untilReady('a');
    expect(status?.sleep).toMatchObject({ slept: 'two', wokenBy: 'Connection' });
    expect(status?.sleep?.since).toBeUndefined();
    await world.superCluster.until(() => events().length === 1);
    expect(events()).toEqual(['It was woken: a connection through the gateway.']);
  });

  it.each([
    ['PodLost', () => requestWake(new Date(), 'PodLost')],
    ['TokenExpiring', () => requestWake(new Date(), 'TokenExpiring')],
    ['Unknown', () => requestWake(new Date(), 'KeyRotation')],
    ['Requested', () => annotate('a', annotationKeys.wake, 'one')],
    ['VersionChange', () => world.edit('a', { version: '1.36.9' })],
    ['CertificateRenewal', () => annotate('a', annotationKeys.renewCertificates, 'one')],
    ['AuthorityRenewal', () => annotate('a', annotationKeys.renewAuthorities, 'one')],
    ['KeyRotation', () => annotate('a', annotationKeys.rotateEncryptionKey, 'one')],
  ])('has the reason %s in its status and in an event when it was woken for that', async (reason, ask) => {
    world.run({ settings });
    world.create('a', { version: '1.36.3' });
    await world.untilReady('a');
    annotate('a', annotationKeys.sleep, 'one');
    expect((await untilStopped()).status?.sleep?.wokenBy).toBeUndefined();
    ask();
    const { status } = await world.until(
      'a',
      (vc) => vc.status?.sleep?.since === undefined && vc.status?.sleep?.wokenAt !== undefined,
    );
    expect(status?.sleep?.wokenBy).toBe(reason);
    expect(status?.sleep?.wokenFor).toBeUndefined();
    await world.superCluster.until(() => events().length === 1);
    // It is known for as long as it sleeps again.
    await world.until('a', (vc) => vc.status?.phase === 'Ready' && vc.status.jobs?.current === undefined);
    if (reason !== 'AuthorityRenewal') {
      annotate('a', annotationKeys.sleep, 'two');
      expect((await untilStopped()).status?.sleep?.wokenBy).toBe(reason);
    }
  });

  it('is held to a policy that is tightened while it sleeps, and sleeps on', async () => {
    const allow = (ingressHosts: string[]): void =>
      void world.superCluster.put(resources.virtualClusterPolicies, {
        metadata: { name: 'gold' },
        spec: { namespaces: ['team'], ingressHosts },
      });
    allow(['*.example.org']);
    world.run({ settings });
    world.create('a', { policy: { ingressHosts: ['a.example.org'] } });
    await world.untilReady('a');
    annotate('a', annotationKeys.sleep, 'one');
    expect((await untilStopped()).status?.policy?.ingressHosts).toEqual(['a.example.org']);
    allow(['*.example.com']);
    const tightened = await world.until('a', ({ status }) => status?.policy?.ingressHosts.length === 0);
    expect(condition(tightened, 'PolicyLimited')).toMatchObject({ status: 'True' });
    expect(tightened.status?.phase).toBe('Asleep');
    expect(await runs()).toBe(false);
  });

  it('is woken by a request, and by what needs its control plane; an old request does not wake it the next time', async () => {
    world.run({ settings });
    world.create('a');
    await world.untilReady('a');
    annotate('a', annotationKeys.sleep, 'one');
    await untilStopped();
    annotate('a', annotationKeys.wake, 'one');
    await untilPhase('Ready');
    await world.until('a', (vc) => vc.status?.jobs?.current === undefined);
    annotate('a', annotationKeys.sleep, 'two');
    const second = await untilStopped();
    expect(second.status?.sleep).toMatchObject({ slept: 'two', woken: 'one' });
    annotate('a', annotationKeys.renewCertificates, 'now');
    await world.until('a', (vc) => vc.status?.jobs?.renewed === 'now' && vc.status.phase === 'Ready');
  });

  it.each([
    ['wakes', 'sleep', 'wake', 'Ready'],
    ['sleeps', 'wake', 'sleep', 'Asleep'],
  ] as const)(
    '%s in the end when it is asked to %s and then to %s before a manager looks',
    async (_, first, then, phase) => {
      const maker = world.run({ settings });
      world.create('a');
      await world.untilReady('a');
      if (phase === 'Asleep') {
        annotate('a', annotationKeys.sleep, 'one');
        await untilStopped();
      }
      await maker.stop();
      annotate('a', annotationKeys[first], '2026-03-01T12:00:00.000Z');
      annotate('a', annotationKeys[then], '2026-03-01T12:00:01.000Z');
      world.run({ settings });
      const { status } = await world.until(
        'a',
        (vc) =>
          vc.status?.sleep?.slept === vc.metadata.annotations?.[annotationKeys.sleep] &&
          vc.status?.sleep?.woken === vc.metadata.annotations?.[annotationKeys.wake] &&
          vc.status?.jobs?.current === undefined,
      );
      expect(status?.phase).toBe(phase);
      expect(await runs()).toBe(phase === 'Ready');
      expect(status?.jobs?.history?.[0]).toMatchObject({ kind: first, result: 'Succeeded' });
      if (phase === 'Ready')
        expect(status?.jobs?.history?.[0]?.message).toBe('it was asked to wake before it slept');
    },
  );

  it('is awake in the end when that is asked for while it is being put to sleep, or cannot be', async () => {
    world.run({ settings });
    world.create('a');
    await world.untilReady('a');
    const fault = { kind: 'status', code: 500 } as const;
    world.tenant.inject({ plural: 'cronjobs', fault, times: Number.POSITIVE_INFINITY });
    annotate('a', annotationKeys.sleep, '2026-03-01T12:00:00.000Z');
    await world.until('a', ({ status }) => status?.jobs?.current?.failing === true);
    annotate('a', annotationKeys.wake, '2026-03-01T12:00:01.000Z');
    const { status } = await world.until('a', (vc) => vc.status?.jobs?.current === undefined);
    expect(status).toMatchObject({ phase: 'Ready', jobs: { history: [{ kind: 'sleep' }, {}] } });
  });

  it('is stopped for good by the next manager when one died between the two steps', async () => {
    const first = world.run({ settings });
    world.create('a');
    await world.untilReady('a');
    world.driver.beforeStop = () => {
      throw new Error('killed');
    };
    annotate('a', annotationKeys.sleep, 'one');
    await untilPhase('Asleep');
    await first.stop();
    expect(await runs()).toBe(true);
    world.driver.beforeStop = () => {};
    world.run({ settings });
    await untilStopped();
    expect(await runs()).toBe(false);
  });

  it('sleeps on when another manager takes over', async () => {
    const first = world.run({ settings });
    world.create('a');
    await world.untilReady('a');
    annotate('a', annotationKeys.sleep, 'one');
    await untilStopped();
    await first.stop();
    const { id } = world.get('a')?.status ?? {};
    const before = world.driver.ensured.length;
    world.run({ settings: { ...settings, parallel: 1 } });
    // It comes after all that are there already.
    world.create('b');
    await world.untilReady('b');
    expect(world.driver.ensured.slice(before).map((plan) => plan.id)).not.toContain(id);
    expect(await runs()).toBe(false);
    expect(world.get('a')?.status?.phase).toBe('Asleep');
  });

  it('is Failed when it does not wake up, and awake when it does after all', async () => {
    world.run({ settings, ...fastPace(10) });
    world.create('a');
    await world.untilReady('a');
    annotate('a', annotationKeys.sleep, 'one');
    await untilStopped();
    world.driver.beforeEnsure = () => {
      throw new Error('no memory');
    };
    annotate('a', annotationKeys.wake, 'one');
    await untilPhase('Failed');
    world.driver.beforeEnsure = () => {};
    const { status } = await untilPhase('Ready');
    expect(status?.sleep?.since).toBeUndefined();
    expect(status?.sleep?.woken).toBe('one');
  });

  it('can be deleted while it sleeps', async () => {
    world.run({ settings });
    world.create('a');
    await world.untilReady('a');
    annotate('a', annotationKeys.sleep, 'one');
    await untilStopped();
    requestWake(new Date(0));
    const name = activityLeaseName(id());
    await world.delete('a');
    await world.untilGone('a');
    expect(world.superCluster.get(resources.leases, { namespace: 'skerry-system', name })).toBeUndefined();
  });

  describe('by spec.sleep.afterIdle', () => {
    let laterMs = 0;
    const pace = fastPace(10);
    const clock = { ...pace.clock, now: () => Date.now() + laterMs };
    const run = () => world.run({ ...pace, settings: { ...settings, recheckMs: 1_000 }, clock });
    const now = (): string => new Date(clock.now()).toISOString();
    const finished = () => ({
      conditions: [{ type: 'Complete', status: 'True', lastTransitionTime: new Date().toISOString() }],
    });
    const passes = async (): Promise<void> => {
      // Every pass counts its keys in the datastore.
      let passes = 0;
      world.datastore.countTenantKeys = async () => {
        passes++;
        return 0;
      };
      await world.superCluster.until(() => passes >= 2);
    };
    beforeEach(() => {
      laterMs = 0;
    });

    it('is stopped when nobody was connected for so long, and started when it is not to sleep any more', async () => {
      run();
      world.create('a', { sleep: { afterIdle: '30m' } });
      await world.untilReady('a');
      laterMs = 20 * 60_000;
      lease({}, now());
      laterMs = 45 * 60_000;
      await passes();
      expect(world.get('a')?.status?.phase).toBe('Ready');
      laterMs = 51 * 60_000;
      const { status } = await untilStopped();
      expect(status?.sleep?.reason).toBe('Idle');
      // A tenant that sleeps each night would have nothing else in its history.
      expect(status?.jobs?.history?.map(({ kind }) => kind)).toEqual(['provision']);
      world.edit('a', { sleep: {} });
      expect((await untilPhase('Ready')).status?.sleep?.wokenBy).toBe('SpecChanged');
    });

    it.each([
      ['a CronJob that is due before long', resources.cronJobs, () => ({ spec: { schedule: '@every 20m' } })],
      ['a Job that tries again after a pause', resources.jobs, () => ({ status: { failed: 1 } })],
      [
        'a Job that has to be deleted soon',
        resources.jobs,
        () => ({ spec: { ttlSecondsAfterFinished: 3 * 3600 }, status: finished() }),
      ],
    ])('goes on for the sake of %s', async (_, resource, object) => {
      run();
      world.create('a', { sleep: { afterIdle: '30m' } });
      await world.untilReady('a');
      const ref = { namespace: 'default', name: 'later' };
      laterMs = 3 * 3600_000 - 10 * 60_000;
      world.tenant.put(resource, { metadata: ref, ...object() } as KubeObject);
      await passes();
      expect(world.get('a')?.status?.phase).toBe('Ready');
      world.tenant.remove(resource, ref);
      await untilStopped();
    });

    it('is started for the first of very many CronJobs, wherever in the list that is', async () => {
      run();
      world.create('a', { sleep: { afterIdle: '30m' } });
      await world.untilReady('a');
      const due = new Date(Date.now() + 180 * 24 * 3600_000);
      due.setUTCHours(7, 0, 0, 0);
      const put = (name: string, hour: number): void =>
        void world.tenant.put(resources.cronJobs, {
          metadata: { namespace: 'default', name },
          spec: {
            schedule: `0 ${hour} ${due.getUTCDate()} ${due.getUTCMonth() + 1} *`,
            timeZone: 'Etc/UTC',
          },
        } as KubeObject);
      for (let count = 0; count < 1_100; count++) put(`c-${count}`, 8);
      put('last', 7);
      laterMs = 51 * 60_000;
      const { status } = await untilStopped();
      expect(status?.sleep).toMatchObject({ dueAt: due.toISOString(), dueFor: 'CronJob default/last' });
    });

    it('is stopped when what its controllers have to do is far off, and started for that', async () => {
      run();
      world.create('a', { sleep: { afterIdle: '30m' } });
      await world.untilReady('a');
      const named = (name: string) => ({ metadata: { namespace: 'default', name } });
      const month = new Date(Date.now() + 180 * 24 * 3600_000).getUTCMonth() + 1;
      world.tenant.put(resources.cronJobs, {
        ...named('yearly'),
        spec: { schedule: `0 0 1 ${month} *` },
      } as KubeObject);
      world.tenant.put(resources.jobs, {
        ...{ ...named('done'), status: finished() },
        spec: { ttlSecondsAfterFinished: 3 * 3600 },
      } as KubeObject);
      laterMs = 51 * 60_000;
      const { status } = await untilStopped();
      const dueMs = Date.parse(status?.sleep?.dueAt ?? '');
      expect(dueMs).toBeGreaterThan(clock.now() + 2 * 3600_000);
      expect(dueMs).toBeLessThan(clock.now() + 3 * 3600_000);
      expect(status?.sleep?.dueFor).toBe('Job default/done');
      laterMs += 3 * 3600_000;
      world.edit('a', { weight: 2 });
      const { status: awake } = await untilPhase('Ready');
      expect(awake?.sleep).toMatchObject({ wokenBy: 'JobExpired', wokenFor: 'Job default/done' });
      expect(awake?.sleep?.dueFor).toBeUndefined();
    });

    it('never happens where no gateway could wake it', async () => {
      const { gateway: _, ...without } = settings;
      world.run({ ...pace, settings: { ...without, recheckMs: 1_000 }, clock });
      world.create('a', { sleep: { afterIdle: '30m' } });
      await world.untilReady('a');
      laterMs = 51 * 60_000;
      await passes();
      expect(world.get('a')?.status?.phase).toBe('Ready');
    });
  });

  describe('by spec.sleep.at', () => {
    let nowMs = 0;
    const pace = fastPace(10);
    const clock = { ...pace.clock, now: () => nowMs };
    const sleep = { at: '0 19 * * *', wakeAt: '0 7 * * *' };
    /** After the tenant was made, which the API server dates. */
    const timeOf = (day: number, time: string): number =>
      Date.parse(`${new Date(Date.now() + day * 86_400_000).toISOString().slice(0, 11)}${time}Z`);

    const iso = (day: number, time: string): string => new Date(timeOf(day, time)).toISOString();

    it('is stopped and started by the clock, used or not; one that was asked to sleep sleeps on', async () => {
      nowMs = timeOf(1, '12:00:00');
      world.run({ ...pace, settings: { ...settings, recheckMs: 1_000 }, clock });
      world.create('a', { sleep });
      await world.untilReady('a');
      lease({}, new Date(timeOf(1, '19:00:30')).toISOString());
      nowMs = timeOf(1, '19:01:00');
      expect((await untilStopped()).status?.sleep?.reason).toBe('Scheduled');
      nowMs = timeOf(2, '07:00:30');
      world.edit('a', { weight: 2 });
      expect((await untilPhase('Ready')).status?.sleep?.wokenBy).toBe('Scheduled');
      await world.until('a', (vc) => vc.status?.jobs?.current === undefined);
      annotate('a', annotationKeys.sleep, 'one');
      await untilStopped();
      nowMs = timeOf(3, '07:00:30');
      world.edit('a', { weight: 3 });
      annotate('a', annotationKeys.snapshot, 'one');
      await world.until('a', (vc) => vc.status?.jobs?.history?.[0]?.kind === 'snapshot');
      expect(world.get('a')?.status?.phase).toBe('Asleep');
    });

    it.each([
      ['at', 'a CronJob', resources.cronJobs, () => ({ spec: { schedule: '0 3 * * *' } }), '03:00:00'],
      [
        'the command',
        'a CronJob in a time zone',
        resources.cronJobs,
        () => ({ spec: { schedule: '0 3 * * *', timeZone: 'Etc/GMT-2' } }),
        '01:00:00',
      ],
      [
        'the command',
        'a Job with a time to live',
        resources.jobs,
        () => ({
          spec: { ttlSecondsAfterFinished: 8 * 3600 },
          status: {
            conditions: [{ type: 'Complete', status: 'True', lastTransitionTime: iso(1, '18:00:00') }],
          },
        }),
        '02:00:00',
      ],
    ])('or by %s: %s that falls due wakes it', async (by, _, resource, object, time) => {
      nowMs = timeOf(1, '18:58:00');
      world.run({ ...pace, settings: { ...settings, recheckMs: 1_000 }, clock });
      world.create('a', by === 'at' ? { sleep: { at: '0 19 * * *', wakeAt: '0 12 * * *' } } : {});
      await world.untilReady('a');
      const named = (name: string) => ({ metadata: { namespace: 'default', name } });
      world.tenant.put(resource, { ...named('later'), ...object() });
      world.tenant.put(resources.cronJobs, {
        ...named('suspended'),
        spec: { schedule: '0 0 * * *', suspend: true },
      } as KubeObject);
      nowMs = timeOf(1, '19:01:00');
      if (by === 'at') world.edit('a', { weight: 2 });
      else annotate('a', annotationKeys.sleep, 'one');
      const { status } = await untilStopped();
      expect(status?.sleep?.dueAt).toBe(iso(2, time));
      nowMs = timeOf(2, time) - 1_000;
      world.edit('a', { weight: 3 });
      annotate('a', annotationKeys.snapshot, 'one');
      await world.until('a', (vc) => vc.status?.jobs?.history?.[0]?.kind === 'snapshot');
      expect(world.get('a')?.status?.phase).toBe('Asleep');
      // Nobody says so: the manager looks when it is time.
      nowMs += 2_000;
      const awake = await untilPhase('Ready');
      expect(awake.status?.sleep?.dueAt).toBeUndefined();
      const isJob = resource === resources.jobs;
      expect(awake.status?.sleep).toMatchObject({
        wokenBy: isJob ? 'JobExpired' : 'CronJobDue',
        wokenFor: `${isJob ? 'Job' : 'CronJob'} default/later`,
      });
      await world.superCluster.until(() => events().length === 1);
      expect(events()).toEqual([expect.stringContaining('default/later')]);
    });

    it('or by the command does not stop it when what is due cannot be listed', async () => {
      nowMs = timeOf(1, '12:00:00');
      world.run({ ...pace, settings, clock });
      world.create('a');
      await world.untilReady('a');
      const fault = { kind: 'status', code: 500 } as const;
      const mend = world.tenant.inject({ plural: 'cronjobs', fault, times: Number.POSITIVE_INFINITY });
      annotate('a', annotationKeys.sleep, 'one');
      await world.until('a', ({ status }) => status?.jobs?.current?.failing === true);
      expect(world.get('a')?.status?.phase).toBe('Ready');
      mend();
      await untilStopped();
    });

    it('or by the command says how many of its pods ran, so that a lost one is missed', async () => {
      nowMs = timeOf(1, '12:00:00');
      world.run({ ...pace, settings, clock });
      world.create('a');
      await world.untilReady('a');
      const pod = (name: string, status: object): void =>
        void world.tenant.put(resources.pods, {
          metadata: { namespace: 'default', name },
          status,
        } as KubeObject);
      const startTime = iso(1, '11:00:00');
      for (let each = 0; each < 250; each++) pod(`web-${each}`, { phase: 'Running', startTime });
      pod('waits', { phase: 'Pending' });
      pod('done', { phase: 'Succeeded', startTime });
      annotate('a', annotationKeys.sleep, 'one');
      expect((await untilStopped()).status?.sleep?.pods).toBe(250);
      annotate('a', annotationKeys.wake, 'one');
      expect((await untilPhase('Ready')).status?.sleep?.pods).toBeUndefined();
    });

    it.each([
      [{ at: '0 19 * * *' }, 'Ready'],
      [sleep, 'Asleep'],
    ])('without a gateway, %o, it is stopped only if the clock wakes it', async (schedule, phase) => {
      const { gateway: _, ...without } = settings;
      nowMs = timeOf(1, '18:58:00');
      world.run({ ...pace, settings: { ...without, recheckMs: 1_000 }, clock });
      world.create('a', { sleep: schedule });
      await world.untilReady('a');
      nowMs = timeOf(1, '19:01:00');
      world.edit('a', { weight: 2 });
      const vc = await world.until(
        'a',
        ({ metadata, status }) =>
          status?.phase === 'Asleep' || status?.observedGeneration === metadata.generation,
      );
      expect(vc.status?.phase).toBe(phase);
      const said = expect.stringContaining('has no wakeAt, and there is no gateway');
      if (phase === 'Ready') expect(condition(vc, 'Ready')).toMatchObject({ message: said });
    });

    it('that cannot be read is named, and the tenant goes on', async () => {
      nowMs = timeOf(1, '12:00:00');
      world.run({ ...pace, settings, clock });
      world.create('a', { sleep: { at: 'soon' } });
      const ready = condition(await world.untilReady('a'), 'Ready');
      expect(ready?.message).toMatch(/It does not sleep as asked: spec.sleep.at: /);
    });
  });
});
