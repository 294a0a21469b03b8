import { once } from 'node:events';
import { createSecureServer, connect as http2Connect } from 'node:http2';
import { createServer as createHttpsServer, get as httpsGet } from 'node:https';
import {
  type AddressInfo,
  createServer as createTcpServer,
  type Server,
  type Socket,
  connect as tcpConnect,
} from 'node:net';
import { connect, createServer, type TLSSocket } from 'node:tls';
import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import type { Move, VirtualCluster } from '../api/virtual-cluster.ts';
import { systemClock } from '../kube/index.ts';
import { freePort } from '../kube/testing/free-port.ts';
import { createTestCertificates, type TestCertificates } from '../kube/testing/index.ts';
import { Gateway, maxHellos, tooFewOpenFiles } from './gateway.ts';
import { GatewayMetrics } from './gateway-metrics.ts';
import { Readiness } from './readiness.ts';
import { type Route, Routes } from './routes.ts';
import { TenantLimits } from './tenant-limits.ts';

const domain = 'tenants.example.com';
const nameOf = (id: string): string => `${id}.${domain}`;

function virtualCluster(name: string, id: string, port: number): VirtualCluster {
  return {
    apiVersion: 'skerry.dev/v1alpha1',
    kind: 'VirtualCluster',
    metadata: { namespace: 'acme', name, uid: `uid-${name}`, creationTimestamp: '2026-01-01T00:00:00Z' },
    status: { id, phase: 'Ready', endpoint: `https://127.0.0.1:${port}` },
  };
}

/** Nobody is served meanwhile. */
function moving(id: string): VirtualCluster {
  const away = virtualCluster(`of-${id}`, id, 1);
  const place = { driver: 'process', template: 'v1-36' } as const;
  const at = '2026-01-01T00:00:00Z';
  const move: Move = {
    stage: 'copying',
    startedAt: at,
    pausedAt: at,
    from: { ...place, datastore: 'shared' },
    to: { ...place, datastore: 'own' },
  };
  return { ...away, status: { ...away.status, phase: 'Moving', move } };
}

