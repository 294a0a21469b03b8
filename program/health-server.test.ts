import { once } from 'node:events';
import { request } from 'node:http';
import { connect, Server, type Socket } from 'node:net';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { HealthServer, type HealthServerOptions } from './health-server.ts';

const started: HealthServer[] = [];

async function start(options: HealthServerOptions): Promise<string> {
  const server = new HealthServer(options);
  started.push(server);
  return `http://127.0.0.1:${await server.listen(0)}`;
}

async function get(url: string, init?: RequestInit): Promise<[number, string]> {
  const response = await fetch(url, init);
  return [response.status, await response.text()];
}

afterEach(async () => {
  await Promise.all(started.splice(0).map((server) => server.close()));
});

describe('HealthServer', () => {
  it('goes on when a connection cannot be accepted', async () => {
    const listen = vi.spyOn(Server.prototype, 'listen');
    const base = await start({});
    const server = listen.mock.contexts[0] as Server;
    listen.mockRestore();
    server.emit('error', new Error('accept EMFILE'));
    expect(await get(`${base}/healthz`)).toEqual([200, 'ok\n']);
  });

  it('keeps so many connections open, and ends those that came first', async () => {
    const base = await start({});
    const { hostname: host, port } = new URL(base);
    const sockets: Socket[] = [];
    const open = async (): Promise<void> => {
      const socket = connect({ host, port: Number(port) });
      sockets.push(socket);
      await once(socket, 'connect');
    };
    try {
      await open();
      const [first] = sockets;
      const ended = once(first as Socket, 'close');
      for (let each = 0; each < 128; each++) await open();
      await ended;
      expect(sockets.slice(2).every(({ readyState }) => readyState === 'open')).toBe(true);
      expect(await get(`${base}/healthz`)).toEqual([200, 'ok\n']);
    } finally {
      for (const socket of sockets) socket.destroy();
    }
  });

  it('serves metrics with their content type', async () => {
    const base = await start({
      metrics: { contentType: 'text/plain; version=7', render: async () => 'up 1\n' },
    });
    const response = await fetch(`${base}/metrics?name=up`);
    expect(response.headers.get('content-type')).toBe('text/plain; version=7');
    expect(await response.text()).toBe('up 1\n');
  });

  it('answers 500 when metrics cannot be collected, and goes on', async () => {
    const render = () => Promise.reject(new Error('no registry'));
    const base = await start({ metrics: { contentType: 'text/plain', render } });
    expect(await get(`${base}/metrics`)).toEqual([500, 'metrics cannot be collected: no registry\n']);
    expect(await get(`${base}/healthz`)).toEqual([200, 'ok\n']);
  });

  it('is ready when all checks pass, and says which do not and why', async () => {
    let synced = false;
    const base = await start({
      ready: {
        caches: () => synced,
        lease: () => (synced ? true : 'held by another replica'),
        server: () => (synced ? Promise.resolve(true) : Promise.reject(new Error('connection refused'))),
      },
    });
    expect(await get(`${base}/readyz`)).toEqual([
      503,
      'caches: not yet\nlease: held by another replica\nserver: connection refused\nnot ok\n',
    ]);
    synced = true;
    expect(await get(`${base}/readyz`)).toEqual([200, 'caches: ok\nlease: ok\nserver: ok\nok\n']);
  });

  it('keeps liveness apart from readiness', async () => {
    const base = await start({ live: { loop: () => true }, ready: { caches: () => false } });
    expect(await get(`${base}/healthz`)).toEqual([200, 'loop: ok\nok\n']);
    expect((await get(`${base}/readyz`))[0]).toBe(503);
  });

  it('does not wait for ever for a check', async () => {
    const base = await start({ checkTimeoutMs: 20, ready: { hangs: () => new Promise(() => undefined) } });
    expect(await get(`${base}/readyz`)).toEqual([503, 'hangs: no answer within 20 ms\nnot ok\n']);
  });

  it('answers HEAD without a body, and refuses other methods and paths', async () => {
    const base = await start({});
    expect(await get(`${base}/healthz`, { method: 'HEAD' })).toEqual([200, '']);
    expect((await get(`${base}/healthz`, { method: 'POST' }))[0]).toBe(405);
    expect((await get(`${base}/`))[0]).toBe(404);
    expect((await get(`${base}/metrics`))[0]).toBe(404);
  });

  it('serves pages of others with their query, and goes on when one fails', async () => {
    const base = await start({
      pages: {
        '/debug/echo': (query) => ({ status: 418, body: { name: query.get('name') } }),
        '/debug/broken': () => {
          throw new Error('no idea');
        },
      },
    });
    const response = await fetch(`${base}/debug/echo?name=a%2Fb&x=?`);
    expect([response.status, response.headers.get('content-type')]).toEqual([418, 'application/json']);
    expect(await response.json()).toEqual({ name: 'a/b' });
    expect(await get(`${base}/debug/broken`)).toEqual([500, '/debug/broken has failed: no idea\n']);
    expect((await get(`${base}/debug/echo`, { method: 'POST' }))[0]).toBe(405);
    expect(await get(`${base}/debug`)).toEqual([
      404,
      'there are /metrics, /healthz, /readyz, /debug/echo, /debug/broken\n',
    ]);
  });

  it('says what to do when the port is taken', async () => {
    const base = await start({});
    const second = new HealthServer({});
    await expect(second.listen(Number(new URL(base).port))).rejects.toMatchObject({
      code: 'AddressInUse',
      message: expect.stringContaining('choose another address'),
    });
    await second.close();
  });

  it('closes although a client keeps its connection open', async () => {
    let asked: () => void = () => undefined;
    const checked = new Promise<void>((resolve) => {
      asked = resolve;
    });
    const hangs = () => {
      asked();
      return new Promise<boolean>(() => undefined);
    };
    const server = new HealthServer({ checkTimeoutMs: 60_000, ready: { hangs } });
    const port = await server.listen(0);
    const waiting = request({ host: '127.0.0.1', port, path: '/readyz' });
    const ended = new Promise((resolve) => waiting.on('error', resolve));
    waiting.end();
    await checked;
    await server.close();
    await ended;
    await expect(fetch(`http://127.0.0.1:${port}/healthz`)).rejects.toThrow();
    await server.close();
  });
});
