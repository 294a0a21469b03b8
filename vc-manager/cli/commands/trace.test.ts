import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import type { PodList, PodReport } from '../../../api/pod-report.ts';
import { type KubeObject, renderKubeconfig, resources } from '../../../kube/index.ts';
import { freePort } from '../../../kube/testing/free-port.ts';
import {
  createTestCertificates,
  FakeApiServer,
  sharedTestCertificates,
} from '../../../kube/testing/index.ts';
import { runCaptured } from '../testing/captured.ts';
import { formatMs, reportFromObjects, waterfall } from './trace.ts';

describe('trace', () => {
  let server: FakeApiServer;
  let home: string;
  const syncers: Server[] = [];
  const tenants: FakeApiServer[] = [];

  beforeEach(async () => {
    server = await FakeApiServer.start();
    home = await mkdtemp(join(tmpdir(), 'skerry-trace-'));
    const kubeconfig = {
      'current-context': 'c',
      clusters: [{ name: 'c', cluster: { server: server.url } }],
      users: [{ name: 'u', user: {} }],
      contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
    };
    await writeFile(join(home, 'super.kubeconfig'), stringify(kubeconfig));
  });

  afterEach(async () => {
    for (const syncer of syncers.splice(0)) {
      syncer.closeAllConnections();
      await new Promise((resolve) => syncer.close(resolve));
    }
    for (const tenant of tenants.splice(0)) await tenant.stop();
    await server.stop();
    await rm(home, { recursive: true, force: true });
  });

  function run(...args: string[]): ReturnType<typeof runCaptured> {
    return runCaptured([...args, '--kubeconfig', join(home, 'super.kubeconfig')], { HOME: home });
  }

  function putTenant(name: string, namespace = 'default'): void {
    server.put(resources.virtualClusters, { metadata: { name, namespace, uid: `uid-${name}` }, spec: {} });
  }

  /** A syncer that answers every question like this, and what it was asked. */
  async function putSyncer(
    name: string,
    answer: (query: Record<string, string>) => [number, object],
  ): Promise<Record<string, string>[]> {
    const asked: Record<string, string>[] = [];
    const syncer = createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
      const { pathname, searchParams } = new URL(request.url ?? '', 'http://syncer');
      const query = Object.fromEntries(searchParams);
      asked.push({ path: pathname, ...query });
      const [status, body] = answer(query);
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(JSON.stringify(body));
    });
    syncers.push(syncer);
    await new Promise<void>((resolve) => syncer.listen(0, '127.0.0.1', resolve));
    putLease(name, `http://127.0.0.1:${(syncer.address() as AddressInfo).port}`);
    return asked;
  }

  function putLease(name: string, address: string, holderIdentity = `${name}_x`): void {
    const metadata = {
      name: `vc-syncer-${name}`,
      namespace: 'skerry-system',
      labels: { 'skerry.dev/component': 'vc-syncer' },
      annotations: { 'skerry.dev/metrics-address': address },
    };
    server.put(resources.leases, { metadata, spec: { holderIdentity } } as KubeObject);
  }

  /** A Lease with an address at which nobody listens. */
  async function putSilent(name: string): Promise<void> {
    putLease(name, `http://127.0.0.1:${await freePort()}`);
  }

  const report: PodReport = {
    tenant: 'default/blue',
    namespace: 'shop',
    name: 'web',
    uid: 'u',
    node: 'n1',
    seenAt: '2030-01-01T00:00:00.120Z',
    state: 'ready',
    totalMs: 40,
    shares: { skerry: 10, scheduler: 10, kubelet: 20 },
    steps: [{ name: 'seen', atMs: 0 }],
    spans: [{ name: 'schedule', whose: 'scheduler', atMs: 10, tookMs: 10 }],
  };
  const list: PodList = {
    tenant: 'default/blue',
    known: 2,
    ready: 1,
    total: { p50Ms: 40, p99Ms: 40 },
    spans: [{ name: 'schedule', whose: 'scheduler', pods: 1, p50Ms: 10, p99Ms: 10 }],
    pods: [
      {
        ...report,
        name: 'slow',
        state: 'pending',
        totalMs: 2_500,
        spans: [],
        waitsFor: { name: 'start', whose: 'kubelet', sinceMs: 2_400 },
      },
      report,
    ],
  };
  const unknownTenant: [number, object] = [404, { reason: 'UnknownTenant', message: 'not mine' }];
  const unknownPod: [number, object] = [404, { reason: 'UnknownPod', message: 'too long ago' }];

  it('does not wake a tenant to ask for a pod', async () => {
    const of = { metadata: { name: 'blue', namespace: 'default', uid: 'u' }, spec: {} };
    server.put(resources.virtualClusters, { ...of, status: { phase: 'Asleep' } } as KubeObject);
    await putSyncer('one', () => unknownPod);
    const { exitCode, stderr } = await run('trace', 'web', '-n', 'shop', '-t', 'blue');
    expect(exitCode).not.toBe(0);
    expect(stderr).toContain('blue is asleep: "vc-manager wake blue -n default"');
  });

  /** A tenant with an API server that can be asked, and its pod `web`, scheduled after 2 s and ready after 4. */
  async function putLivingTenant(): Promise<FakeApiServer> {
    const certificates = await createTestCertificates();
    const tenant = await FakeApiServer.start({ certificates });
    tenants.push(tenant);
    putTenant('blue');
    const { ca, client } = certificates;
    const text = renderKubeconfig({ clusterName: 'blue', server: tenant.url, ca, user: 'admin', ...client });
    server.put(resources.secrets, {
      metadata: { namespace: 'default', name: 'blue-kubeconfig' },
      data: { kubeconfig: Buffer.from(text).toString('base64') },
    });
    const pod = tenant.put(resources.pods, { metadata: { namespace: 'shop', name: 'web', uid: 't' } });
    const secondsLater = (seconds: number): string =>
      new Date(Date.parse(pod.metadata.creationTimestamp ?? '') + seconds * 1_000).toISOString();
    const status = {
      phase: 'Running',
      conditions: [
        { type: 'PodScheduled', status: 'True', lastTransitionTime: secondsLater(2) },
        { type: 'Ready', status: 'True', lastTransitionTime: secondsLater(4) },
      ],
    };
    tenant.put(resources.pods, { ...pod, status });
    server.put(resources.pods, {
      metadata: {
        namespace: 'default-blue-shop',
        name: 'web',
        labels: { 'skerry.dev/tenant': 'uid-blue', 'skerry.dev/namespace': 'shop' },
        annotations: { 'skerry.dev/uid': 't' },
      },
      spec: { nodeName: 'n1' },
      status,
    });
    return tenant;
  }

  describe('trace', () => {
    it('asks all syncers, and shows the way of the pod as the one that knows it tells', async () => {
      putTenant('blue');
      await putSyncer('a', () => unknownTenant);
      const asked = await putSyncer('b', () => [200, report]);
      const { exitCode, stdout, stderr } = await run('trace', 'web', '-n', 'shop', '-t', 'blue');
      expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
      expect(stdout).toMatch(/^Pod: +shop\/web$/m);
      expect(stdout).toMatch(
        /^Shares: +Skerry 10\.0 ms \(25 %\), scheduler 10\.0 ms \(25 %\), kubelet 20\.0 ms/m,
      );
      expect(stdout).toMatch(/^schedule +scheduler +10\.0 ms +10\.0 ms +█{8} +the scheduler finds a node$/m);
      expect(asked).toEqual([
        { path: '/debug/pods', tenant: 'default/blue', namespace: 'shop', name: 'web' },
      ]);
    });

    it('prints JSON for programs, and says who told', async () => {
      putTenant('blue');
      await putSyncer('a', () => [200, report]);
      const { stdout } = await run('trace', 'web', '-n', 'shop', '-o', 'json');
      expect(JSON.parse(stdout)).toEqual({ source: 'syncer', syncer: 'vc-syncer-a', ...report });
    });

    it('takes the only tenant there is, and asks for a name where there are more', async () => {
      expect(await run('trace', 'web')).toMatchObject({
        exitCode: 3,
        stderr: expect.stringContaining('create'),
      });
      putTenant('blue', 'teams');
      const asked = await putSyncer('a', () => [200, report]);
      await run('trace', 'web');
      expect(asked).toMatchObject([{ tenant: 'teams/blue', namespace: 'default' }]);
      putTenant('green');
      const { exitCode, stderr } = await run('trace', 'web');
      expect({ exitCode, stderr }).toEqual({
        exitCode: 2,
        stderr: expect.stringMatching(/there are 2 tenants \(.*teams\/blue.*\): add -t NAME/),
      });
      await run('trace', 'web', '-t', 'teams/blue');
      expect(asked).toHaveLength(2);
    });

    it('lists the slowest pods, with what they wait for, and what is usual', async () => {
      putTenant('blue');
      const asked = await putSyncer('a', () => [200, list]);
      const { stdout, exitCode } = await run('trace', '-t', 'blue');
      expect(exitCode).toBe(0);
      expect(stdout.split('\n')).toEqual([
        'NAMESPACE   POD    READY IN           SKERRY    SCHEDULER   KUBELET   LONGEST STEP',
        'shop        slow   not yet (2.50 s)   10.0 ms   10.0 ms     20.0 ms   start 2.40 s',
        'shop        web    40.0 ms            10.0 ms   10.0 ms     20.0 ms   schedule 10.0 ms',
        '',
        'STEP       WHOSE       PODS   MEDIAN    99TH PERCENTILE',
        'schedule   scheduler   1      10.0 ms   10.0 ms',
        'all                    1      40.0 ms   40.0 ms',
        '',
      ]);
      await run('trace', '-t', 'blue', '--slowest', '50', '-n', 'shop');
      expect(asked).toEqual([
        { path: '/debug/pods', tenant: 'default/blue', slowest: '10' },
        { path: '/debug/pods', tenant: 'default/blue', slowest: '50', namespace: 'shop' },
      ]);
      expect(JSON.parse((await run('trace', '--slowest', '-o', 'json')).stdout)).toEqual(list);
    });

    it('says so when no pod has come since the syncer took the tenant up', async () => {
      putTenant('blue');
      await putSyncer('a', () => [200, { ...list, known: 0, ready: 0, spans: [], pods: [] }]);
      expect(await run('trace', '-n', 'shop')).toEqual({
        exitCode: 0,
        stdout: '',
        stderr: expect.stringMatching(
          /^No pod of default\/blue in namespace shop has come since the syncer took the tenant up, .*: name it\.\n$/,
        ),
      });
    });

    it('falls back to what the objects say, and says so plainly', async () => {
      await putLivingTenant();
      await putSyncer('a', () => unknownPod);
      const { exitCode, stdout, stderr } = await run('trace', 'web', '-n', 'shop');
      expect(exitCode).toBe(0);
      expect(stderr).toMatch(/vc-syncer-a does not remember this pod.*in whole seconds/);
      expect(stdout).toMatch(/^Ready in: +4 s$/m);
      expect(stdout).toMatch(/^Shares: .*, kubelet 2 s \(50 %\)$/m);
      expect(stdout).toMatch(/^start +kubelet +2 s +2 s /m);
      const { stdout: text } = await run('trace', 'web', '-n', 'shop', '-o', 'json');
      expect(JSON.parse(text)).toMatchObject({ source: 'objects', uid: 't', node: 'n1', totalMs: 4_000 });
    });

    it('does not take the super pod of an earlier pod for its own', async () => {
      const tenant = await putLivingTenant();
      tenant.put(resources.pods, {
        metadata: { namespace: 'shop', name: 'again', uid: 't2' },
      });
      const superPod = server.list(resources.pods)[0] as KubeObject;
      server.put(resources.pods, {
        ...superPod,
        metadata: { ...superPod.metadata, name: 'again', uid: 's2' },
      });
      const { stdout } = await run('trace', 'again', '-n', 'shop', '-o', 'json');
      expect(JSON.parse(stdout)).toMatchObject({ state: 'pending', waitsFor: { name: 'create' }, spans: [] });
    });

    it('names the namespace that has a pod of that name', async () => {
      await putLivingTenant();
      expect(await run('trace', 'web')).toEqual({
        exitCode: 3,
        stdout: '',
        stderr: expect.stringContaining('there is one in namespace shop: add -n shop'),
      });
      expect((await run('trace', 'nothing', '-n', 'shop')).stderr).toContain('vc-manager trace -t blue');
    });

    describe('of a tenant whose API server has no such pod, and pages of pods without end', () => {
      async function putLyingTenant(namespace: string, bytes: number): Promise<URLSearchParams[]> {
        const { ca, client, server: certificate } = await sharedTestCertificates();
        const lists: URLSearchParams[] = [];
        const lying = createHttpsServer(certificate, (request, response) => {
          const { pathname, searchParams } = new URL(request.url ?? '', 'https://tenant');
          if (!pathname.endsWith('/pods')) return response.writeHead(404).end('{"kind":"Status","code":404}');
          lists.push(searchParams);
          const metadata = { name: 'web', namespace, annotations: { a: 'x'.repeat(bytes) } };
          // Ends at last where nobody ends it.
          const token = lists.length < 50 ? { continue: 'more' } : {};
          return response.end(JSON.stringify({ metadata: token, items: [{ metadata }] }));
        }).listen(0, '127.0.0.1');
        syncers.push(lying);
        await once(lying, 'listening');
        const { port } = lying.address() as AddressInfo;
        putTenant('blue');
        const of = { clusterName: 'blue', server: `https://127.0.0.1:${port}`, ca, user: 'admin', ...client };
        server.put(resources.secrets, {
          metadata: { namespace: 'default', name: 'blue-kubeconfig' },
          data: { kubeconfig: Buffer.from(renderKubeconfig(of)).toString('base64') },
        });
        return lists;
      }

      it('asks for one page of few pods, and writes nothing of it that a terminal would act on', async () => {
        const lists = await putLyingTenant('shop\u001b[2J', 10);
        const { stderr, exitCode } = await run('trace', 'web');
        expect({ exitCode, stderr }).toEqual({
          exitCode: 3,
          stderr: expect.stringContaining('one in namespace shop?[2J: add'),
        });
        expect(lists.map((list) => list.get('limit'))).toEqual(['5']);
      });

      it('reads no more of a page than its limit', async () => {
        await putLyingTenant('shop', 5 << 20);
        const { stderr, exitCode } = await run('trace', 'web');
        expect(stderr).toContain('does not answer (ERR_ANSWER_TOO_LARGE)');
        expect(exitCode).toBe(5);
      });
    });

    it.each([
      [
        'no syncer has a Lease',
        () => undefined,
        /no syncer has a Lease in namespace skerry-system.*logs --stack/,
      ],
      ['it has given its Lease back', () => putLease('a', 'http://127.0.0.1:1', ''), /no syncer has a Lease/],
      ['its address is none', () => putLease('a', 'file:///etc/passwd'), /no syncer has a Lease/],
      ['it does not answer', () => putSilent('a'), /ECONNREFUSED.*--syncer http:\/\//],
      ['nobody serves the tenant', () => putSyncer('a', () => unknownTenant), /describe blue -n default/],
      ['it answers nonsense', () => putSyncer('a', () => [500, {}]), /cannot be asked at .*HTTP 500/],
    ])('says what to do when %s', async (_, prepare, message) => {
      putTenant('blue');
      await prepare();
      const { exitCode, stderr, stdout } = await run('trace', '-t', 'blue');
      expect(stderr).toMatch(message);
      expect({ exitCode, stdout }).toEqual({ exitCode: 5, stdout: '' });
    });

    it('asks the syncer that it is told to', async () => {
      putTenant('blue');
      await putSyncer('a', () => [200, report]);
      const url =
        server.list(resources.leases)[0]?.metadata.annotations?.['skerry.dev/metrics-address'] ?? '';
      server.remove(resources.leases, { namespace: 'skerry-system', name: 'vc-syncer-a' });
      const { stdout } = await run('trace', 'web', '--syncer', url, '-o', 'json');
      expect(JSON.parse(stdout)).toMatchObject({ source: 'syncer', syncer: url });
    });

    it.each([
      [['web', '--slowest', '3'], 'either a POD or --slowest'],
      [['web', '-n', 'Upper'], 'the namespace "Upper" is not valid'],
      [['Web'], '"Web" is no name of a pod'],
      [['shop/web'], 'give its namespace with --namespace'],
      [['web', '-t', 'a/b/c'], 'NAMESPACE/NAME'],
      [['web', '-t', 'Blue'], 'the name "Blue" is not valid'],
      [['--slowest', '0'], 'from 1 to 1000'],
      [['--syncer', 'localhost:1'], 'http://127.0.0.1:10451'],
      [['-o', 'xml'], 'json'],
    ])('refuses %j and says what can be given', async (args, message) => {
      expect(await run('trace', ...args)).toEqual({
        exitCode: 2,
        stdout: '',
        stderr: expect.stringContaining(message),
      });
      expect(server.requests).toEqual([]);
    });

    it('names the namespace of a tenant that is elsewhere', async () => {
      putTenant('blue', 'teams');
      expect(await run('trace', 'web', '-t', 'blue')).toMatchObject({
        exitCode: 3,
        stderr: expect.stringContaining('no VirtualCluster "blue" in namespace default'),
      });
    });
  });
});

