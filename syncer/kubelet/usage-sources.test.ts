import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { Connection, KubeClient, type KubeObject, resources } from '../../kube/index.ts';
import { FakeClock } from '../../kube/testing/index.ts';
import { testContext } from '../kinds/testing.ts';
import { UsageReader } from './usage-sources.ts';

const { signal } = new AbortController();
const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

const node = (name: string, labels = {}): KubeObject => ({
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name, labels },
});
const pod = (name: string, nodeName: string, namespace = 'super-shop'): KubeObject => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name, namespace, uid: `uid-${name}` },
  spec: { nodeName },
});

/** In place of an answer: there is none. */
const silence = Symbol('silence');

/** A super cluster that answers these paths; promises are waited for. */
async function reader(answers: Record<string, unknown>, nodes: KubeObject[], clock = new FakeClock()) {
  const asked: string[] = [];
  const respond = async (url: string, response: ServerResponse): Promise<void> => {
    asked.push(url);
    const answer = await answers[url.split('?')[0] ?? ''];
    if (answer === silence) return;
    response.writeHead(answer === undefined ? 404 : 200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(answer ?? { kind: 'Status', code: 404, reason: 'NotFound' }));
  };
  const server: Server = createServer(
    { keepAliveTimeout: 60_000 },
    ({ url = '' }, response) => void respond(url, response),
  );
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const connection = new Connection({ server: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
  closing.push(async () => {
    await connection.close();
    server.closeAllConnections();
    server.close();
  });
  /** Resolves when it is asked for so many such paths. */
  const untilAsked = async (path: string, count: number): Promise<void> => {
    while (asked.filter((url) => url.startsWith(path)).length < count) await once(server, 'request');
  };
  const { superObjects } = testContext({ superObjects: nodes });
  const superClient = new KubeClient(connection);
  const usage = new UsageReader({ superClient, nodes: () => nodes, superObjects, clock });
  return { asked, untilAsked, clock, superClient, usage };
}

function summary(...pods: string[]): object {
  return {
    node: { nodeName: 'n1', cpu: { usageNanoCores: 99 } },
    pods: pods.map((name, index) => ({
      podRef: { name, namespace: 'super-shop', uid: `uid-${name}` },
      containers: [
        {
          name: 'main',
          cpu: { time: '2026-01-02T03:04:05Z', usageNanoCores: 1000 + index },
          memory: { time: '2026-01-02T03:04:05Z', workingSetBytes: 4096 },
        },
        { name: 'just-started', memory: { workingSetBytes: 1 } },
      ],
    })),
  };
}

const summaryOf = (name: string): string => `/api/v1/nodes/${name}/proxy/stats/summary`;

describe('figures', () => {
  it('come from the metrics API of the super cluster, of what bears the tenant’s label', async () => {
    const item = (name: string, namespace: string): object => ({
      metadata: { name, namespace },
      timestamp: '2026-01-02T03:04:05Z',
      window: '1m0.5s',
      containers: [{ name: 'main', usage: { cpu: '250m', memory: '64Mi' } }],
    });
    const api = '/apis/metrics.k8s.io/v1beta1';
    const { usage, asked } = await reader(
      {
        [api]: {},
        [`${api}/namespaces/super-shop/pods`]: {
          items: [item('a', 'super-shop'), item('of-others', 'super-shop')],
        },
        [`${api}/pods`]: { items: [item('a', 'super-shop'), item('a', 'elsewhere')] },
      },
      [node('n1')],
    );
    const found = await usage.read([pod('a', 'n1')], 'tenant-uid', signal);
    expect([...(found ?? [])]).toEqual([
      [
        'uid-a',
        {
          takenAtMs: Date.parse('2026-01-02T03:04:05Z'),
          windowMs: 60_500,
          containers: [{ name: 'main', nanoCores: 250_000_000, workingSetBytes: 64 << 20 }],
        },
      ],
    ]);
    expect(asked.at(-1)).toBe(
      `${api}/namespaces/super-shop/pods?labelSelector=skerry.dev%2Ftenant%3Dtenant-uid`,
    );
    const both = await usage.read([pod('a', 'n1'), pod('b', 'n1', 'super-b')], 'tenant-uid', signal);
    expect([...(both ?? new Map()).keys()]).toEqual(['uid-a']);
    expect(asked.at(-1)).toBe(`${api}/pods?labelSelector=skerry.dev%2Ftenant%3Dtenant-uid`);
  });

  it('come from the kubelets where there is no such API, each asked once for all who ask', async () => {
    const { usage, asked } = await reader({ [summaryOf('n1')]: summary('a', 'of-others') }, [node('n1')]);
    const both = await Promise.all([
      usage.read([pod('a', 'n1')], 'one', signal),
      usage.read([pod('b', 'n1')], 'two', signal),
    ]);
    expect(both.map((found) => [...(found ?? new Map()).keys()])).toEqual([['uid-a'], []]);
    expect(both[0]?.get('uid-a')?.containers).toEqual([
      { name: 'main', nanoCores: 1000, workingSetBytes: 4096 },
    ]);
    expect(asked.filter((url) => url.startsWith(summaryOf('n1')))).toEqual([
      `${summaryOf('n1')}?only_cpu_and_memory=true`,
    ]);
  });

  it.each([
    [1, 3],
    [4_000, 13],
  ])(
    'come from the kubelets where that API shows labels of megabytes with them: %i pods, %i MiB',
    async (count, mebibytes) => {
      const api = '/apis/metrics.k8s.io/v1beta1';
      const metadata = { name: 'a', namespace: 'super-shop', labels: { large: 'x'.repeat(mebibytes << 20) } };
      const { usage } = await reader(
        {
          [api]: {},
          [`${api}/namespaces/super-shop/pods`]: {
            items: [{ metadata, containers: [{ name: 'main', usage: { cpu: '250m', memory: '64Mi' } }] }],
          },
          [summaryOf('n1')]: summary('a'),
        },
        [node('n1')],
      );
      const pods = Array.from({ length: count }, (_, n) => pod(n === 0 ? 'a' : `b-${n}`, 'n1'));
      const found = await usage.read(pods, 'tenant-uid', signal);
      expect(found?.get('uid-a')?.containers).toEqual([
        { name: 'main', nanoCores: 1000, workingSetBytes: 4096 },
      ]);
    },
  );

  it('are taken anew after a while', async () => {
    const { usage, asked, clock } = await reader({ [summaryOf('n1')]: summary('a') }, [node('n1')]);
    for (const waitMs of [0, 4_000, 2_000]) {
      await clock.advance(waitMs);
      await usage.read([pod('a', 'n1')], 'one', signal);
    }
    expect(asked.filter((url) => url.startsWith(summaryOf('n1')))).toHaveLength(2);
  });

  it('of a node that refuses are asked for again after a while', async () => {
    const { asked, usage, clock } = await reader({}, [node('n1')]);
    for (const waitMs of [0, 4_000, 2_000]) {
      await clock.advance(waitMs);
      await expect(usage.read([pod('a', 'n1')], 'one', signal)).rejects.toThrow();
    }
    expect(asked.filter((url) => url.startsWith(summaryOf('n1')))).toHaveLength(2);
  });

  it('of a node that does not answer are not asked for by each who comes', async () => {
    const clock = new FakeClock();
    const late = Promise.withResolvers<undefined>();
    const { asked, untilAsked, usage } = await reader(
      { [summaryOf('n1')]: summary('a'), [summaryOf('n2')]: late.promise },
      [node('n1'), node('n2')],
      clock,
    );
    const read = () => usage.read([pod('a', 'n1'), pod('c', 'n2')], 'tenant', signal);
    const ofDown = () => asked.filter((url) => url.startsWith(summaryOf('n2'))).length;
    const reading = read();
    await untilAsked(summaryOf('n2'), 1);
    await clock.advance(6_000);
    late.resolve(undefined);
    for (const each of [reading, read(), read()])
      expect([...((await each) ?? new Map()).keys()]).toEqual(['uid-a']);
    expect(ofDown()).toBe(1);
    await clock.advance(59_000);
    await read();
    expect(ofDown()).toBe(1);
    await clock.advance(1_000);
    await read();
    expect(ofDown()).toBe(2);
  });

  it('of many nodes that say nothing are asked for at a few at once, and keep nothing else waiting', async () => {
    const names = Array.from({ length: 40 }, (_, index) => `n${index}`);
    const map = { metadata: { name: 'of-others', namespace: 'super-shop' } };
    const { asked, untilAsked, superClient, usage } = await reader(
      {
        ...Object.fromEntries(names.map((name) => [summaryOf(name), silence])),
        '/api/v1/namespaces/super-shop/configmaps/of-others': map,
      },
      names.map((name) => node(name)),
    );
    const pods = names.map((name) => pod(`of-${name}`, name));
    const reading = usage.read(pods, 'tenant', signal).catch((error: unknown) => error);
    await untilAsked('/api/v1/nodes/', 16);
    expect(await superClient.get(resources.configMaps, map.metadata)).toMatchObject(map);
    expect(asked.filter((url) => url.startsWith('/api/v1/nodes/'))).toHaveLength(16);
    for (const close of closing.splice(0)) await close();
    expect(await reading).toBeInstanceOf(Error);
  });

  it('are not waited for by who has gone', async () => {
    const late = Promise.withResolvers<object>();
    const { untilAsked, usage } = await reader({ [summaryOf('n1')]: late.promise }, [node('n1')]);
    let hasEnded = false;
    const patient = usage.read([pod('a', 'n1')], 'tenant', signal).finally(() => {
      hasEnded = true;
    });
    const ending = new AbortController();
    const reading = usage.read([pod('a', 'n1')], 'tenant', ending.signal);
    await untilAsked(summaryOf('n1'), 1);
    ending.abort(new Error('gone'));
    await expect(reading).rejects.toThrow('gone');
    expect(hasEnded).toBe(false);
    late.resolve(summary('a'));
    expect([...((await patient) ?? new Map()).keys()]).toEqual(['uid-a']);
  });

  it('of one node that is down are left out, of all are an error', async () => {
    const { usage } = await reader({ [summaryOf('n1')]: summary('a') }, [node('n1'), node('n2')]);
    const found = await usage.read([pod('a', 'n1'), pod('b', 'n2')], 'one', signal);
    expect([...(found ?? new Map()).keys()]).toEqual(['uid-a']);
    await expect(usage.read([pod('b', 'n2')], 'one', signal)).rejects.toThrow();
  });

  it('are simulated for running pods on simulated nodes, which no kubelet is asked about', async () => {
    const simulated = node('n1', { 'skerry.dev/simulated': 'true' });
    const { usage, asked } = await reader({ [summaryOf('n2')]: summary('real') }, [simulated, node('n2')]);
    expect(await usage.hasSource(signal)).toBe(true);
    const running = (name: string, containers: object[], annotations = {}): KubeObject => {
      const made = pod(name, 'n1');
      return {
        ...made,
        metadata: { ...made.metadata, annotations },
        spec: { nodeName: 'n1', containers },
        status: { phase: 'Running' },
      };
    };
    const requests = { cpu: '200m', memory: '64Mi' };
    const found = await usage.read(
      [
        running('half', [{ name: 'a', resources: { requests } }, { name: 'b' }]),
        running('said', [{ name: 'a' }, { name: 'b' }], {
          'simulation.skerry.dev/cpu': '300m',
          'simulation.skerry.dev/memory': '-1',
        }),
        { ...running('pending', [{ name: 'a' }]), status: { phase: 'Pending' } },
        pod('real', 'n2'),
      ],
      'one',
      signal,
    );
    const used = (uid: string) =>
      found?.get(uid)?.containers.map(({ nanoCores, workingSetBytes }) => [nanoCores, workingSetBytes]);
    expect([...(found ?? new Map()).keys()].toSorted()).toEqual(['uid-half', 'uid-real', 'uid-said']);
    expect(used('uid-half')).toEqual([
      [1e8, 2 ** 25],
      [1e7, 2 ** 25],
    ]);
    expect(used('uid-said')).toEqual([
      [1.5e8, 2 ** 25],
      [1.5e8, 2 ** 25],
    ]);
    expect(asked.some((url) => url.startsWith(summaryOf('n1')))).toBe(false);
  });

  it('cannot be had without nodes and without that API', async () => {
    const { usage } = await reader({}, []);
    expect(await usage.hasSource(signal)).toBe(false);
    expect(await usage.read([pod('a', 'n1')], 'one', signal)).toBeUndefined();
  });
});
