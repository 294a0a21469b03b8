import { text } from 'node:stream/consumers';
import { setImmediate } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import { type KubeObject, parseQuantity } from '../../kube/index.ts';
import { FakeClock } from '../../kube/testing/index.ts';
import { allKinds } from '../kinds/registry.ts';
import { testContext, testTenant } from '../kinds/testing.ts';
import type { KubeletTenant } from './find-pod.ts';
import { ListResponses } from './list-responses.ts';
import { labelSelector, MetricsApi } from './metrics-api.ts';
import { Refusal } from './refusal.ts';
import { FakeResponse } from './testing/fake-response.ts';
import { KubeletWorld, type TestTenant } from './testing/kubelet-world.ts';
import type { PodUsage, UsageSource } from './usage-sources.ts';

const api = '/apis/metrics.k8s.io/v1beta1';
const takenAtMs = Date.parse('2026-01-02T03:04:05Z');

/** Figures for super pods, by UID. */
const figures: Record<string, PodUsage> = {
  'blue-super-pod': {
    takenAtMs,
    windowMs: 15_000,
    containers: [
      { name: 'main', nanoCores: 250_000_000, workingSetBytes: 64 << 20 },
      { name: 'injected', nanoCores: 9_000_000_000, workingSetBytes: 9 << 20 },
    ],
  },
  'green-super-pod': {
    takenAtMs,
    windowMs: 15_000,
    containers: [{ name: 'main', nanoCores: 1, workingSetBytes: 2048 }],
  },
};

type Read = (...parameters: Parameters<UsageSource['read']>) => Promise<Map<string, PodUsage> | undefined>;

const fromFigures: Read = async (pods) =>
  new Map(
    pods.flatMap(({ metadata }) => {
      const used = figures[metadata.uid ?? ''];
      return used === undefined ? [] : [[metadata.uid ?? '', used] as const];
    }),
  );

function apiOf(read: Read, nodes: () => KubeObject[], clock = new FakeClock()): MetricsApi {
  return new MetricsApi({ answers: new ListResponses(clock), reader: { read }, nodes, clock });
}

async function world(read: Read = fromFigures): Promise<KubeletWorld> {
  let nodes: () => KubeObject[] = () => [];
  const metricsApi = apiOf(read, () => nodes());
  const started = await KubeletWorld.start({
    metricsApi: (client, asked, response) => metricsApi.answer(client, asked, response),
  });
  nodes = () => started.blue.superObjects.filter(({ kind }) => kind === 'Node');
  return started;
}

// biome-ignore lint/suspicious/noExplicitAny: answers of an API, looked at in detail
type Json = any;

async function get(
  { ask }: { ask: (path: string) => ReturnType<KubeletWorld['ask']> },
  path: string,
): Promise<{ status: number | undefined; body: Json }> {
  const { status, body } = await ask(path);
  return { status, body: JSON.parse(body) };
}

function as(tenant: TestTenant, there: KubeletWorld, accept = 'application/json') {
  return {
    ask: (path: string) =>
      there.ask(path.startsWith('/') ? path : `${api}/${path}`, tenant.frontProxyClient, {
        headers: { accept },
      }),
  };
}

const names = ({ body }: { body: Json }): string[] =>
  body.items.map(({ metadata }: KubeObject) => metadata.name);