const nowMs = Date.parse('2030-01-01T00:01:00Z');
const second = (s: number): string => `2030-01-01T00:00:${String(s).padStart(2, '0')}Z`;
const conditions = (...list: [string, number][]) =>
  list.map(([type, s]) => ({ type, status: 'True', lastTransitionTime: second(s) }));

const tenantPod = (isReady: boolean): KubeObject => ({
  metadata: { namespace: 'shop', name: 'web', uid: 'u', creationTimestamp: second(10) },
  status: { conditions: isReady ? conditions(['Ready', 18]) : [] },
});
const superPod = (...list: [string, number][]): KubeObject => ({
  metadata: { name: 'web', creationTimestamp: second(11) },
  spec: { nodeName: 'n1' },
  status: { conditions: conditions(...list) },
});

describe('reportFromObjects', () => {
  it('reads the way of a pod from creation times and conditions', () => {
    const s = superPod(['PodScheduled', 13], ['Ready', 18]);
    expect(reportFromObjects('acme/blue', tenantPod(true), s, nowMs)).toEqual({
      tenant: 'acme/blue',
      namespace: 'shop',
      name: 'web',
      uid: 'u',
      node: 'n1',
      createdAt: second(10),
      seenAt: second(10),
      state: 'ready',
      totalMs: 8_000,
      shares: { skerry: 1_000, scheduler: 2_000, kubelet: 5_000 },
      steps: [
        { name: 'seen', atMs: 0 },
        { name: 'created', atMs: 1_000 },
        { name: 'scheduled', atMs: 3_000 },
        { name: 'ready', atMs: 8_000 },
      ],
      spans: [
        { name: 'create', whose: 'skerry', atMs: 0, tookMs: 1_000 },
        { name: 'schedule', whose: 'scheduler', atMs: 1_000, tookMs: 2_000 },
        { name: 'start', whose: 'kubelet', atMs: 3_000, tookMs: 5_000 },
      ],
    });
  });

  it.each([
    ['nothing in the super cluster', undefined, { name: 'create', whose: 'skerry', sinceMs: 50_000 }],
    ['no node', superPod(), { name: 'schedule', whose: 'scheduler', sinceMs: 49_000 }],
    ['a node', superPod(['PodScheduled', 13]), { name: 'start', whose: 'kubelet', sinceMs: 47_000 }],
  ])('says what a pod with %s waits for', (_, s, waitsFor) => {
    const report = reportFromObjects('acme/blue', tenantPod(false), s, nowMs);
    expect(report).toMatchObject({ state: 'pending', totalMs: 50_000, waitsFor });
    const { skerry, scheduler, kubelet } = report.shares;
    expect(skerry + scheduler + kubelet).toBe(50_000);
  });

  it('does not let two clocks make a time negative', () => {
    const s = { ...superPod(['PodScheduled', 9], ['Ready', 9]), metadata: { creationTimestamp: second(8) } };
    const report = reportFromObjects('acme/blue', tenantPod(true), s, nowMs);
    expect(report.spans.map(({ atMs, tookMs }) => [atMs, tookMs])).toEqual([
      [0, 0],
      [0, 0],
      [0, 0],
    ]);
  });
});

