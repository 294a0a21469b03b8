import { pino } from 'pino';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { labelKeys } from '../../api/labels.ts';
import { noUsage } from '../../api/usage.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { type ConfigMap, Connection, KubeClient, resources, Store } from '../../kube/index.ts';
import { FakeApiServer, FakeClock } from '../../kube/testing/index.ts';
import { parseCallCount } from './steps/api-calls.ts';
import { UsageMeter, usageOf } from './usage-meter.ts';

const minuteMs = 60_000;

function virtualCluster(name: string, status: VirtualCluster['status'] = {}): VirtualCluster {
  return {
    metadata: { namespace: 'default', name, uid: `uid-${name}`, resourceVersion: '1' },
    status: {
      id: `id-${name}`,
      usage: {
        pods: 6,
        cpu: '1500m',
        memory: '2Gi',
        resources: { 'requests.cpu': '3', 'requests.memory': '6Gi', 'requests.storage': '30Gi' },
      },
      datastoreUsage: { keys: 1, bytes: 2 ** 30, measured: '2026-03-01T00:00:00Z' },
      ...status,
    },
  };
}

describe('usage', () => {
  const cleanups: (() => unknown)[] = [];
  afterEach(async () => {
    for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
  });

  async function world(at = '2026-03-31T23:30:00Z') {
    const server = await FakeApiServer.start();
    const connection = new Connection(server.connectionOptions);
    cleanups.push(
      () => server.stop(),
      () => connection.close(),
    );
    const clock = new FakeClock({ now: Date.parse(at) });
    const virtualClusters = new Store<VirtualCluster>();
    const told: string[] = [];
    const gone: string[] = [];
    const services = {
      client: new KubeClient(connection),
      virtualClusters,
      clock,
      logger: pino({ level: 'silent' }),
      settings: { namespace: 'skerry-system' } as never,
      onUsage: (tenant: string, used: object | undefined) => (used === undefined ? gone : told).push(tenant),
    };
    const start = (): { meter: UsageMeter; stop: () => Promise<void> } => {
      const meter = new UsageMeter();
      const stop = new AbortController();
      const running = meter.run(services, stop.signal);
      return {
        meter,
        stop: async () => {
          stop.abort();
          await running;
        },
      };
    };
    /** The rows of a ConfigMap; undefined where there is none. */
    const rows = (name: string): Record<string, Record<string, number>> | undefined => {
      const map = server.list(resources.configMaps).find(({ metadata }) => metadata.name === name);
      const data = map?.['data'] as Record<string, string> | undefined;
      return data && Object.fromEntries(Object.entries(data).map(([day, text]) => [day, JSON.parse(text)]));
    };
    return { server, clock, virtualClusters, services, start, rows, told, gone };
  }

  async function pass(clock: FakeClock, minutes: number): Promise<void> {
    for (let minute = 0; minute < minutes; minute++) {
      await clock.untilSleeping();
      await clock.advance(minuteMs);
    }
    await clock.untilSleeping();
  }

  it('is what a tenant has, times how long', () => {
    const shows = (pods: Record<string, string>) =>
      usageOf(virtualCluster('a', { usage: { pods: 0, resources: pods } }), 0.5, 0).podHours;
    expect([shows({ pods: '6' }), shows({})]).toEqual([3, 0]);
    expect(usageOf(virtualCluster('a'), 0.5, 7)).toEqual({
      hours: 0.5,
      podHours: 3,
      cpuHours: 0.75,
      cpuRequestHours: 1.5,
      memoryGiBHours: 1,
      memoryRequestGiBHours: 3,
      storageGiBHours: 15,
      datastoreGiBHours: 0.5,
      apiCalls: 7,
    });
  });

  it('is kept by day and month, and added up by the next manager from where the last one was', async () => {
    const { server, clock, virtualClusters, start, rows, told } = await world();
    virtualClusters.replace([virtualCluster('a')]);
    const first = start();
    await pass(clock, 12);
    // Nothing by which the syncer would take it for a copy of the tenant's.
    const [map] = server.list(resources.configMaps);
    expect(map?.metadata.labels).not.toHaveProperty([labelKeys.tenant]);
    expect(rows('usage-id-a-2026-03')?.['2026-03-31']?.['podHours']).toBeGreaterThan(0);
    expect(told).toContain('default/a');
    await first.stop();
    const written = rows('usage-id-a-2026-03')?.['2026-03-31']?.['podHours'] ?? 0;
    const second = start();
    await pass(clock, 12);
    const later = rows('usage-id-a-2026-03')?.['2026-03-31']?.['podHours'] ?? 0;
    expect(later).toBeGreaterThan(written);
    expect(later).toBeLessThanOrEqual(6 * (24 / 60));
    await pass(clock, 30);
    expect(Object.keys(rows('usage-id-a-2026-04') ?? {})).toEqual(['2026-04-01']);
    await second.stop();
  });

  it('of this month is in the status beside what the syncer says there, and written when it has changed', async () => {
    const { server, clock, virtualClusters, services, start } = await world('2026-03-31T22:30:00Z');
    const stored = () =>
      server.get(resources.virtualClusters, { namespace: 'default', name: 'a' }) as
        | VirtualCluster
        | undefined;
    const month = () => stored()?.status?.usage?.month;
    const put = (usage: object | undefined): void => {
      const { metadata } = virtualCluster('a');
      server.put(resources.virtualClusters, { metadata, status: { id: 'id-a', usage } } as VirtualCluster);
      virtualClusters.replace([stored() as VirtualCluster]);
    };
    put({ pods: 6, cpu: '1500m' });
    const first = start();
    await pass(clock, 12);
    expect(stored()?.status?.usage).toMatchObject({ pods: 6, cpu: '1500m' });
    expect(month()).toMatchObject({ of: '2026-03', podHours: expect.closeTo(1.1, 2), apiCalls: 0 });
    await first.stop();
    // As the next manager goes on: with all days of the month, on what others have written meanwhile.
    put({ pods: 5, month: month() });
    server.put(resources.virtualClusters, {
      ...stored(),
      status: { ...stored()?.status, phase: 'Asleep' },
    } as VirtualCluster);
    const second = start();
    await pass(clock, 12);
    expect(stored()?.status).toMatchObject({ phase: 'Asleep', usage: { pods: 5 } });
    expect(month()?.podHours).toBeCloseTo(1.93, 2);
    await pass(clock, 72);
    expect(month()).toMatchObject({ of: '2026-04' });
    expect(month()?.podHours).toBeLessThan(1);

    // A tenant that uses nothing costs no write, nor does one that no syncer has measured.
    put({ pods: 0 });
    await pass(clock, 12);
    virtualClusters.replace([stored() as VirtualCluster]);
    const write = vi.spyOn(services.client, 'update');
    await pass(clock, 30);
    put(undefined);
    await pass(clock, 12);
    expect(write).not.toHaveBeenCalled();
    expect(stored()?.status?.usage).toBeUndefined();
    await second.stop();
  });

  it('of others is kept, and by the minute, though the metrics refuse what one has', async () => {
    const { clock, virtualClusters, services, start, rows } = await world();
    virtualClusters.replace([virtualCluster('a'), virtualCluster('b')]);
    services.onUsage = (tenant) => {
      if (tenant === 'default/a') throw new TypeError('Value is not a valid number: Infinity');
      return 0;
    };
    const { stop } = start();
    await pass(clock, 12);
    for (const name of ['a', 'b']) {
      const hours = rows(`usage-id-${name}-2026-03`)?.['2026-03-31']?.['hours'] ?? 0;
      expect(hours).toBeGreaterThan(0);
      expect(hours).toBeLessThanOrEqual(12 / 60);
    }
    await stop();
  });

  it('of a tenant that is gone stays, and none of one that waits for an owner is kept', async () => {
    const { clock, virtualClusters, start, rows, gone } = await world();
    const warm = virtualCluster('warm');
    warm.metadata.labels = { 'skerry.dev/warm': 'x' };
    virtualClusters.replace([virtualCluster('a'), warm]);
    const { stop } = start();
    await pass(clock, 3);
    virtualClusters.replace([warm]);
    await pass(clock, 2);
    expect(rows('usage-id-a-2026-03')?.['2026-03-31']?.['hours']).toBeCloseTo(3 / 60, 3);
    expect(rows('usage-id-warm-2026-03')).toBeUndefined();
    expect(gone).toEqual(['default/a']);
    await stop();
  });

  it('of before is asked for once a tenant has an owner, and not while it waits for one', async () => {
    const { server, clock, virtualClusters, start } = await world();
    const lists = () =>
      server.requests.filter(({ verb, plural }) => verb === 'list' && plural === 'configmaps');
    const warm = virtualCluster('warm');
    warm.metadata.labels = { 'skerry.dev/warm': 'x' };
    virtualClusters.replace([warm]);
    const { stop } = start();
    await clock.untilSleeping();
    const before = lists().length;
    await pass(clock, 3);
    expect(lists()).toHaveLength(before);
    const kubeconfigSecret = { name: 'a', key: 'kubeconfig' };
    const metadata = { ...warm.metadata, resourceVersion: '2' };
    virtualClusters.replace([{ ...warm, metadata, status: { ...warm.status, kubeconfigSecret } }]);
    await pass(clock, 3);
    expect(lists()).toHaveLength(before + 1);
    await stop();
  });

  it('of many tenants of a namespace that are gone is added up in one ConfigMap, as they go', async () => {
    const { server, clock, virtualClusters, start, rows } = await world('2026-03-10T12:00:00Z');
    const short = Array.from({ length: 103 }, (_, index) => virtualCluster(`short-${index}`));
    const other = virtualCluster('other');
    other.metadata.namespace = 'elsewhere';
    const stays = virtualCluster('stays');
    const { stop } = start();
    virtualClusters.replace([...short, other, stays]);
    await pass(clock, 12);
    virtualClusters.replace([stays]);
    await pass(clock, 12);
    await stop();
    const names = server.list(resources.configMaps).map(({ metadata }) => metadata.name ?? '');
    expect(names.filter((name) => name.startsWith('usage-id-short-'))).toHaveLength(100);
    expect(names).toEqual(expect.arrayContaining(['usage-id-other-2026-03', 'usage-id-stays-2026-03']));
    const [sum = ''] = names.filter((name) => name.startsWith('usage-gone-'));
    expect(names).toHaveLength(103);
    const hours = (name: string): number => rows(name)?.['2026-03-10']?.['hours'] ?? 0;
    expect(hours(sum)).toBeCloseTo(3 * hours('usage-id-other-2026-03'), 2);
  });

  it('of one that is gone is added up once, though a manager dies before its ConfigMap is deleted, and it comes back', async () => {
    const { server, clock, virtualClusters, services, start, rows } = await world('2026-03-10T12:00:00Z');
    const day = JSON.stringify({ ...noUsage(), podHours: 1 });
    for (let index = 0; index < 103; index++)
      server.put(resources.configMaps, {
        metadata: {
          name: `usage-id-${index}-2026-03`,
          namespace: 'skerry-system',
          labels: { 'skerry.dev/usage': '2026-03' },
          annotations: { 'skerry.dev/tenant-name': `default/short-${index}` },
        },
        data: { '2026-03-01': day },
      } as ConfigMap);
    const names = (): string[] =>
      server.list(resources.configMaps).map(({ metadata }) => metadata.name ?? '');
    const deletion = vi.spyOn(services.client, 'delete').mockRejectedValueOnce(new Error('killed'));
    const first = start();
    await clock.untilSleeping();
    await first.stop();
    const back = deletion.mock.calls[0]?.[1].name ?? '';
    expect(names()).toHaveLength(104);
    expect(names()).toContain(back);
    virtualClusters.replace([virtualCluster(back.replace(/^usage-id-|-2026-03$/g, ''))]);
    const second = start();
    await pass(clock, 12);
    const [sum = ''] = names().filter((name) => name.startsWith('usage-gone-'));
    expect(rows(sum)?.['2026-03-01']?.['podHours']).toBe(3);
    expect(names()).toHaveLength(102);
    expect(Object.keys(rows(back) ?? {})).toEqual(['2026-03-10']);
    // And is gone again.
    virtualClusters.replace([]);
    await pass(clock, 2);
    await second.stop();
    const third = start();
    await clock.untilSleeping();
    await third.stop();
    const total = names().reduce((all, name) => all + (rows(name)?.['2026-03-01']?.['podHours'] ?? 0), 0);
    expect(total).toBe(103);
  });

  it('of one that is deleted and comes back under its id on the same day is added up', async () => {
    const { clock, virtualClusters, start, rows } = await world('2026-03-10T12:00:00Z');
    const hours = () => rows('usage-id-a-2026-03')?.['2026-03-10']?.['hours'] ?? 0;
    const first = virtualCluster('a');
    virtualClusters.replace([first]);
    const { stop } = start();
    await pass(clock, 35);
    virtualClusters.replace([{ ...first, metadata: { ...first.metadata, uid: 'uid-again' } }]);
    await pass(clock, 12);
    expect(hours()).toBeGreaterThan(40 / 60);
    await stop();
  });

  it('counts the calls of an API server from when it was first asked, and those of a new one from its start', async () => {
    const { clock, virtualClusters, services } = await world();
    virtualClusters.replace([virtualCluster('a')]);
    const told: (number | undefined)[] = [];
    const meter = new UsageMeter();
    const sample = (): void =>
      meter.sample({ ...services, onUsage: (_, used) => told.push(used?.apiCalls) }, minuteMs);
    const nowMs = clock.now();
    const [old, fresh] = [String(nowMs / 1_000 - 7_200), String(nowMs / 1_000 - 60)];
    meter.countCalls('uid-a', { startedAt: old, calls: 1_000 }, nowMs);
    sample();
    meter.countCalls('uid-a', { startedAt: old, calls: 1_030 }, nowMs);
    meter.countCalls('uid-a', { startedAt: fresh, calls: 50 }, nowMs);
    sample();
    meter.countCalls('uid-a', { startedAt: old, calls: 1_040 }, nowMs);
    sample();
    expect(told).toEqual([0, 80, 10]);
    expect(meter.isCallCountDue('uid-a', nowMs)).toBe(false);
    expect(meter.isCallCountDue('uid-a', nowMs + 10 * minuteMs)).toBe(true);
  });

  it('remembers no calls of a tenant that is gone, also where it waited for an owner all its life', async () => {
    const { clock, virtualClusters, services } = await world();
    const warm = virtualCluster('warm');
    warm.metadata.labels = { 'skerry.dev/warm': 'x' };
    virtualClusters.replace([warm]);
    const meter = new UsageMeter();
    const nowMs = clock.now();
    meter.countCalls('uid-warm', { startedAt: '1', calls: 1 }, nowMs);
    meter.sample(services, minuteMs);
    expect(meter.isCallCountDue('uid-warm', nowMs)).toBe(false);
    virtualClusters.replace([]);
    meter.sample(services, minuteMs);
    expect(meter.isCallCountDue('uid-warm', nowMs)).toBe(true);
  });
});

