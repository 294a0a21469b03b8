import { once } from 'node:events';
import { Agent } from 'node:https';
import { connect } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { describe, expect, it } from 'vitest';
import { createTestCertificates } from '../../kube/testing/index.ts';
import { KubeletServer } from './kubelet-server.ts';
import { KubeletWorld, testKubeletTenant, untilEnded } from './testing/kubelet-world.ts';
import { Parsing } from './testing/parsing.ts';

const logs = '/containerLogs/shop/web-1/main';

describe('who may come', () => {
  it('a tenant, by the certificate of its API server', async () => {
    await using world = await KubeletWorld.start();
    expect(await world.ask('/healthz', world.blue.kubeletClient)).toMatchObject({ status: 200, body: 'ok' });
  });

  it('nobody without one, or with that of somebody else', async () => {
    await using world = await KubeletWorld.start();
    const stranger = await testKubeletTenant('red', '11111111-0000-4000-8000-00000000000d');
    for (const pair of [undefined, stranger.kubeletClient, world.blue.frontProxyClient]) {
      const { status, body, headers } = await world.ask(logs, pair);
      expect([status, headers.connection]).toEqual([401, 'close']);
      expect(body).toMatch(/^the client certificate is not that of a tenant's API server: /);
    }
    expect(await world.upgrade('/exec/shop/web-1/main', stranger.kubeletClient)).toMatchObject({
      status: 401,
    });
    expect(world.super.asked).toEqual([]);
  });

  it('of a tenant that has left nobody, at once, on connections that are open too', async () => {
    await using world = await KubeletWorld.start();
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const { blue } = world;
    await world.ask('/healthz', blue.kubeletClient, { agent });
    world.tenants.leave(blue.info.uid);
    await world.ask('/healthz', blue.kubeletClient, { agent }).then(
      ({ status }) => expect(status).toBe(401),
      // The connection was cut as the request was on its way.
      (error: NodeJS.ErrnoException) => expect(error.code).toBe('ECONNRESET'),
    );
    expect(await world.ask(logs, blue.kubeletClient)).toMatchObject({ status: 401 });
    agent.destroy();
  });

  it('of a tenant with a new authority only whom that has signed, and what is open is cut', async () => {
    await using world = await KubeletWorld.start();
    const { blue } = world;
    const { socket } = await world.stream('/exec/shop/web-1/main', blue.kubeletClient);
    const cut = untilEnded(socket);
    const rotated = await testKubeletTenant('blue', blue.info.uid);
    world.serve(blue, rotated);
    await cut;
    socket.destroy();
    expect(await world.ask('/healthz', blue.kubeletClient)).toMatchObject({ status: 401 });
    expect(await world.ask('/healthz', rotated.kubeletClient)).toMatchObject({ status: 200 });
  });
});

describe('what is asked of it', () => {
  it('is refused with the reason where it concerns the whole node', async () => {
    await using world = await KubeletWorld.start();
    for (const path of ['/runningpods/', '/logs/', '/stats/container', '/metrics/resource', '/configz']) {
      const { status, body } = await world.ask(path, world.blue.kubeletClient);
      expect([path, status]).toEqual([path, 403]);
      expect(body).toMatch(/^\/[a-z]+ is not available: the node is shared/);
      expect(await world.upgrade(path, world.blue.kubeletClient)).toMatchObject({ status: 403 });
    }
    expect(world.super.asked).toEqual([]);
  });

  it('may be anything', async () => {
    await using world = await KubeletWorld.start();
    for (const path of ['/exec/shop/%E0%A4%A/main', '/%', '/constructor/shop/web', '//', '/exec', '/ä']) {
      const asked = encodeURI(path);
      expect(await world.ask(asked, world.blue.kubeletClient)).toMatchObject({ status: 404 });
      expect(await world.upgrade(asked, world.blue.kubeletClient)).toMatchObject({ status: 404 });
    }
    expect(await world.ask('/exec/shop/web-1/main', world.blue.kubeletClient)).toMatchObject({
      status: 400,
      body: 'Upgrade request required',
    });
    expect(await world.ask(logs, world.blue.kubeletClient, { method: 'DELETE' })).toMatchObject({
      status: 405,
    });
    expect(await world.upgrade(logs, world.blue.kubeletClient)).toMatchObject({ status: 405 });
    expect(world.faults).toEqual([]);
  });

  it('is refused as a stream of any protocol but those of kubelets', async () => {
    await using world = await KubeletWorld.start();
    const { kubeletClient } = world.blue;
    const exec = '/exec/shop/web-1/main';
    const others = ['h2c', 'TLS/1.3', 'SPDY/3', 'websocket, h2c', 'SPDY/3.1, h2c', 'xwebsocket'];
    for (const upgrade of [...others, ['websocket', 'h2c'], ['SPDY/3.1', 'SPDY/3.1']]) {
      expect(await world.upgrade(exec, kubeletClient, { upgrade })).toMatchObject({
        status: 400,
        body: 'a stream is an upgrade to websocket or SPDY/3.1',
      });
    }
    expect(world.super.asked).toEqual([]);
    for (const upgrade of ['websocket', 'WebSocket', 'SPDY/3.1', 'spdy/3.1']) {
      const found = await world.upgrade(exec, kubeletClient, { upgrade });
      if ('socket' in found) found.socket.destroy();
    }
    expect(world.super.asked).toHaveLength(4);
  });

  it('has its query parsed only for a tenant, and only with as many parameters as are accepted', async () => {
    await using world = await KubeletWorld.start();
    using parsing = new Parsing();
    const { kubeletClient, frontProxyClient } = world.blue;
    const parameters = 'a&'.repeat(500_000);
    for (const [path, other] of [
      ['/exec/shop/web-1/main', frontProxyClient],
      ['/pods', frontProxyClient],
      ['/apis/metrics.k8s.io/v1beta1/pods', kubeletClient],
    ] as const) {
      for (const pair of [undefined, other]) {
        expect(await world.ask(`${path}?${parameters}`, pair)).toMatchObject({ status: 401 });
        expect(await world.upgrade(`${path}?a=b`, pair)).toMatchObject({ status: 401 });
      }
      const own = other === kubeletClient ? frontProxyClient : kubeletClient;
      expect(await world.ask(`${path}?${parameters}`, own)).toMatchObject({ status: 400 });
    }
    expect(await world.upgrade(`/exec/shop/web-1/main?${parameters}`, kubeletClient)).toMatchObject({
      status: 400,
      body: 'the request has more parameters than are accepted: at most 4096',
    });
    expect(parsing.queries).toEqual([]);
    (
      await world.stream(`/exec/shop/web-1/main?${'command=a&'.repeat(1_000)}output=1`, kubeletClient)
    ).socket.destroy();
    expect(parsing.queries).toEqual([1_001]);
    expect(world.faults).toEqual([]);
  });

  it('and fails by a fault of ours is told without its details', async () => {
    const run = (): Promise<never> => Promise.reject(new Error('details'));
    await using world = await KubeletWorld.start({ run });
    const { status, body } = await world.ask('/run/shop/web-1/main?cmd=ls', world.blue.kubeletClient, {
      method: 'POST',
    });
    expect([status, body]).toEqual([500, 'this node could not carry out the request; try again']);
    expect(String(world.faults[0])).toContain('details');
  });
});

describe('how much one tenant may have', () => {
  it('is so many connections; the others do not notice', async () => {
    await using world = await KubeletWorld.start({ socketsPerTenant: 2 });
    const { blue, green } = world;
    const streams = await Promise.all(
      [1, 2].map(() => world.stream('/exec/shop/web-1/main', blue.kubeletClient)),
    );
    const refused = await world.upgrade('/exec/shop/web-1/main', blue.kubeletClient);
    expect(refused).toMatchObject({ status: 429, body: expect.stringContaining('2 connections') });
    const other = await world.stream('/exec/shop/web-1/main', green.kubeletClient);
    other.socket.destroy();
    const [first] = streams;
    const closed = once(first?.socket as NodeJS.EventEmitter, 'close');
    first?.socket.destroy();
    await closed;
    await expect.poll(() => world.tenants.sockets.of(blue.info.uid)).toBe(1);
    const again = await world.stream('/exec/shop/web-1/main', blue.kubeletClient);
    for (const { socket } of [...streams, again]) socket.destroy();
  });

  it('is so many long requests that stay open; the others do not notice', async () => {
    await using world = await KubeletWorld.start();
    const { blue, green } = world;
    world.super.onRequest = (_request, response) => response.flushHeaders();
    const long = `/containerLogs/shop/web-1/main?follow=true&x=${'x'.repeat(1_000_000)}`;
    const open = [];
    for (let n = 0; n < 8; n += 1) open.push(await world.begin(long, blue.kubeletClient));
    expect(open.map(({ statusCode }) => statusCode)).toEqual(Array.from({ length: 8 }, () => 200));
    const refused = { status: 429, body: expect.stringContaining('too long together') };
    expect(await world.ask(long, blue.kubeletClient)).toMatchObject(refused);
    const exec = `/exec/shop/web-1/main?command=${'x'.repeat(1_000_000)}`;
    expect(await world.upgrade(exec, blue.kubeletClient)).toMatchObject(refused);
    const others = await world.begin(long, green.kubeletClient);
    expect(others.statusCode).toBe(200);
    open.pop()?.destroy();
    await expect.poll(() => world.tenants.sockets.of(blue.info.uid)).toBe(7);
    const again = await world.begin(long, blue.kubeletClient);
    expect(again.statusCode).toBe(200);
    for (const response of [...open, others, again]) response.destroy();
    await world.untilIdle();
  });

  it('is one stream on each connection, however it is begun', async () => {
    await using world = await KubeletWorld.start();
    world.super.onRequest = (_request, response) => response.flushHeaders();
    const { ca, port } = world;
    const socket = connectTls({ host: '127.0.0.1', port, ca, ...world.blue.kubeletClient });
    socket.on('error', () => undefined);
    const closed = once(socket, 'close');
    socket.resume();
    socket.write(
      'GET /containerLogs/shop/web-1/main?follow=true HTTP/1.1\r\nHost: node\r\n\r\n' +
        'POST /exec/shop/web-1/main?command=sh HTTP/1.1\r\nHost: node\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n',
    );
    await closed;
    await world.untilIdle();
    expect(world.super.asked.filter(({ url }) => url.includes('/exec'))).toEqual([]);
  });

  it('does not count what only waits for its next request', async () => {
    await using world = await KubeletWorld.start({ socketsPerTenant: 2 });
    const agents = [1, 2, 3].map(() => new Agent({ keepAlive: true }));
    for (const agent of agents)
      expect(await world.ask('/healthz', world.blue.kubeletClient, { agent })).toMatchObject({ status: 200 });
    expect(world.tenants.sockets.of(world.blue.info.uid)).toBe(2);
    for (const agent of agents) agent.destroy();
  });
});

describe('the server', () => {
  it('survives clients that speak no TLS, or go away', async () => {
    await using world = await KubeletWorld.start();
    const plain = connect(world.port, '127.0.0.1');
    plain.on('error', () => undefined).end('GET / HTTP/1.0\r\n\r\n');
    await once(plain, 'close');
    expect(await world.ask('/healthz', world.blue.kubeletClient)).toMatchObject({ status: 200 });
  });

  it('closes although somebody holds a connection without a word', async () => {
    const world = await KubeletWorld.start();
    const silent = connect(world.port, '127.0.0.1');
    silent.on('error', () => undefined);
    await once(silent, 'connect');
    // The server has it when it answers one that came later.
    await world.ask('/healthz', world.blue.kubeletClient);
    const gone = once(silent, 'close');
    await world[Symbol.asyncDispose]();
    await gone;
  });

  it('lets in whoever is known while it is flooded by strangers', async () => {
    await using world = await KubeletWorld.start();
    const strangers = Array.from({ length: 300 }, () => connect(world.port, '127.0.0.1'));
    const closed = Promise.withResolvers<void>();
    for (const socket of strangers) socket.on('error', () => undefined).once('close', () => closed.resolve());
    // The oldest of them makes room for the newest.
    await closed.promise;
    expect(await world.ask('/healthz', world.blue.kubeletClient)).toMatchObject({ status: 200 });
    for (const socket of strangers) socket.destroy();
  });

  it('cuts off one that sends a body on and on, as nothing here takes one', async () => {
    await using world = await KubeletWorld.start();
    const socket = connectTls({ port: world.port, ca: world.ca, ...world.blue.kubeletClient });
    const closed = new Promise((resolve) => socket.once('close', resolve));
    socket.on('error', () => undefined).resume();
    socket.write(`POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: ${1 << 30}\r\n\r\n`);
    const chunk = Buffer.alloc(1 << 20);
    const more = (): void => {
      while (!socket.destroyed && socket.write(chunk));
    };
    socket.on('drain', more);
    more();
    await closed;
    expect(socket.bytesWritten).toBeLessThan(100 << 20);
    expect(await world.ask('/healthz', world.blue.kubeletClient)).toMatchObject({ status: 200 });
  });

  it('shows a new certificate from the next connection on', async () => {
    await using world = await KubeletWorld.start();
    const { ca, server } = await createTestCertificates();
    const { kubeletClient } = world.blue;
    world.server.renew(server);
    expect(await world.ask('/healthz', kubeletClient, { ca })).toMatchObject({ status: 200 });
    await expect(world.ask('/healthz', kubeletClient)).rejects.toThrow(/verify|signature/);
  });

  it('says when its port is taken', async () => {
    await using world = await KubeletWorld.start();
    const { server: certificate } = await createTestCertificates();
    const nothing = async (): Promise<void> => undefined;
    const second = new KubeletServer({
      certificate,
      tenants: world.tenants,
      streams: { logs: nothing, upgrade: nothing },
      run: nothing,
      nodeApi: nothing,
      metricsApi: nothing,
    });
    await expect(second.listen('127.0.0.1', world.port)).rejects.toThrow('EADDRINUSE');
    await second.close();
  });
});
