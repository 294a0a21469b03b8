import { once } from 'node:events';
import { type AddressInfo, createServer as createTcpServer, type Server } from 'node:net';
import { connect, createServer } from 'node:tls';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { VirtualCluster, VirtualClusterPhase } from '../api/virtual-cluster.ts';
import { systemClock } from '../kube/index.ts';
import { fastClock } from '../kube/testing/fast-clock.ts';
import { createTestCertificates, type TestCertificates } from '../kube/testing/index.ts';
import { Gateway } from './gateway.ts';
import { GatewayMetrics } from './gateway-metrics.ts';
import { Readiness } from './readiness.ts';
import { Routes } from './routes.ts';
import { listenOrStandBy, type PortHolder, portHolder } from './standby.ts';
import { TenantLimits } from './tenant-limits.ts';

const domain = 'tenants.example.com';
const host = '127.0.0.1';

describe('a gateway whose port is taken', () => {
  let certificates: TestCertificates;
  beforeAll(async () => {
    certificates = await createTestCertificates();
  });
  const endings: (() => unknown)[] = [];
  afterEach(async () => {
    for (const end of endings.splice(0).reverse()) await end();
  });

  async function listening(server: Server): Promise<number> {
    server.listen(0, host);
    await once(server, 'listening');
    endings.push(() => server.close());
    return (server.address() as AddressInfo).port;
  }

  /** The API server of a tenant, which says its name. */
  async function apiServer(says: string): Promise<number> {
    return listening(
      createServer({ ...certificates.server }, (socket) => {
        socket.on('error', () => undefined);
        socket.end(says);
      }),
    );
  }

  function gatewayOf(
    id: string | undefined,
    apiServerPort = 1,
    {
      phase = 'Ready',
      proxyProtocol = false,
      connections = 100,
    }: { phase?: VirtualClusterPhase; proxyProtocol?: boolean; connections?: number } = {},
  ): Gateway {
    const routes = new Routes(domain);
    if (id !== undefined)
      routes.put({
        metadata: { namespace: 'acme', name: 'blue', uid: '1', creationTimestamp: '2026-01-01T00:00:00Z' },
        status: { id, phase, endpoint: `https://${host}:${apiServerPort}` },
      } as VirtualCluster);
    const gateway = new Gateway({
      routes,
      routesKnown: Promise.resolve(),
      limits: new TenantLimits({ all: 100, connections: 100, rate: 100, burst: 100 }, () => 0),
      metrics: new GatewayMetrics(),
      connections,
      proxyProtocol,
      clock: systemClock,
      wake: async () => true,
      readiness: new Readiness({ clock: systemClock, patienceMs: 0 }),
    });
    endings.push(() => gateway.close(AbortSignal.abort()));
    return gateway;
  }

  const holderOf = (
    port: number,
    id: string | undefined,
    {
      proxyProtocol = false,
      signal = new AbortController().signal,
      timeoutMs = 5_000,
    }: { proxyProtocol?: boolean; signal?: AbortSignal; timeoutMs?: number } = {},
  ): Promise<PortHolder> => portHolder({ host, port, domain, id, proxyProtocol, signal, timeoutMs });

  /** Takes connections and says nothing, as a process that is stopped. `asked`: it has got something to answer. */
  async function hanging(): Promise<{ port: number; asked: Promise<void> }> {
    const asked = Promise.withResolvers<void>();
    const server = createTcpServer((socket) => {
      endings.push(() => socket.destroy());
      socket.on('error', () => undefined).once('data', () => asked.resolve());
    });
    return { port: await listening(server), asked: asked.promise };
  }

  interface Waiting {
    port: Promise<number>;
    /** Resolves with what it waits for. */
    waits: Promise<string>;
    stop: AbortController;
  }

  function begin(gateway: Gateway, port: number, id: string | undefined): Waiting {
    const stop = new AbortController();
    endings.push(() => stop.abort());
    const waits = Promise.withResolvers<string>();
    const listens = listenOrStandBy({
      ...{ host, port, clock: systemClock, random: () => 0, signal: stop.signal },
      listen: () => gateway.listen(port, host),
      holder: () => holderOf(port, id, { signal: stop.signal }),
      onWait: waits.resolve,
    });
    listens.catch(() => undefined);
    return { port: listens, waits: waits.promise, stop };
  }

  async function whoAnswers(port: number, id: string): Promise<string> {
    const socket = connect({
      ...{ port, host, ca: certificates.ca, servername: `${id}.${domain}` },
      checkServerIdentity: () => undefined,
    });
    endings.push(() => socket.destroy());
    return String((await once(socket, 'data'))[0]);
  }

  it('waits where a gateway of the same stack has it, and goes on when that one has ended', async () => {
    const backend = await apiServer('blue');
    const first = gatewayOf('blueid', backend);
    const port = await first.listen(0, host);
    const second = begin(gatewayOf('blueid', backend), port, 'blueid');
    expect(await second.waits).toMatch(/another gateway of this stack listens on the port/);
    expect(await whoAnswers(port, 'blueid')).toBe('blue');
    await first.close(AbortSignal.abort());
    expect(await second.port).toBe(port);
    expect(await whoAnswers(port, 'blueid')).toBe('blue');
  });

  it('ends while it waits when it is told to', async () => {
    const first = gatewayOf('blueid', await apiServer('blue'));
    const port = await first.listen(0, host);
    const second = begin(gatewayOf('blueid'), port, 'blueid');
    await second.waits;
    second.stop.abort(new Error('received SIGTERM'));
    await expect(second.port).rejects.toThrow('received SIGTERM');
  });

  it('ends at once when it is told to while it asks one that hangs', async () => {
    const { port, asked } = await hanging();
    const second = begin(gatewayOf('blueid'), port, 'blueid');
    await asked;
    second.stop.abort(new Error('received SIGTERM'));
    await expect(second.port).rejects.toThrow('received SIGTERM');
  });

  it('asks nobody once it has been told to end', async () => {
    const { port } = await hanging();
    expect(await holderOf(port, 'blueid', { signal: AbortSignal.abort(), timeoutMs: 2 ** 31 - 1 })).toBe(
      'nobody',
    );
  });

  it('waits for a gateway that has as many connections as it may, and goes on when that one has ended', async () => {
    const backend = await apiServer('blue');
    const first = gatewayOf('blueid', backend, { connections: 0 });
    const port = await first.listen(0, host);
    expect(await holderOf(port, 'blueid')).toBe('busy');
    const second = begin(gatewayOf('blueid', backend), port, 'blueid');
    expect(await second.waits).toMatch(/a gateway at its limit of connections/);
    await first.close(AbortSignal.abort());
    expect(await second.port).toBe(port);
    expect(await whoAnswers(port, 'blueid')).toBe('blue');
  });

  it('knows a gateway of its stack by a tenant whose API server hangs', async () => {
    const { port: apiServerPort, asked } = await hanging();
    const port = await gatewayOf('blueid', apiServerPort).listen(0, host);
    const stop = new AbortController();
    void asked.then(() => stop.abort());
    expect(await holderOf(port, 'blueid', { signal: stop.signal })).toBe('same-stack');
  });

  it('takes one that hangs for one that may be ending, and does not ask it for ever', async () => {
    const { port, asked } = await hanging();
    const stop = new AbortController();
    void asked.then(() => stop.abort());
    expect(await holderOf(port, 'blueid', { signal: stop.signal })).toBe('silent');
    // Where this process is slow it has not even seen that it is connected.
    expect(await holderOf(port, 'blueid', { timeoutMs: 50 })).toMatch(/^(?:silent|nobody)$/);
  });

  it.each([
    ['of another stack', 'redid00'],
    ['that knows no tenant', undefined],
  ])('says so and ends where a gateway %s has it, which goes on alone', async (_, id) => {
    const first = gatewayOf(id, await apiServer('red'));
    const port = await first.listen(0, host);
    const second = begin(gatewayOf('blueid', await apiServer('blue')), port, 'blueid');
    await expect(second.port).rejects.toThrow(
      /^cannot serve tenants on 127\.0\.0\.1:\d+: a vc-gateway of another stack, .* --listen/,
    );
    if (id !== undefined) expect(await whoAnswers(port, id)).toBe('red');
    await expect(whoAnswers(port, 'blueid')).rejects.toMatchObject({
      code: expect.stringContaining('UNRECOGNIZED_NAME'),
    });
  });

  it('says so and ends where another program has it', async () => {
    const port = await apiServer('anybody');
    const second = begin(gatewayOf('blueid'), port, 'blueid');
    await expect(second.port).rejects.toThrow(
      /another program, not a vc-gateway, listens on the port: stop it, or /,
    );
    const talks = await listening(createTcpServer((socket) => void socket.end('220 mail.example.com\r\n')));
    expect(await holderOf(talks, 'blueid')).toBe('other-program');
  });

  it('waits for one that ends as it is asked, but not for ever', async () => {
    const ending = await listening(createTcpServer((socket) => void socket.destroy()));
    expect(await holderOf(ending, 'blueid')).toBe('silent');
    const asked: PortHolder[] = [];
    const listenAt = (answers: PortHolder[], frees: number): Promise<number> =>
      listenOrStandBy({
        ...{
          host,
          port: 7443,
          clock: fastClock(1_000),
          random: () => 0,
          signal: new AbortController().signal,
        },
        listen: async () => {
          if (asked.length === frees) return 7443;
          throw Object.assign(new Error('listen EADDRINUSE'), { code: 'EADDRINUSE' });
        },
        holder: async () => {
          const answer = answers[asked.length % answers.length] as PortHolder;
          asked.push(answer);
          return answer;
        },
        onWait: () => undefined,
      });
    expect(await listenAt(['same-stack', 'silent', 'silent', 'nobody', 'silent'], 14)).toBe(7443);
    asked.length = 0;
    expect(await listenAt(['busy'], 14)).toBe(7443);
    for (const [answers, says] of [
      [['silent'], /another program, not a vc-gateway, listens on the port: stop it/],
      [
        ['nobody'],
        /nothing answers there: stop the program that uses it, or choose another port with --listen/,
      ],
      [['nobody', 'silent'], /nothing answers there: stop the program/],
    ] as const) {
      asked.length = 0;
      await expect(listenAt([...answers], 14)).rejects.toThrow(says);
      expect(asked).toHaveLength(5);
    }
  });

  it('knows a gateway of its stack by a tenant that is asleep, and through the PROXY protocol', async () => {
    const first = gatewayOf('blueid', 1, { phase: 'Asleep', proxyProtocol: true });
    const port = await first.listen(0, host);
    expect(await holderOf(port, 'blueid', { proxyProtocol: true })).toBe('same-stack');
    expect(await holderOf(port, 'redid00', { proxyProtocol: true })).toBe('other-gateway');
    expect(first.takeUsed()).toEqual([]);
  });

  it('cannot tell without a tenant of its own', async () => {
    const port = await gatewayOf('blueid').listen(0, host);
    expect(await holderOf(port, undefined)).toBe('other-gateway');
  });

  it('tries again where nobody answers any more', async () => {
    const server = createTcpServer();
    const port = await listening(server);
    server.close();
    await once(server, 'close');
    expect(await holderOf(port, 'blueid')).toBe('nobody');
  });

  it('says what else keeps it from listening', async () => {
    const refused = Object.assign(new Error('bind EACCES'), { code: 'EACCES' });
    const listens = listenOrStandBy({
      ...{ host, port: 443, clock: systemClock, random: () => 0, signal: new AbortController().signal },
      listen: () => Promise.reject(refused),
      holder: () => Promise.reject(new Error('nobody has it')),
      onWait: () => undefined,
    });
    await expect(listens).rejects.toThrow(/on 127\.0\.0\.1:443: ports below 1024 need privileges/);
  });
});