describe('the metrics API', () => {
  it('says what it is to those who ask', async () => {
    await using there = await world();
    const blue = as(there.blue, there);
    expect((await get(blue, '/apis')).body.groups[0].name).toBe('metrics.k8s.io');
    expect((await get(blue, '/apis/metrics.k8s.io')).body).toMatchObject({
      kind: 'APIGroup',
      preferredVersion: { groupVersion: 'metrics.k8s.io/v1beta1' },
    });
    const { body } = await get(blue, api);
    expect(body.resources.map(({ name, namespaced }: Json) => `${name} ${namespaced}`)).toEqual([
      'nodes false',
      'pods true',
    ]);
  });

  it('shows a tenant its own pods, in its own names, with its own labels and containers', async () => {
    await using there = await world();
    const { status, body } = await get(as(there.blue, there), 'namespaces/shop/pods/web-1');
    expect([status, body]).toEqual([
      200,
      {
        kind: 'PodMetrics',
        apiVersion: 'metrics.k8s.io/v1beta1',
        metadata: {
          name: 'web-1',
          namespace: 'shop',
          labels: { app: 'web' },
          creationTimestamp: '2026-01-02T03:04:05Z',
        },
        timestamp: '2026-01-02T03:04:05Z',
        window: '15s',
        containers: [{ name: 'main', usage: { cpu: '250000000n', memory: '65536Ki' } }],
      },
    ]);
    const green = await get(as(there.green, there), 'pods');
    expect(green.body.items[0].containers).toEqual([{ name: 'main', usage: { cpu: '1n', memory: '2Ki' } }]);
  });

  it('lists pods by namespace, by label and by name', async () => {
    await using there = await world();
    const blue = as(there.blue, there);
    expect(names(await get(blue, 'pods'))).toEqual(['web-1']);
    expect(names(await get(blue, 'namespaces/shop/pods?labelSelector=app%3Dweb'))).toEqual(['web-1']);
    for (const path of [
      'namespaces/other/pods',
      'pods?labelSelector=app%21%3Dweb',
      'pods?fieldSelector=metadata.name%3Dother',
      'pods?fieldSelector=metadata.namespace%3Dother',
    ]) {
      expect([path, names(await get(blue, path))]).toEqual([path, []]);
    }
  });

  it("shows of a node what the tenant's own pods use there, and nothing of others", async () => {
    await using there = await world();
    const { body } = await get(as(there.blue, there), 'nodes');
    expect(body).toMatchObject({ kind: 'NodeMetricsList' });
    expect(body.items).toMatchObject([
      { metadata: { name: 'node-1' }, usage: { cpu: '250000000n', memory: '65536Ki' } },
    ]);
    there.blue.tenantObjects.push({ apiVersion: 'v1', kind: 'Node', metadata: { name: 'node-2' } });
    expect((await get(as(there.blue, there), 'nodes/node-2')).body.usage).toEqual({ cpu: '0', memory: '0' });
  });

  it('asks only for pods that are marked as made from the tenant’s', async () => {
    const asked: string[] = [];
    await using there = await world(async (pods, uid) => {
      asked.push(`${uid} ${pods.map(({ metadata }) => metadata.uid)}`);
      return new Map();
    });
    await get(as(there.blue, there), 'pods');
    const [superPod] = there.blue.superObjects;
    if (superPod !== undefined) superPod.metadata.annotations = { 'skerry.dev/uid': 'of-another' };
    await get(as(there.blue, there), 'pods');
    expect(asked).toEqual([`${there.blue.info.uid} blue-super-pod`, `${there.blue.info.uid} `]);
  });

  it('prints a table for kubectl get', async () => {
    await using there = await world();
    const accept = 'application/json;as=Table;v=v1;g=meta.k8s.io,application/json';
    const { body } = await get(as(there.blue, there, accept), 'pods');
    expect(body.kind).toBe('Table');
    expect(body.rows[0].cells).toEqual(['web-1', '250000000n', '65536Ki', '15s']);
  });

  it('refuses in the form that clients understand', async () => {
    await using there = await world();
    const blue = as(there.blue, there);
    const refusal = async (path: string) => (await get(blue, path)).body;
    expect(await refusal('namespaces/shop/pods/other')).toMatchObject({
      kind: 'Status',
      code: 404,
      reason: 'NotFound',
      message: 'podmetrics.metrics.k8s.io "shop/other" not found',
    });
    expect(await refusal('pods?labelSelector=a%20b')).toMatchObject({ code: 400, reason: 'BadRequest' });
    expect(await refusal('pods?fieldSelector=spec.nodeName%3Dx')).toMatchObject({ code: 400 });
    expect(await refusal('pods?watch=true')).toMatchObject({ code: 405 });
    for (const path of [
      '',
      'deployments',
      'pods/web-1',
      'namespaces/shop/nodes',
      '/openapi/v2',
      'pods/%E0%A4%A',
    ])
      expect([path, (await refusal(path)).code]).toEqual([path, path === '' ? undefined : 404]);
    const posted = await there.ask(`${api}/pods`, there.blue.frontProxyClient, { method: 'POST' });
    expect(posted.status).toBe(405);
  });

  it('is not there for who comes as to a kubelet, nor for nobody', async () => {
    await using there = await world();
    for (const pair of [there.blue.kubeletClient, undefined])
      expect(await there.ask(`${api}/pods`, pair)).toMatchObject({ status: 401 });
  });

  it('says with a 503 that there are no figures, or that they cannot be read now', async () => {
    await using nothing = await world(async () => undefined);
    expect((await get(as(nothing.blue, nothing), 'pods')).body).toMatchObject({
      code: 503,
      reason: 'ServiceUnavailable',
      message: expect.stringContaining('there are no metrics'),
    });
    await using failing = await world(() => Promise.reject(new Error('secret details')));
    const { body } = await get(as(failing.blue, failing), 'nodes');
    expect(body).toMatchObject({ code: 503, message: expect.not.stringContaining('secret') });
    failing.blue.isComplete = false;
    expect((await get(as(failing.blue, failing), 'pods')).body).toMatchObject({
      code: 503,
      message: expect.stringContaining('not known yet'),
    });
  });
});