describe('the gateway', () => {
  let certificates: TestCertificates;
  beforeAll(async () => {
    certificates = await createTestCertificates();
  });
  const endings: (() => unknown)[] = [];
  afterEach(async () => {
    for (const end of endings.splice(0).reverse()) await end();
  });

  it('takes for a woken API server only what has the name of the tenant', async () => {
    const answering = ({ cert, key }: { cert: string; key: string }): Promise<number> =>
      listening(createHttpsServer({ cert, key }, (_, answer) => answer.end()));
    const other = { host: '127.0.0.1', port: await answering(serverTls()), id: 'blueid' };
    expect(await atOnce().untilReady({ ...other, isStopped: true }, () => true)).toBe(false);
    expect(await patient().untilReady(other, () => true)).toBe(true);
    const { server } = await createTestCertificates([nameOf('blueid')]);
    const woken = { ...other, port: await answering(server), isStopped: true };
    expect(await patient().untilReady(woken, () => true)).toBe(true);
  });

  it('leaves out, only of an API server that was stopped, what creates objects that are there already', async () => {
    const left = ['rbac/bootstrap-roles', 'scheduling/bootstrap-system-priority-classes'];
    const asked: URL[] = [];
    const { server } = await createTestCertificates([nameOf('blueid')]);
    const starting = createHttpsServer({ cert: server.cert, key: server.key }, (asking, answer) => {
      const url = new URL(asking.url ?? '', 'https://x');
      asked.push(url);
      const excluded = url.searchParams.getAll('exclude');
      answer.writeHead(left.every((hook) => excluded.includes(`poststarthook/${hook}`)) ? 200 : 500).end();
    });
    const backend = { host: '127.0.0.1', port: await listening(starting), id: 'blueid' };
    expect(await atOnce().untilReady(backend, () => true)).toBe(false);
    expect(await patient().untilReady({ ...backend, isStopped: true }, () => true)).toBe(true);
    expect(new Set(asked.map(({ pathname }) => pathname))).toEqual(new Set(['/readyz']));
    expect(asked.at(-1)?.searchParams.getAll('exclude')).toHaveLength(left.length);
  });

  /** Asks once. */
  const atOnce = (): Readiness => new Readiness({ clock: systemClock, patienceMs: 0 });
  /** Asks until it is answered in time. */
  const patient = (): Readiness => new Readiness({ clock: systemClock, patienceMs: 60_000 });

  async function listening(server: Server): Promise<number> {
    const sockets = new Set<Socket>();
    server.on('connection', (socket: Socket) => sockets.add(socket));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    endings.push(() => {
      server.close();
      for (const socket of sockets) socket.destroy();
    });
    return (server.address() as AddressInfo).port;
  }

  /** Says who its client is, then sends everything back. */
  function echo(): Server {
    return createServer(
      { ...serverTls(), requestCert: true, ca: certificates.ca, rejectUnauthorized: true },
      (socket) => {
        socket.on('error', () => undefined);
        socket.write(`hello ${socket.getPeerCertificate().subject.CN}\n`);
        socket.pipe(socket);
      },
    );
  }
  const serverTls = () => ({ ...certificates.server });
  const clientTls = () => ({
    ...certificates.client,

    ca: certificates.ca,
  });

  interface Setup {
    tenants?: Record<string, number>;
    limits?: { all?: number; connections: number; rate: number; burst: number };
    options?: Partial<ConstructorParameters<typeof Gateway>[0]>;
  }

  async function start({
    tenants = {},
    limits,
    options,
  }: Setup): Promise<{ port: number; gateway: Gateway; metrics: GatewayMetrics; routes: Routes }> {
    const routes = new Routes(domain);
    for (const [id, port] of Object.entries(tenants)) routes.put(virtualCluster(`of-${id}`, id, port));
    const metrics = new GatewayMetrics();
    const gateway = new Gateway({
      routes,
      routesKnown: Promise.resolve(),
      limits: new TenantLimits({ all: 1_000, connections: 100, rate: 100, burst: 100, ...limits }, () => 0),
      metrics,
      connections: 3_000,
      proxyProtocol: false,
      clock: systemClock,
      wake: async () => true,
      readiness: atOnce(),
      ...options,
    });
    const port = await gateway.listen(0, '127.0.0.1');
    endings.push(() => gateway.close(AbortSignal.abort()));
    return { port, gateway, metrics, routes };
  }

  /** Open, and greeted by the tenant's server. */
  /** A client has no time for its hello that could be over. */
  function stopTime(): void {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    endings.push(() => void vi.useRealTimers());
  }

  async function client(port: number, id: string, socket?: Socket): Promise<TLSSocket> {
    const tls = connect({
      ...(socket === undefined ? { port, host: '127.0.0.1' } : { socket }),
      ...clientTls(),
      servername: nameOf(id),
      checkServerIdentity: () => undefined,
    });
    endings.push(() => tls.destroy());
    await once(tls, 'data');
    tls.on('error', () => undefined);
    return tls;
  }

  async function closed(socket: Socket): Promise<string> {
    let text = '';
    socket.on('data', (chunk) => (text += chunk.toString('latin1')));
    socket.on('error', () => undefined);
    if (!socket.closed) await once(socket, 'close');
    return text;
  }
  const alert = (code: number): string => String.fromCharCode(21, 3, 3, 0, 2, 2, code);
  /** Raw, with what Node's TLS says first for this name. */
  async function raw(port: number, first: Buffer | string): Promise<Socket> {
    const socket = tcpConnect(port, '127.0.0.1');
    endings.push(() => socket.destroy());
    socket.on('error', () => undefined);
    await once(socket, 'connect');
    if (first.length > 0) socket.write(first);
    return socket;
  }
  /** Without a name: as of a client that knows an address only. */
  async function helloFor(servername?: string): Promise<Buffer> {
    const server = createTcpServer();
    const port = await listening(server);
    const tls = connect({ port, host: '127.0.0.1', ...(servername === undefined ? {} : { servername }) });
    tls.on('error', () => undefined);
    const [socket] = (await once(server, 'connection')) as [Socket];
    const [bytes] = (await once(socket, 'data')) as [Buffer];
    tls.destroy();
    return bytes;
  }

  it('passes connections on by server name, and certificates of clients with them', async () => {
    const [blue, red] = [await listening(echo()), await listening(echo())];
    const { port, metrics } = await start({ tenants: { blueid: blue, redid00: red } });
    const socket = await client(port, 'blueid');
    expect(socket.authorized).toBe(true);
    expect(await metrics.render()).toContain('skerry_gateway_connections{tenant="acme/of-blueid"} 1');
    expect(await metrics.render()).not.toContain('acme/of-redid00');
    const large = 'x'.repeat(3_000_000);
    socket.end(large);
    let size = 0;
    for await (const chunk of socket) size += (chunk as Buffer).length;
    expect(size).toBe(large.length);
  });

  it('passes HTTP/2 with many streams on', async () => {
    const server = createSecureServer(serverTls(), (request, response) => response.end(request.url));
    const { port } = await start({ tenants: { blueid: await listening(server) } });
    const session = http2Connect(`https://127.0.0.1:${port}`, {
      ...clientTls(),
      servername: nameOf('blueid'),
      checkServerIdentity: () => undefined,
    });
    endings.push(() => session.destroy());
    const answers = Array.from({ length: 50 }, async (_, index) => {
      const stream = session.request({ ':path': `/${index}` });
      let text = '';
      for await (const chunk of stream) text += String(chunk);
      return text;
    });
    expect(await Promise.all(answers)).toEqual(Array.from({ length: 50 }, (_, index) => `/${index}`));
  });

  it('answers while a client has said that it sends no more', async () => {
    const server = createTcpServer({ allowHalfOpen: true }, (socket) => {
      socket.resume();
      socket.on('end', () => socket.end('the answer'));
    });
    const { port } = await start({ tenants: { blueid: await listening(server) } });
    const socket = await raw(port, '');
    socket.end(await helloFor(nameOf('blueid')));
    expect(await closed(socket)).toBe('the answer');
  });

  it('delivers all that an API server has said before it closed, though the slow client still tells it something', async () => {
    // What the system takes at once: of what it holds back, the reset of the API server's own connection costs the rest.
    const answer = 'x'.repeat(40_000);
    const said = Promise.withResolvers<Socket>();
    const server = createTcpServer((socket) => {
      socket.on('error', () => undefined);
      socket.once('data', () => socket.end(answer, () => said.resolve(socket.destroy())));
    });
    const { port } = await start({ tenants: { blueid: await listening(server) } });
    const socket = await raw(port, await helloFor(nameOf('blueid')));
    if (!(await said.promise).closed) await once(await said.promise, 'close');
    // The first is answered with a reset, so that a later one fails.
    for (let count = 0; count < 50; count++) {
      socket.write('ping');
      await new Promise(setImmediate);
    }
    expect((await closed(socket)).length).toBe(answer.length);
  });

  it('lets clients wait until it knows all tenants', async () => {
    const known = Promise.withResolvers<void>();
    const { port, routes } = await start({ options: { routesKnown: known.promise } });
    const waiting = [
      await raw(port, await helloFor(nameOf('blueid'))),
      await raw(port, await helloFor(nameOf('redid00'))),
    ];
    const ends = waiting.map(closed);
    routes.put(
      virtualCluster('blue', 'blueid', await listening(createTcpServer((socket) => socket.end('ok')))),
    );
    known.resolve();
    expect(await Promise.all(ends)).toEqual(['ok', alert(112)]);
  });

  it('tells a client in terms of TLS that there is no such tenant, or that it names none', async () => {
    const { port, metrics } = await start({ tenants: { blueid: 1 } });
    for (const name of [nameOf('redid00'), 'blueid', domain, `x.${nameOf('blueid')}`])
      expect(await closed(await raw(port, await helloFor(name)))).toBe(alert(112));
    const tls = connect({ port, host: '127.0.0.1', servername: nameOf('redid00') });
    const [error] = (await once(tls, 'error')) as [NodeJS.ErrnoException];
    expect(error.code).toContain('UNRECOGNIZED_NAME');
    expect(await metrics.render()).toContain('skerry_gateway_refused_total{reason="unknown",tenant=""} 5');
  });

  it.each(['GET / HTTP/1.1\r\n\r\n', '\x16\x03\x01\x00\x00'])('closes what is no TLS: %j', async (text) => {
    const { port, metrics } = await start({});
    expect(await closed(await raw(port, Buffer.from(text, 'latin1')))).toBe('');
    expect(await metrics.render()).toContain('reason="malformed",tenant=""} 1');
  });

  it('closes what does not say its name in time, in pieces as well', async () => {
    const server = await listening(echo());
    stopTime();
    const { port } = await start({ tenants: { blueid: server } });
    const begun = (await helloFor(nameOf('blueid'))).subarray(0, 50);
    const silent = await raw(port, '');
    const slow = await raw(port, begun);
    // The last one that is accepted.
    const open = await client(port, 'blueid');
    vi.advanceTimersByTime(5_000);
    expect(await Promise.all([closed(silent), closed(slow)])).toEqual(['', '']);
    open.write('still there');
    expect(String((await once(open, 'data'))[0])).toBe('still there');
  });

  it('reads a hello that comes byte by byte', async () => {
    stopTime();
    const { port } = await start({
      tenants: { blueid: await listening(createTcpServer((each) => each.end('ok'))) },
    });
    const socket = await raw(port, '');
    socket.setNoDelay(true);
    for (const byte of await helloFor(nameOf('blueid'))) {
      socket.write(Buffer.of(byte));
      await new Promise(setImmediate);
    }
    expect(await closed(socket)).toBe('ok');
  });

  it('lets go of the client that has waited longest when very many do not say their name', async () => {
    stopTime();
    const { port } = await start({ tenants: { blueid: await listening(echo()) } });
    const first = await raw(port, '');
    const gone = closed(first);
    const others: Socket[] = [];
    for (let count = 0; count < 1_024; count++) others.push(await raw(port, ''));
    expect(await gone).toBe('');
    await client(port, 'blueid');
  });

  it('limits the connections of a tenant, and not those of others', async () => {
    const [blue, red] = [await listening(echo()), await listening(echo())];
    const { port, metrics } = await start({
      tenants: { blueid: blue, redid00: red },
      limits: { connections: 2, rate: 1, burst: 3 },
    });
    const open = [await client(port, 'blueid'), await client(port, 'blueid')];
    expect(await closed(await raw(port, await helloFor(nameOf('blueid'))))).toBe(alert(80));
    await client(port, 'redid00');
    // One goes, another one may come; then it has had as many as it may at once.
    open[0]?.destroy();
    await expect
      .poll(() => metrics.render())
      .toContain('skerry_gateway_connections{tenant="acme/of-blueid"} 1');
    const third = await client(port, 'blueid');
    third.destroy();
    await expect
      .poll(() => metrics.render())
      .toContain('skerry_gateway_connections{tenant="acme/of-blueid"} 1');
    expect(await closed(await raw(port, await helloFor(nameOf('blueid'))))).toBe(alert(80));
    expect(await metrics.render()).toContain('reason="rate",tenant="acme/of-blueid"} 1');
    await client(port, 'redid00');
  });

  it('listens for each tenant at a port of its own, where clients need no server name', async () => {
    const [blue, red] = [await listening(echo()), await listening(echo())];
    const limits = { connections: 2, rate: 100, burst: 100 };
    const { gateway, routes, metrics } = await start({ tenants: { blueid: blue, redid00: red }, limits });
    const probe = createTcpServer();
    const [ownPort, taken] = [await listening(probe), await listening(createTcpServer())];
    probe.close();
    await once(probe, 'close');
    const own = (id: string, port: number) => ({ ...(routes.byId(id) as Route), ownPort: port });
    const problems = await gateway.listenForTenants([own('blueid', ownPort), own('redid00', taken)]);
    expect(problems).toEqual([
      expect.stringMatching(
        `cannot serve redid00 on 127.0.0.1:${taken}: the port is taken, .* gateway of another stack`,
      ),
    ]);
    const socket = connect({ port: ownPort, host: '127.0.0.1', ...clientTls() });
    endings.push(() => socket.destroy());
    await once(socket, 'data');
    expect(await metrics.render()).toContain('skerry_gateway_connections{tenant="acme/of-blueid"} 1');
    const second = await raw(ownPort, await helloFor());
    await expect
      .poll(() => metrics.render())
      .toContain('skerry_gateway_connections{tenant="acme/of-blueid"} 2');
    expect(await closed(await raw(ownPort, await helloFor()))).toBe(alert(80));
    expect(await closed(await raw(ownPort, await helloFor(nameOf('redid00'))))).toBe(alert(112));
    second.destroy();
    // What is open goes on when the port is given up.
    expect(await gateway.listenForTenants([])).toEqual([]);
    socket.write('still there');
    expect(String((await once(socket, 'data'))[0])).toBe('still there');
    const late = tcpConnect(ownPort, '127.0.0.1');
    expect(((await once(late, 'error'))[0] as NodeJS.ErrnoException).code).toBe('ECONNREFUSED');
  });

  it('passes those on at a port of a tenant who name what is no tenant, as pods do', async () => {
    const blue = await listening(echo());
    const { gateway, routes } = await start({ tenants: { blueid: blue } });
    const ownPort = await freePort();
    await gateway.listenForTenants([{ ...(routes.byId('blueid') as Route), ownPort }]);
    for (const servername of ['kubernetes.default.svc', nameOf('blueid'), nameOf('background-blueid')]) {
      const checkServerIdentity = (): undefined => undefined;
      const socket = connect({
        port: ownPort,
        host: '127.0.0.1',
        ...clientTls(),
        servername,
        checkServerIdentity,
      });
      endings.push(() => socket.destroy());
      expect(String((await once(socket, 'data'))[0])).toMatch(/^hello/);
    }
  });

  it('says so when the API server is not there', async () => {
    const server = createTcpServer();
    const free = await listening(server);
    server.close();
    await once(server, 'close');
    const { port, metrics } = await start({ tenants: { blueid: free } });
    expect(await closed(await raw(port, await helloFor(nameOf('blueid'))))).toBe(alert(80));
    expect(await metrics.render()).toContain('reason="unreachable",tenant="acme/of-blueid"} 1');
    expect(await metrics.render()).toContain('skerry_gateway_connections{tenant="acme/of-blueid"} 0');
  });

  it('has clients that wait for an API server go to the one that takes its place', async () => {
    const [gone, next] = [await freePort(), await listening(echo())];
    const readiness = new Readiness({ clock: systemClock, patienceMs: 30_000 });
    const { port, routes } = await start({ tenants: { blueid: gone }, options: { readiness } });
    const waiting = client(port, 'blueid');
    await vi.waitUntil(() => readiness.isSuspect({ host: '127.0.0.1', port: gone }), 30_000);
    routes.put(virtualCluster('of-blueid', 'blueid', next));
    await waiting;
  });

  it('does not ask whether an API server is well that clients do not go to any more', async () => {
    const [server, next] = [echo(), await listening(echo())];
    const before = await listening(server);
    const accepted = once(server, 'secureConnection') as Promise<[TLSSocket]>;
    const readiness = new Readiness({ clock: systemClock, patienceMs: 30_000 });
    const { port, routes } = await start({ tenants: { blueid: before }, options: { readiness } });
    const open = await client(port, 'blueid');
    routes.put(virtualCluster('of-blueid', 'blueid', next));
    const ending = closed(open);
    (await accepted)[0].end();
    await ending;
    expect(readiness.isSuspect({ host: '127.0.0.1', port: before })).toBe(false);
    await client(port, 'blueid');
  });

  it('holds clients while their API server is started anew, until it is ready', async () => {
    let status = 503;
    const asked: string[] = [];
    const apiServer = createHttpsServer(serverTls(), (asking, answer) => {
      asked.push(asking.url ?? '');
      answer.writeHead(asking.url === '/readyz' ? status : 200).end();
    });
    const free = await freePort();
    const readiness = new Readiness({ clock: systemClock, patienceMs: 30_000 });
    const { port } = await start({ tenants: { blueid: free }, options: { readiness } });
    const get = (): Promise<number | undefined> =>
      new Promise((resolve, reject) => {
        const options = { host: '127.0.0.1', port, agent: false, servername: nameOf('blueid') } as const;
        httpsGet({ ...options, rejectUnauthorized: false, path: '/api' }, (answer) => {
          answer.resume();
          resolve(answer.statusCode);
        }).on('error', reject);
      });
    // Nobody listens yet.
    const first = get();
    await vi.waitUntil(() => readiness.isSuspect({ host: '127.0.0.1', port: free }), 30_000);
    apiServer.listen(free, '127.0.0.1');
    endings.push(() => apiServer.close());
    await vi.waitUntil(() => asked.length > 0, 30_000);
    // It accepts connections, and is not ready: those who come now wait, too.
    const second = get();
    await vi.waitUntil(() => asked.length > 2, 30_000);
    expect(asked).not.toContain('/api');
    status = 200;
    expect(await Promise.all([first, second])).toEqual([200, 200]);
  });

  it('holds clients of a tenant that is asleep until it is awake, and counts them as use', async () => {
    const server = echo();
    const backend = await listening(server);
    const woken = Promise.withResolvers<boolean>();
    const asked: string[] = [];
    const wake = (route: Route): Promise<boolean> => {
      asked.push(route.id);
      return woken.promise;
    };
    const { port, routes, gateway } = await start({ tenants: { blueid: 1 }, options: { wake } });
    const asleep = virtualCluster('of-blueid', 'blueid', 1);
    routes.put({ ...asleep, status: { ...asleep.status, phase: 'Asleep' } });
    const clients = [client(port, 'blueid'), client(port, 'blueid')];
    await vi.waitUntil(() => asked.length === 2, 30_000);
    // Where it listens may have changed.
    routes.put(virtualCluster('of-blueid', 'blueid', backend));
    woken.resolve(true);
    const open = await Promise.all(clients);
    expect(gateway.takeUsed()).toEqual(['blueid']);
    for (const each of open) each.destroy();
    await vi.waitUntil(() => gateway.takeUsed().length === 0, 30_000);
  });

  it('neither wakes a tenant for a client that asks to be left out, nor counts it as use', async () => {
    const backend = await listening(echo());
    const probe = createTcpServer();
    const ownPort = await listening(probe);
    probe.close();
    await once(probe, 'close');
    const asked: string[] = [];
    const wake = async (route: Route): Promise<boolean> => {
      asked.push(route.id);
      return false;
    };
    const { port, routes, gateway, metrics } = await start({
      tenants: { blueid: backend, redid00: backend },
      options: { wake },
    });
    await gateway.listenForTenants([{ ...(routes.byId('blueid') as Route), ownPort }]);
    const background = 'background-blueid';
    const open = [await client(port, background), await client(ownPort, background)];
    expect(gateway.takeUsed()).toEqual([]);
    const user = await client(ownPort, 'blueid');
    expect(gateway.takeUsed()).toEqual(['blueid']);
    user.destroy();
    await vi.waitUntil(() => gateway.takeUsed().length === 0, 30_000);
    for (const each of open) each.write('still there');
    const asleep = virtualCluster('of-blueid', 'blueid', backend);
    routes.put({ ...asleep, status: { ...asleep.status, phase: 'Asleep' } });
    for (const each of [port, ownPort])
      expect(await closed(await raw(each, await helloFor(nameOf(background))))).toBe(alert(80));
    expect(asked).toEqual([]);
    expect(await metrics.render()).toContain('reason="background",tenant="acme/of-blueid"} 2');
    // Neither does who looks for another tenant, or says no TLS, wake it.
    expect(await closed(await raw(ownPort, 'GET / HTTP/1.1\r\n\r\n'))).toBe('');
    expect(await closed(await raw(ownPort, await helloFor(nameOf('background-redid00'))))).toBe(alert(112));
    expect(asked).toEqual([]);
    expect(await closed(await raw(ownPort, await helloFor()))).toBe(alert(80));
    expect(asked).toEqual(['blueid']);
  });

  it('does not wake a tenant for one that it has held while its API server was away', async () => {
    const free = await freePort();
    const asked: string[] = [];
    const wake = async (route: Route): Promise<boolean> => {
      asked.push(route.id);
      return false;
    };
    const { port, routes } = await start({ tenants: { blueid: free }, options: { wake } });
    const socket = await raw(port, await helloFor(nameOf('background-blueid')));
    const stopped = virtualCluster('of-blueid', 'blueid', free);
    routes.put({ ...stopped, status: { ...stopped.status, phase: 'Asleep' } });
    expect(await closed(socket)).toBe(alert(80));
    expect(asked).toEqual([]);
  });

  it('holds clients of a tenant that is being put back to a snapshot', async () => {
    const backend = await listening(echo());
    const restored = Promise.withResolvers<boolean>();
    const asked: string[] = [];
    const wake = ({ id }: Route): Promise<boolean> => {
      asked.push(id);
      return restored.promise;
    };
    const { port, routes } = await start({ tenants: { blueid: 1 }, options: { wake } });
    const away = virtualCluster('of-blueid', 'blueid', 1);
    const restore = { request: 'one', from: 'default/blue/x.snapshot' };
    routes.put({ ...away, status: { ...away.status, phase: 'Restoring', restore } });
    const waiting = client(port, 'blueid');
    await vi.waitUntil(() => asked.length === 1, 30_000);
    routes.put(virtualCluster('of-blueid', 'blueid', backend));
    restored.resolve(true);
    (await waiting).destroy();
  });

  it('holds a client in the background of a tenant that is being moved, and still does not count it', async () => {
    const backend = await listening(echo());
    const moved = Promise.withResolvers<boolean>();
    const asked: (boolean | undefined)[] = [];
    const wake = ({ isBackground }: Route): Promise<boolean> => {
      asked.push(isBackground);
      return moved.promise;
    };
    const { port, routes, gateway } = await start({ tenants: { blueid: 1 }, options: { wake } });
    routes.put(moving('blueid'));
    const waiting = client(port, 'background-blueid');
    await vi.waitUntil(() => asked.length === 1, 30_000);
    routes.put(virtualCluster('of-blueid', 'blueid', backend));
    moved.resolve(true);
    (await waiting).destroy();
    expect(asked).toEqual([true]);
    expect(gateway.takeUsed()).toEqual([]);
  });

  it('does not wake a tenant for one in the background that it has held while that was moved', async () => {
    const free = await freePort();
    const moved = virtualCluster('of-blueid', 'blueid', free);
    const asked: (boolean | undefined)[] = [];
    const wake = async ({ isBackground }: Route): Promise<boolean> => {
      asked.push(isBackground);
      routes.put(moved);
      // After the gateway has begun to connect, and before it learns that nobody listens.
      setImmediate(() => routes.put({ ...moved, status: { ...moved.status, phase: 'Asleep' } }));
      return asked.length === 1;
    };
    const { port, routes, metrics } = await start({ tenants: { blueid: 1 }, options: { wake } });
    routes.put(moving('blueid'));
    expect(await closed(await raw(port, await helloFor(nameOf('background-blueid'))))).toBe(alert(80));
    expect(asked).toEqual([true]);
    expect(await metrics.render()).toContain('reason="background",tenant="acme/of-blueid"} 1');
  });

  it('tells clients of a tenant that does not wake up, and wakes one that was stopped under it', async () => {
    const free = await freePort();
    const asked: string[] = [];
    const wake = async (route: Route): Promise<boolean> => {
      asked.push(route.id);
      return false;
    };
    const { port, routes, metrics } = await start({ tenants: { blueid: free }, options: { wake } });
    const socket = await raw(port, await helloFor(nameOf('blueid')));
    // Known only after the gateway has begun to connect.
    const stopped = virtualCluster('of-blueid', 'blueid', free);
    routes.put({ ...stopped, status: { ...stopped.status, phase: 'Asleep' } });
    expect(await closed(socket)).toBe(alert(80));
    expect(asked).toEqual(['blueid']);
    expect(await metrics.render()).toContain('reason="asleep",tenant="acme/of-blueid"} 1');
  });

  it.each([
    ['1', Buffer.from('PROXY TCP4 192.0.2.1 192.0.2.2 1234 443\r\n')],
    ['2', Buffer.concat([Buffer.from('\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c', 'latin1'), Buffer.alloc(12)])],
  ])('takes a header of the PROXY protocol off when it is told to, version %s', async (_, header) => {
    const tenants = { blueid: await listening(echo()) };
    const { port } = await start({ tenants, options: { proxyProtocol: true } });
    const socket = await raw(port, header.subarray(0, 7));
    await new Promise(setImmediate);
    socket.write(header.subarray(7));
    await client(port, 'blueid', socket);
    expect(await closed(await raw(port, await helloFor(nameOf('blueid'))))).toBe('');
    const own = await start({ tenants, options: { proxyProtocol: true } });
    const probe = createTcpServer();
    const ownPort = await listening(probe);
    probe.close();
    await once(probe, 'close');
    await own.gateway.listenForTenants([{ ...(own.routes.byId('blueid') as Route), ownPort }]);
    await client(ownPort, 'blueid', await raw(ownPort, header));
    // And not without being told.
    expect(await closed(await raw((await start({ tenants })).port, header))).toBe('');
  });

  it('ends the connections of a tenant that is gone', async () => {
    const { port, gateway, metrics } = await start({ tenants: { blueid: await listening(echo()) } });
    const socket = await client(port, 'blueid');
    gateway.keepOnly(new Set(['acme/of-blueid']));
    socket.write('more');
    expect(String((await once(socket, 'data'))[0])).toBe('more');
    gateway.keepOnly(new Set());
    metrics.keepOnly(new Set());
    await closed(socket);
    expect(await metrics.render()).not.toContain('acme/of-blueid');
  });

  it('has room for another tenant, however many hold as many connections as they get', async () => {
    const ids = Array.from({ length: 12 }, (_, index) => `greedy${index}`);
    const tenants = { lateid00: await listening(echo()) };
    for (const id of ids) Object.assign(tenants, { [id]: await listening(echo()) });
    const { port, metrics } = await start({
      tenants,
      limits: { all: 20, connections: 4, rate: 100, burst: 100 },
      options: { connections: 20 + maxHellos },
    });
    /** The first byte of an answer: an alert, or what the API server says. */
    const firstByte = async (id: string): Promise<number | undefined> => {
      const [data] = await once(await raw(port, await helloFor(nameOf(id))), 'data');
      return (data as Buffer)[0];
    };
    const [refused, passed] = [0x15, 0x16];
    for (const id of ids) for (let count = 0; count < 4; count++) await firstByte(id);
    expect(await Promise.all(ids.map(firstByte))).toEqual(ids.map(() => refused));
    expect(await firstByte('lateid00')).toBe(passed);
    const late = await client(port, 'lateid00').catch(() => undefined);
    expect(late).toBeUndefined();
    expect(await metrics.render()).toMatch(/refused_total\{reason="share",tenant="acme\/of-greedy\d+"\} \d/);
  });

  it('waits at its end for open connections, as long as it may', async () => {
    const { port, gateway } = await start({ tenants: { blueid: await listening(echo()) } });
    const [short, long] = [await client(port, 'blueid'), await client(port, 'blueid')];
    const cut = new AbortController();
    let isClosed = false;
    const ended = gateway.close(cut.signal).then(() => {
      isClosed = true;
    });
    short.end();
    await closed(short);
    long.write('still there');
    expect(String((await once(long, 'data'))[0])).toBe('still there');
    expect(isClosed).toBe(false);
    cut.abort();
    await ended;
    await closed(long);
  });

  it('refuses all beyond what it may have at once', async () => {
    const { port } = await start({
      tenants: { blueid: await listening(echo()) },
      options: { connections: 1 },
    });
    const first = await client(port, 'blueid');
    expect(await closed(await raw(port, ''))).toBe(alert(80));
    first.destroy();
    await expect
      .poll(async () =>
        client(port, 'blueid').then(
          () => true,
          () => false,
        ),
      )
      .toBe(true);
  });
});

