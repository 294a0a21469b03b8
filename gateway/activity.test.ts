import { pino } from 'pino';
import { describe, expect, it, vi } from 'vitest';
import { annotationKeys } from '../api/labels.ts';
import type { VirtualCluster } from '../api/virtual-cluster.ts';
import { Connection, KubeClient, resources } from '../kube/index.ts';
import { FakeApiServer, FakeClock } from '../kube/testing/index.ts';
import { Activity } from './activity.ts';
import { Routes } from './routes.ts';

const vc = (phase: 'Ready' | 'Asleep', afterIdle?: string): VirtualCluster => ({
  apiVersion: 'skerry.dev/v1alpha1',
  kind: 'VirtualCluster',
  metadata: { namespace: 'acme', name: 'blue', uid: 'uid', creationTimestamp: '2026-01-01T00:00:00Z' },
  spec: afterIdle === undefined ? {} : { sleep: { afterIdle } },
  status: { id: 'blueid', phase, endpoint: 'https://127.0.0.1:1' },
});
const stopped = (): VirtualCluster => {
  const asleep = vc('Asleep');
  return { ...asleep, status: { ...asleep.status, sleep: { stopped: true } } };
};
const lease = { namespace: 'skerry-system', name: 'tenant-blueid-activity' };

async function following(
  tenant: VirtualCluster,
  parts: {
    logger?: ConstructorParameters<typeof Activity>[0]['logger'];
    untilReady?: () => Promise<boolean>;
  } = {},
) {
  const server = await FakeApiServer.start();
  const connection = new Connection(server.connectionOptions);
  const clock = new FakeClock();
  const routes = new Routes('tenants.example.com');
  routes.put(tenant);
  /** What its API server is asked, in turn: each answer is given by the test. */
  const probes: { answer: (isReady: boolean) => void; isCurrent: () => boolean }[] = [];
  const untilReady = (_: unknown, isCurrent: () => boolean): Promise<boolean> =>
    new Promise((answer) => probes.push({ answer, isCurrent }));
  const activity = new Activity({
    client: new KubeClient(connection),
    namespace: 'skerry-system',
    readiness: { untilReady: parts.untilReady ?? untilReady },
    routes,
    clock,
    logger: parts.logger ?? pino({ level: 'silent' }),
  });
  const stored = () => server.get(resources.leases, lease) as { spec?: { renewTime?: string } } | undefined;
  const requested = () =>
    server.get(resources.leases, lease)?.metadata.annotations?.[annotationKeys.wakeRequested];
  const reason = () => server.get(resources.leases, lease)?.metadata.annotations?.[annotationKeys.wakeReason];
  return {
    ...{ server, clock, routes, activity, probes, stored, requested, reason },
    [Symbol.asyncDispose]: async () => {
      await connection.close();
      await server.stop();
    },
  };
}