describe('the metrics of an API server', () => {
  it('say how many calls it has answered since it was started', () => {
    const text = [
      '# TYPE apiserver_request_total counter',
      'apiserver_request_total{verb="GET",resource="pods"} 12',
      'apiserver_request_total{verb="LIST",resource="a b"} 1.5e+02',
      'apiserver_request_total_other{x="y"} 7',
      '# HELP other',
      'apiserver_request_total{verb="WATCH"} 3',
      'process_start_time_seconds 1.7e+09',
      '',
    ].join('\n');
    expect(parseCallCount(text)).toEqual({ startedAt: '1700000000', calls: 165 });
  });

  it('are read line by line: a line without a number has none of another', () => {
    const text =
      '\nprocess_start_time_seconds 1700000000\napiserver_request_total{x\napiserver_request_total{y} 3\n';
    expect(parseCallCount(text)).toEqual({ startedAt: '1700000000', calls: 3 });
  });

  it.each([
    ['1e308', '1e308'],
    ['1e15', '9e15'],
    ['0.5', '1'],
  ])('are none where the sum of %s and %s is none of calls', (one, other) => {
    const text = (value: string): string =>
      `\nprocess_start_time_seconds 1700000000\napiserver_request_total{x} ${value}\napiserver_request_total{y} ${other}\n`;
    expect(parseCallCount(text(one))).toBeUndefined();
    expect(parseCallCount(text('7').replace(`{y} ${other}`, '{y} 1'))).toMatchObject({ calls: 8 });
  });

  it.each(['', 'x', '\nprocess_start_time_seconds nonsense\n', '{"kind":"Status"}'])(
    'are none in %j',
    (text) => expect(parseCallCount(text)).toBeUndefined(),
  );
});