describe('waterfall', () => {
  const report: PodReport = {
    tenant: 'acme/blue',
    namespace: 'shop',
    name: 'web',
    uid: 'u',
    node: 'n1',
    seenAt: '2030-01-01T00:00:00.120Z',
    state: 'ready',
    totalMs: 160,
    shares: { skerry: 40, scheduler: 20, kubelet: 100 },
    steps: [],
    spans: [
      { name: 'queue', whose: 'skerry', atMs: 0, tookMs: 0.4 },
      { name: 'schedule', whose: 'scheduler', atMs: 20, tookMs: 20 },
      { name: 'start', whose: 'kubelet', atMs: 40, tookMs: 100 },
      { name: 'status', whose: 'skerry', atMs: 140, tookMs: 20 },
    ],
  };

  describe('waterfall', () => {
    it('shows who took how much, and each step where it lies in the whole', () => {
      expect(waterfall(report, 'milliseconds').split('\n')).toEqual([
        'Pod:        shop/web',
        'Tenant:     acme/blue',
        'Node:       n1',
        'Seen:       2030-01-01T00:00:00.120Z',
        'Ready in:   160 ms',
        'Shares:     Skerry 40.0 ms (25 %), scheduler 20.0 ms (13 %), kubelet 100 ms (63 %)',
        '',
        'STEP       WHOSE       AT        TOOK',
        'queue      Skerry       0.0 ms    0.4 ms   █                                  waits for a worker of the syncer',
        'schedule   scheduler   20.0 ms   20.0 ms       ████                           the scheduler finds a node',
        'start      kubelet     40.0 ms    100 ms           ████████████████████       the node starts it',
        'status     Skerry       140 ms   20.0 ms                               ████   the tenant learns that it is ready',
        '',
      ]);
    });

    it('says what a pod that is not ready waits for', () => {
      const pending: PodReport = {
        ...report,
        state: 'pending',
        totalMs: 8_300,
        spans: report.spans.slice(0, 1),
        waitsFor: { name: 'schedule', whose: 'scheduler', sinceMs: 8_280 },
      };
      expect(waterfall(pending, 'milliseconds')).toContain(
        'Not ready:   since 8.30 s; waits for scheduler (schedule: the scheduler finds a node) since 8.28 s\n',
      );
      expect(waterfall({ ...report, state: 'deleted' }, 'milliseconds')).toContain(
        'Deleted after:   160 ms, before it was ready',
      );
    });

    it('writes seconds where no more is known, and stands no time at all', () => {
      const none: PodReport = { ...report, totalMs: 0, shares: { skerry: 0, scheduler: 0, kubelet: 0 } };
      expect(waterfall({ ...none, spans: [] }, 'seconds')).toMatch(
        /Ready in: +0 s\nShares: +Skerry 0 s \(0 %\)/,
      );
      expect(waterfall(none, 'seconds')).toContain('█');
    });

    it.each([
      [0, '0.0 ms'],
      [99.94, '99.9 ms'],
      [100, '100 ms'],
      [1_234, '1.23 s'],
      [12_345, '12 s'],
      [185_000, '3 min 05 s'],
    ])('writes %d ms as %s', (ms, text) => {
      expect(formatMs(ms)).toBe(text);
    });
  });
});