const web = { metadata: { labels: { app: 'web', 'example.com/tier': 'front', size: '5', empty: '' } } };

describe('a label selector', () => {
  it.each([
    ['', true],
    ['app=web', true],
    ['app==web,size=5', true],
    ['app=db', false],
    ['app!=db', true],
    ['app != web', false],
    ['other!=x', true],
    ['app in (db, web)', true],
    ['app in (db)', false],
    ['app notin (db)', true],
    ['other notin (db)', true],
    ['app in (db,web),example.com/tier=front', true],
    ['example.com/tier', true],
    ['!example.com/tier', false],
    ['!constructor', true],
    ['other', false],
    ['empty=', true],
    ['size>4', true],
    ['size > 5', false],
    ['size<6', true],
    ['app>1', false],
  ])('%s: %s', (text, matches) => {
    expect(labelSelector(text)(web)).toBe(matches);
  });

  it.each(['a b', 'a in b', '=x', 'a=b=c', 'a in (', '(a)'])('%s is none', (text) => {
    expect(() => labelSelector(text)).toThrow(Refusal);
  });
});

describe('a selector of a hostile tenant', () => {
  it('is refused when it is too long, before it is taken apart', () => {
    expect(labelSelector(`app=web${','.repeat(8_000)}`)(web)).toBe(true);
    expect(() => labelSelector(`app=web${','.repeat(60_000)}`)).toThrow(/at most 8192/);
  });

  it('is refused when it has too many requirements', () => {
    const requirements = (count: number): string => Array.from({ length: count }, () => 'app=web').join(',');
    expect(labelSelector(requirements(100))(web)).toBe(true);
    expect(() => labelSelector(requirements(101))).toThrow(/at most 100/);
  });

  it('is one requirement as far as a parenthesis that is never closed', () => {
    expect(() => labelSelector('app in (web,app=web')).toThrow(Refusal);
  });
});

describe('a quantity', () => {
  it.each([
    ['0', 0],
    ['250m', 0.25],
    ['1234567n', 0.001234567],
    ['12u', 0.000012],
    ['2', 2],
    ['1.5', 1.5],
    ['64Ki', 65_536],
    ['1Gi', 2 ** 30],
    ['3k', 3000],
    ['1e3', 1000],
    ['2E', 2e18],
  ])('%s is %d', (text, value) => {
    expect(parseQuantity(text)).toBeCloseTo(value, 12);
  });

  it.each(['', 'x', '1x', '1.2.3', 'Ki', undefined])('%s is none', (text) => {
    expect(parseQuantity(text)).toBeUndefined();
  });
});

/** Without a server: what the API answers this tenant. */
async function answerOf(
  metricsApi: MetricsApi,
  tenant: KubeletTenant,
  path: string,
): Promise<{ code: number; body: Json }> {
  const url = new URL(path, 'http://x/apis/metrics.k8s.io/v1beta1/');
  const response = new FakeResponse();
  const body = text(response);
  const request = { path: url.pathname, query: url.searchParams, method: 'GET', accept: '' };
  await metricsApi.answer({ uid: 'u', tenant }, request, response as never);
  return { code: response.statusCode, body: JSON.parse(await body) };
}

