import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { Connection, KubeClient, resources } from '../kube/index.ts';
import { FakeApiServer } from '../kube/testing/index.ts';
import { parseSamples, Syncers } from './syncers.ts';

describe('the text format of Prometheus', () => {
  it('is read line by line, labels with all that they may hold', () => {
    const text = [
      '# HELP a help',
      'a{tenant="x/y",le="+Inf"} 3',
      String.raw`a{tenant="q\"uote\\d\n",le="0.1"} 1.5e-3`,
      'a 7',
      'b{tenant="x/y"} 1',
      'a{broken',
    ].join('\n');
    expect(parseSamples(text, new Set(['a']))).toEqual([
      { name: 'a', labels: { tenant: 'x/y', le: '+Inf' }, value: 3 },
      { name: 'a', labels: { tenant: 'q"uote\\d\n', le: '0.1' }, value: 0.0015 },
      { name: 'a', labels: {}, value: 7 },
    ]);
  });
});

describe('what syncers say', () => {
  const cleanups: (() => unknown)[] = [];
  afterEach(async () => {
    for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
  });

  async function world() {
    const api = await FakeApiServer.start();
    const connection = new Connection(api.connectionOptions);
    cleanups.push(
      () => api.stop(),
      () => connection.close(),
    );
    let now = 1_000_000_000;
    const syncers = new Syncers('skerry-system', () => now);
    const signal = new AbortController().signal;
    const client = new KubeClient(connection);
    return {
      api,
      syncers,
      pass: (ms: number) => {
        now += ms;
      },
      later: async (ms: number) => {
        now += ms;
        await syncers.refresh(client, signal);
        return syncers.view;
      },
    };
  }

  async function syncer(
    api: FakeApiServer,
    name: string,
  ): Promise<{ say: (text: string) => void; server: Server }> {
    let text = '';
    const server = createServer((_, response) => response.end(text));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    cleanups.push(() => {
      server.closeAllConnections();
      server.close();
    });
    const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    api.put(resources.leases, {
      metadata: {
        name,
        namespace: 'skerry-system',
        labels: { 'skerry.dev/component': 'vc-syncer' },
        annotations: { 'skerry.dev/metrics-address': address },
      },
      spec: { holderIdentity: name },
    });
    return {
      server,
      say: (said) => {
        text = said;
      },
    };
  }

  const tenant = (name: string, items: number, slow: number, service: number): string =>
    [
      `skerry_syncer_queue_wait_seconds_bucket{tenant="${name}",kind="pods",le="0.005"} ${items - slow}`,
      `skerry_syncer_queue_wait_seconds_bucket{tenant="${name}",kind="pods",le="0.5"} ${items}`,
      `skerry_syncer_queue_wait_seconds_bucket{tenant="${name}",kind="pods",le="+Inf"} ${items}`,
      `skerry_syncer_queue_wait_seconds_sum{tenant="${name}",kind="pods"} ${items * 0.002}`,
      `skerry_syncer_queue_wait_seconds_count{tenant="${name}",kind="pods"} ${items}`,
      `skerry_syncer_service_seconds_sum{tenant="${name}",kind="pods"} ${service}`,
    ].join('\n');

  it('is added up by tenant, from what was there when they were first asked', async () => {
    const { api, later } = await world();
    const [one, other] = [await syncer(api, 'syncer-0'), await syncer(api, 'syncer-1')];
    one.say(`process_start_time_seconds 1\n${tenant('a/x', 100, 0, 50)}`);
    other.say(`process_start_time_seconds 1\n${tenant('a/y', 10, 0, 1)}\nskerry_syncer_buckets 32`);
    expect((await later(0)).loads.find((load) => load.tenant === 'a/x')?.items).toBe(100);
    one.say(`process_start_time_seconds 1\n${tenant('a/x', 200, 20, 53)}`);
    other.say(
      `process_start_time_seconds 1\n${tenant('a/y', 20, 0, 2)}\nskerry_syncer_scheduling_pods{tenant="a/y",state="parked"} 4`,
    );
    const { loads, overMs } = await later(60_000);
    expect(overMs).toBe(60_000);
    const [x, y] = ['a/x', 'a/y'].map((name) => loads.find((load) => load.tenant === name));
    expect(x).toMatchObject({ items: 100, waitP95Ms: 500 });
    expect(x?.waitMeanMs).toBeCloseTo(2);
    expect(y).toMatchObject({ items: 10, waitP95Ms: 5, parked: 4 });
    expect([x?.share, y?.share]).toEqual([0.75, 0.25]);
  });

  it('counts no more than the last hour', async () => {
    const { api, later } = await world();
    const { say } = await syncer(api, 'syncer-0');
    for (const items of [100, 200, 300]) {
      say(tenant('a/x', items, 0, items));
      await later(30 * 60_000);
    }
    say(tenant('a/x', 310, 0, 310));
    const { loads, overMs } = await later(31 * 60_000);
    expect([loads[0]?.items, overMs]).toEqual([110, 3_600_000]);
  });

  it('is remembered once a minute, and the latest answer counts', async () => {
    const { api, syncers, later } = await world();
    const { say } = await syncer(api, 'syncer-0');
    for (let items = 100; items <= 160; items += 1) {
      say(tenant('a/x', items, 0, items));
      await later(10_000);
    }
    expect(syncers.view.loads[0]?.items).toBe(60);
    expect(syncers.view.overMs).toBe(600_000);
    expect(syncers.remembered('syncer-0')).toBeLessThanOrEqual(12);
  });

  it('is of all since the start of a syncer that has answered once only, however long ago', async () => {
    const { api, later } = await world();
    const { server, say } = await syncer(api, 'syncer-0');
    say(tenant('a/x', 100, 0, 100));
    await later(0);
    server.closeAllConnections();
    server.close();
    const { loads, overMs } = await later(60_000);
    expect([loads[0]?.items, overMs]).toEqual([100, 0]);
  });

  it('is asked for every ten seconds while someone looks, and else once a minute', async () => {
    const { syncers, pass, later } = await world();
    await later(0);
    const isDueAfter = (ms: number): boolean => {
      pass(ms);
      return syncers.isDue;
    };
    expect([isDueAfter(10_000), isDueAfter(49_000), isDueAfter(1_000)]).toEqual([false, false, true]);
    await later(0);
    expect([isDueAfter(9_000), syncers.look(), isDueAfter(1_000)]).toEqual([false, false, true]);
    await later(0);
    pass(30_000);
    // Nobody looks any more; whoever comes does not wait for the rest of the minute.
    expect([syncers.isDue, syncers.look()]).toEqual([false, true]);
  });

  it('begins anew with a syncer that was started anew', async () => {
    const { api, later } = await world();
    const { say } = await syncer(api, 'syncer-0');
    say(`process_start_time_seconds 1\n${tenant('a/x', 500, 0, 50)}`);
    await later(0);
    say(`process_start_time_seconds 9\n${tenant('a/x', 600, 0, 3)}`);
    expect((await later(60_000)).loads[0]?.items).toBe(600);
  });

  it('is missing, with the reason, of one that does not answer or has released its Lease', async () => {
    const { api, later } = await world();
    const { server } = await syncer(api, 'syncer-0');
    server.closeAllConnections();
    server.close();
    api.put(resources.leases, {
      metadata: {
        name: 'syncer-1',
        namespace: 'skerry-system',
        labels: { 'skerry.dev/component': 'vc-syncer' },
      },
      spec: { holderIdentity: '' },
    });
    const { syncers } = await later(0);
    expect(syncers.map(({ name, problem }) => [name, problem])).toEqual([
      ['syncer-0', expect.stringMatching(/^127\.0\.0\.1:\d+ does not answer: ECONNREFUSED$/)],
      ['syncer-1', undefined],
    ]);
  });
});