describe('routes', () => {
  it('go by the id that the manager has given, and to the older one where two have it', () => {
    const routes = new Routes(domain);
    const old = virtualCluster('old', 'sameid', 1);
    const young = virtualCluster('young', 'sameid', 2);
    young.metadata.creationTimestamp = '2026-02-01T00:00:00Z';
    routes.put(young);
    routes.put(old);
    expect(routes.find(nameOf('sameid'))?.tenant).toBe('acme/old');
    routes.remove(old);
    expect(routes.find(nameOf('sameid'))).toMatchObject({ tenant: 'acme/young', host: '127.0.0.1', port: 2 });
    routes.put({ ...young, status: { ...young.status, phase: 'Deleting' } });
    expect(routes.find(nameOf('sameid'))).toBeUndefined();
    expect(routes.size).toBe(0);
  });

  it.each([
    [{}],
    [{ id: 'sameid' }],
    [{ id: 'A.b', endpoint: 'https://127.0.0.1:1' }],
    [{ id: 'sameid', endpoint: 'http://127.0.0.1:1' }],
    [{ id: 'sameid', endpoint: 'nonsense' }],
  ])('have none for a status of %j', (status) => {
    const routes = new Routes(domain);
    routes.put({ ...virtualCluster('blue', 'x', 1), status });
    expect(routes.size).toBe(0);
  });

  it('know addresses of IPv6 and the port of https', () => {
    const routes = new Routes(domain);
    routes.put({ ...virtualCluster('blue', 'x', 1), status: { id: 'sameid', endpoint: 'https://[::1]' } });
    expect(routes.find(nameOf('sameid'))).toMatchObject({ host: '::1', port: 443 });
  });
});

describe('the limit of open files', () => {
  it('is enough for two of each connection, clients that say nothing yet, and what else is open', () => {
    expect(tooFewOpenFiles(22_048, 10_000)).toBeUndefined();
    expect(tooFewOpenFiles(undefined, 10_000)).toBeUndefined();
    expect(tooFewOpenFiles(Number.POSITIVE_INFINITY, 10_000)).toBeUndefined();
  });

  it('that is too low is told, with what to do about it', () => {
    const problem = tooFewOpenFiles(20_000, 10_000);
    expect(problem).toMatch(/^20000 files may be open, and --connections 10000 can take 22048/);
    expect(problem).toMatch(/Raise the hard limit .*, or start the gateway with --connections 8976$/);
    expect(tooFewOpenFiles(20_000, 8_976)).toBeUndefined();
    expect(tooFewOpenFiles(1_024, 10_000)).not.toMatch(/or start the gateway/);
  });
});