describe('what the gateway says of tenants', () => {
  it('is when they were last used, as often as their time to fall asleep asks for', async () => {
    await using world = await following(vc('Ready', '10m'));
    const { clock, activity, server, stored } = world;
    const end = new AbortController();
    const running = activity.run(() => ['blueid', 'gone'], end.signal);
    const writes = () => server.requests.filter(({ method }) => method !== 'GET').length;
    await clock.advance(10_000);
    await server.until(() => stored() !== undefined);
    const first = stored()?.spec?.renewTime;
    expect(first).toMatch(/T.*\.[0-9]{6}Z$/);
    await clock.advance(100_000);
    expect(stored()?.spec?.renewTime).toBe(first);
    await clock.advance(30_000);
    await server.until(() => stored()?.spec?.renewTime !== first);
    expect(writes()).toBeGreaterThan(1);
    end.abort();
    await running;
  });

  it('is when they were last used, later, where that was soon after it was said; what another gateway has said stays', async () => {
    await using world = await following(vc('Ready', '10m'));
    const { clock, activity, server, stored } = world;
    const end = new AbortController();
    let used: string[] = [];
    const running = activity.run(() => used.splice(0), end.signal);
    const use = async (): Promise<string> => {
      used = ['blueid'];
      await clock.advance(10_000);
      return new Date(clock.now()).toISOString().replace('Z', '000Z');
    };
    const first = await use();
    await server.until(() => stored()?.spec?.renewTime === first);
    await use();
    const last = await use();
    await clock.advance(90_000);
    expect(stored()?.spec?.renewTime).toBe(first);
    await clock.advance(10_000);
    await server.until(() => stored()?.spec?.renewTime === last);

    await use();
    const other = new Date(clock.now() + 5_000).toISOString();
    server.put(resources.leases, {
      ...server.get(resources.leases, lease),
      spec: { renewTime: other },
    } as never);
    const before = server.requests.length;
    await clock.advance(120_000);
    await server.until(() => server.requests.length > before);
    await clock.advance(120_000);
    expect(stored()?.spec?.renewTime).toBe(other);
    expect(server.requests.length).toBe(before + 1);
    end.abort();
    await running;
  });

  it('is at its end what it has not said yet, for no longer than a stop may take', async () => {
    await using world = await following(vc('Ready', '10m'));
    const { clock, activity, server, stored } = world;
    const end = new AbortController();
    let used = ['blueid'];
    const running = activity.run(() => used.splice(0), end.signal);
    await clock.advance(10_000);
    await server.until(() => stored() !== undefined);
    used = ['blueid'];
    await clock.advance(10_000);
    const soonAfter = new Date(clock.now()).toISOString().replace('Z', '000Z');
    expect(stored()?.spec?.renewTime).not.toBe(soonAfter);
    end.abort();
    await running;
    expect(stored()?.spec?.renewTime).toBe(soonAfter);

    server.inject({ fault: { kind: 'hang' }, times: Number.POSITIVE_INFINITY });
    const cut = new AbortController();
    used = ['blueid'];
    const before = server.requests.length;
    const ending = activity.run(() => used.splice(0), cut.signal);
    cut.abort();
    await server.until(() => server.requests.length > before);
    await clock.advance(2_000);
    await ending;
  });

  it('is nothing of those that do not fall asleep by themselves', async () => {
    await using world = await following(vc('Ready'));
    const { clock, activity, server } = world;
    const end = new AbortController();
    const running = activity.run(() => ['blueid'], end.signal);
    await clock.advance(60_000);
    end.abort();
    await running;
    expect(server.requests).toEqual([]);
  });

  it('is that one has to wake up: once for all that wait, again if nobody seems to have seen it', async () => {
    await using world = await following(vc('Asleep'));
    const { clock, activity, server, routes, requested, reason } = world;
    const never = new AbortController().signal;
    const waiting = [1, 2, 3].map(() => activity.wake({ id: 'blueid' }, never));
    await server.until(() => requested() !== undefined);
    const first = requested();
    expect(reason()).toBe('Connection');
    expect(server.requests.filter(({ method }) => method === 'POST')).toHaveLength(1);
    // Those that wait, and the one that has asked for them.
    await vi.waitUntil(() => clock.sleeping === 4, 30_000);
    await clock.advance(5_000);
    await vi.waitUntil(() => requested() !== first, 30_000);
    routes.put(vc('Ready'));
    activity.routesChanged();
    expect(await Promise.all(waiting)).toEqual([true, true, true]);
  });

  it('is nothing for a client in the background, which waits for one that comes back by itself and for no other', async () => {
    await using world = await following(vc('Ready'));
    const { activity, server, routes } = world;
    const away = (phase: 'Restoring' | 'Asleep'): VirtualCluster => ({
      ...vc('Ready'),
      status: {
        ...vc('Ready').status,
        phase,
        ...(phase === 'Restoring' && { restore: { request: 'one', from: 'acme/blue/x.snapshot' } }),
      },
    });
    const route = { id: 'blueid', isBackground: true };
    const put = (tenant: VirtualCluster): void => {
      routes.put(tenant);
      activity.routesChanged();
    };
    const never = new AbortController().signal;
    put(away('Restoring'));
    const held = activity.wake(route, never);
    put(vc('Ready'));
    expect(await held).toBe(true);
    put(away('Restoring'));
    const left = activity.wake(route, never);
    put(away('Asleep'));
    expect(await left).toBe(false);
    expect(server.requests).toEqual([]);
  });

  it('is that one is awake as soon as its API server says so itself, asked once for all that wait', async () => {
    await using world = await following(stopped());
    const { activity, probes, requested, server } = world;
    const never = new AbortController().signal;
    const waiting = [1, 2].map(() => activity.wake({ id: 'blueid' }, never));
    await server.until(() => requested() !== undefined);
    expect(probes).toHaveLength(1);
    expect(probes[0]?.isCurrent()).toBe(true);
    probes[0]?.answer(true);
    expect(await Promise.all(waiting)).toEqual([true, true]);
    expect(probes[0]?.isCurrent()).toBe(false);
  });

  it('is asked again after a defect, which is told', async () => {
    const warned: unknown[] = [];
    await using world = await following(stopped(), {
      logger: { warn: (...what: unknown[]) => warned.push(what) } as never,
      untilReady: () => Promise.reject(new Error('a defect')),
    });
    const { clock, activity } = world;
    const waking = activity.wake({ id: 'blueid' }, new AbortController().signal);
    await expect.poll(() => warned.length).toBe(1);
    await clock.advance(5_000);
    await expect.poll(() => warned.length).toBe(2);
    await clock.advance(60_000);
    expect(await waking).toBe(false);
  });

  it('is asked of its API server again and again, where that is now', async () => {
    await using world = await following(stopped());
    const { activity, clock, probes, routes } = world;
    const waiting = activity.wake({ id: 'blueid' }, new AbortController().signal);
    await vi.waitUntil(() => probes.length === 1, 30_000);
    const moved = stopped();
    routes.put({ ...moved, status: { ...moved.status, endpoint: 'https://127.0.0.1:2' } });
    expect(probes[0]?.isCurrent()).toBe(false);
    probes[0]?.answer(false);
    // The client, the one that has asked for it, and the pause between two probes.
    await vi.waitUntil(() => clock.sleeping === 3, 30_000);
    await clock.advance(100);
    await vi.waitUntil(() => probes.length === 2, 30_000);
    expect(probes[1]?.isCurrent()).toBe(true);
    probes[1]?.answer(true);
    expect(await waiting).toBe(true);
  });

  it('does not take an API server for awake that is still being stopped, or that serves nobody yet', async () => {
    await using world = await following(vc('Asleep'));
    const { activity, probes, routes, requested, server } = world;
    const waiting = activity.wake({ id: 'blueid' }, new AbortController().signal);
    await server.until(() => requested() !== undefined);
    expect(probes).toEqual([]);
    const put = (tenant: VirtualCluster): void => {
      routes.put(tenant);
      activity.routesChanged();
    };
    put(stopped());
    await vi.waitUntil(() => probes.length === 1, 30_000);
    const asleep = stopped();
    // Put back to a snapshot, it runs before it is what its clients are to see.
    put({
      ...asleep,
      status: { ...asleep.status, restore: { request: 'one', from: 'acme/blue/x.snapshot' } },
    });
    expect(probes[0]?.isCurrent()).toBe(false);
    let answer: boolean | undefined;
    void waiting.then((is) => {
      answer = is;
    });
    probes[0]?.answer(true);
    await new Promise((resolve) => setImmediate(resolve));
    expect(answer).toBeUndefined();
    put(vc('Ready'));
    expect(await waiting).toBe(true);
  });

  it('waits no longer than a client, or for ever', async () => {
    await using world = await following(vc('Asleep'));
    const { clock, activity, routes } = world;
    const gone = new AbortController();
    const left = activity.wake({ id: 'blueid' }, gone.signal);
    gone.abort();
    expect(await left).toBe(false);
    const waiting = activity.wake({ id: 'blueid' }, new AbortController().signal);
    let answer: boolean | undefined;
    void waiting.then((is) => {
      answer = is;
    });
    for (let at = 0; at < 14 && answer === undefined; at++) await clock.advance(5_000);
    expect(await waiting).toBe(false);
    const deleted = activity.wake({ id: 'blueid' }, new AbortController().signal);
    routes.remove(vc('Asleep'));
    activity.routesChanged();
    expect(await deleted).toBe(false);
  });
});