/** A tenant with so many pods, each on a node of its own, that run, and others of which only its API server speaks. */
function crowd(count: number, idle = 0) {
  const looks = { spec: 0, labels: 0 };
  const range = (length: number) => Array.from({ length }, (_, at) => at);
  const podNamed = (name: string): KubeObject => ({
    kind: 'Pod',
    metadata: {
      name,
      namespace: 'shop',
      uid: name,
      get labels() {
        looks.labels += 1;
        return { app: 'web' };
      },
    },
    get spec() {
      looks.spec += 1;
      return { nodeName: `n-${name}`, containers: [] };
    },
  });
  const nodes = range(count).map((at) => ({ kind: 'Node', metadata: { name: `n-p${at}` } }));
  const pods = range(count).map((at) => podNamed(`p${at}`));
  const others = range(idle).map((at) => podNamed(`idle${at}`));
  const { uid } = testTenant();
  const superPods = range(count).map((at) => ({
    kind: 'Pod',
    metadata: {
      name: `p${at}`,
      namespace: 'shop',
      uid: `super-p${at}`,
      labels: { [labelKeys.tenant]: uid, [labelKeys.namespace]: 'shop' },
      annotations: { [annotationKeys.uid]: `p${at}` },
    },
  }));
  const context = testContext({
    tenantObjects: [...others, ...pods, ...nodes],
    superObjects: [...superPods, ...nodes],
    kinds: allKinds,
  });
  const tenant: KubeletTenant = {
    isComplete: true,
    context: () => context,
    superNamespace: (namespace) => namespace,
  };
  return { tenant, looks, nodes: () => nodes };
}

const used: Read = async (pods) =>
  new Map(pods.map(({ metadata }) => [metadata.uid ?? '', { takenAtMs, windowMs: 1, containers: [] }]));

describe('many nodes and many pods', () => {
  it('are put together without looking at every pod for every node', async () => {
    const count = 300;
    const { tenant, looks, nodes } = crowd(count);
    const metricsApi = apiOf(used, nodes);
    const { body } = await answerOf(metricsApi, tenant, 'nodes');
    expect(body.items).toHaveLength(count);
    expect(looks.spec).toBeLessThan(10 * count);
  });

  it('are not looked at where none of them runs, however many the API server of a tenant says that there are', async () => {
    const { tenant, looks, nodes } = crowd(2, 500);
    const metricsApi = apiOf(used, nodes);
    const found = await answerOf(metricsApi, tenant, 'pods?labelSelector=!a,!b');
    expect(names(found)).toEqual(['p0', 'p1']);
    expect(looks.labels).toBeLessThan(20);
    expect((await answerOf(metricsApi, tenant, 'namespaces/shop/pods/p1')).body.metadata.name).toBe('p1');
    expect((await answerOf(metricsApi, tenant, 'namespaces/shop/pods/idle1')).code).toBe(404);
  });

  it('give way to everything else', async () => {
    const { tenant, nodes } = crowd(50);
    let nowMs = 0;
    const clock = Object.assign(new FakeClock(), { monotonic: () => (nowMs += 10) });
    const metricsApi = apiOf(used, nodes, clock);
    let turns = 0;
    let isOver = false;
    const asked = answerOf(metricsApi, tenant, 'pods').finally(() => (isOver = true));
    for (; !isOver; turns++) await setImmediate();
    expect((await asked).body.items).toHaveLength(50);
    expect(turns).toBeGreaterThan(50);
  });

  it('are asked for by a tenant once at a time, and others of it wait, up to a limit', async () => {
    const reading: string[] = [];
    const begun = Promise.withResolvers<void>();
    const gate = Promise.withResolvers<void>();
    const read: Read = async (pods, uid) => {
      reading.push(uid);
      if (uid === testTenant().uid) {
        begun.resolve();
        await gate.promise;
      }
      return used(pods, uid, new AbortController().signal);
    };
    const { tenant, nodes } = crowd(2);
    await using there = await world();
    const metricsApi = apiOf(read, nodes);
    const asked = Array.from({ length: 101 }, () => answerOf(metricsApi, tenant, 'pods'));
    expect(await answerOf(metricsApi, tenant, 'pods')).toMatchObject({
      code: 429,
      body: { reason: 'TooManyRequests', message: expect.stringContaining('100 requests of this cluster') },
    });
    expect(names(await answerOf(metricsApi, there.green, 'pods'))).toEqual(['web-1']);
    await begun.promise;
    expect(reading.toSorted()).toEqual([testTenant().uid, there.green.info.uid]);
    gate.resolve();
    for (const { code, body } of await Promise.all(asked))
      expect([code, body.items.length]).toEqual([200, 2]);
  });
});
