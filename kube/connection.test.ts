import { createServer } from 'node:net';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { KubeClient } from './client.ts';
import { type CallRecord, Connection, type ConnectionOptions } from './connection.ts';
import { ConnectionError } from './errors.ts';
import { resources } from './resources.ts';
import { createTestCertificates, FakeApiServer, type TestCertificates } from './testing/index.ts';
import { watch } from './watch.ts';

describe('connection', () => {
  let certificates: TestCertificates;
  let cleanups: (() => Promise<void>)[] = [];

  beforeAll(async () => {
    certificates = await createTestCertificates();
  });

  afterEach(async () => {
    for (const cleanup of cleanups.reverse()) await cleanup();
    cleanups = [];
  });

  async function start(options: Parameters<typeof FakeApiServer.start>[0] = {}): Promise<FakeApiServer> {
    const server = await FakeApiServer.start(options);
    cleanups.push(() => server.stop());
    return server;
  }

  function connect(options: ConnectionOptions): KubeClient {
    const connection = new Connection(options);
    cleanups.push(() => connection.close());
    return new KubeClient(connection);
  }

  const transports = [
    ['HTTP/1.1', () => ({})],
    ['HTTP/1.1 over TLS', () => ({ certificates, http2: false })],
    ['HTTP/2', () => ({ certificates })],
  ] as const;

  describe.each(transports)('Connection over %s', (_name, options) => {
    it('serves many calls at once', async () => {
      const server = await start(options());
      const client = connect(server.connectionOptions);
      server.put(resources.pods, { metadata: { name: 'a', namespace: 'ns' } });
      const gets = Array.from({ length: 200 }, () =>
        client.get(resources.pods, { name: 'a', namespace: 'ns' }),
      );
      const names = new Set((await Promise.all(gets)).map(({ metadata }) => metadata.name));
      expect(names).toEqual(new Set(['a']));
    });

    it('keeps back a write that may not go when its turn has come, and lets everything else through', async () => {
      const server = await start(options());
      let isOpen = true;
      const beforeWrite = (): void => {
        if (!isOpen) throw Object.assign(new Error('not now'), { code: 'NotNow' });
      };
      const client = connect({ ...server.connectionOptions, beforeWrite });
      const early = client.create(resources.pods, { metadata: { name: 'a', namespace: 'ns' } });
      // Everything has had its turn but the network: what was asked for waits for its connection.
      await new Promise(process.nextTick);
      await Promise.all(Array.from({ length: 20 }, () => Promise.resolve()));
      isOpen = false;
      await expect(early).rejects.toMatchObject({ name: 'ConnectionError', code: 'NotNow', retryable: true });
      expect((await client.list(resources.pods)).items).toEqual([]);
      await expect(client.delete(resources.pods, { name: 'a', namespace: 'ns' })).rejects.toThrow('not now');
      isOpen = true;
      await client.create(resources.pods, { metadata: { name: 'a', namespace: 'ns' } });
      expect(server.requests.map(({ method }) => method)).toEqual(['GET', 'POST']);
    });

    it('reports a connection that is cut before the answer', async () => {
      const server = await start(options());
      const client = connect(server.connectionOptions);
      server.inject({ fault: { kind: 'reset' } });
      await expect(client.list(resources.pods)).rejects.toBeInstanceOf(ConnectionError);
      expect((await client.list(resources.pods)).items).toEqual([]);
    });

    it('reports an answer that is cut within its body, and never returns half of it', async () => {
      const server = await start(options());
      const client = connect(server.connectionOptions);
      server.put(resources.pods, { metadata: { name: 'a', namespace: 'ns' } });
      for (const kind of ['reset-in-body', 'half-body'] as const) {
        server.inject({ fault: { kind } });
        await expect(client.list(resources.pods)).rejects.toBeInstanceOf(ConnectionError);
      }
      expect((await client.list(resources.pods)).items).toHaveLength(1);
    });

    it('gives up on a server that never answers, and works again afterwards', async () => {
      const server = await start(options());
      const client = connect(server.connectionOptions);
      // The time for an answer includes that for a first connection.
      await client.list(resources.pods);
      server.inject({ fault: { kind: 'hang' } });
      await expect(client.list(resources.pods, { timeoutMs: 50 })).rejects.toMatchObject({
        name: 'ConnectionError',
        message: expect.stringContaining('no answer in time'),
      });
      await server.until(() => server.requests.length === 2);
      expect((await client.list(resources.pods)).items).toEqual([]);
    });

    it("ends a call with its signal's reason", async () => {
      const server = await start(options());
      const client = connect(server.connectionOptions);
      server.inject({ fault: { kind: 'hang' } });
      const reason = new Error('enough');
      const controller = new AbortController();
      const call = client.list(resources.pods, { signal: controller.signal });
      await server.until(() => server.requests.length > 0);
      controller.abort(reason);
      await expect(call).rejects.toBe(reason);
      await expect(client.list(resources.pods, { signal: controller.signal })).rejects.toBe(reason);
    });

    it('ends everything when closed', async () => {
      const server = await start(options());
      const client = connect(server.connectionOptions);
      server.inject({ fault: { kind: 'hang' } });
      const call = client.list(resources.pods).catch((error: unknown) => error);
      await server.until(() => server.requests.length > 0);
      await client.connection.close();
      expect(await call).toMatchObject({ name: 'ConnectionError', retryable: true });
      await expect(client.list(resources.pods)).rejects.toMatchObject({ code: 'UND_ERR_DESTROYED' });
    });
  });

  describe('Connection', () => {
    it('sends hundreds of calls over a few connections', async () => {
      const server = await start({ certificates });
      const client = connect(server.connectionOptions);
      await Promise.all(Array.from({ length: 200 }, () => client.list(resources.pods)));
      expect(server.openConnections).toBe(16);
    });

    it('keeps many watches in one HTTP/2 connection', async () => {
      const server = await start({ certificates });
      const client = connect(server.connectionOptions);
      const watches = Array.from({ length: 30 }, () =>
        watch(client.connection, resources.pods, { resourceVersion: '1', timeoutSeconds: 300 }),
      );
      const events = watches.map((each) => each.next());
      await server.until(() => server.watches().length === 30);
      expect(server.openConnections).toBe(1);
      server.put(resources.pods, { metadata: { name: 'a', namespace: 'ns' } });
      await Promise.all(events);
      await Promise.all(watches.map((each) => each.return()));
    });

    it('proves who it is with its client certificate', async () => {
      const server = await start({ certificates, requireClientCertificate: true });
      expect((await connect(server.connectionOptions).list(resources.pods)).items).toEqual([]);
      const anonymous = connect({ server: server.url, ca: certificates.ca });
      await expect(anonymous.list(resources.pods)).rejects.toBeInstanceOf(ConnectionError);
    });

    it('refuses a server whose certificate is of another CA, and says so', async () => {
      const server = await start({ certificates });
      const other = await createTestCertificates();
      const client = connect({ server: server.url, ca: other.ca });
      await expect(client.list(resources.pods)).rejects.toThrow(/not signed by the CA|certificate/);
    });

    it('says that nothing listens', async () => {
      const server = await start();
      await server.stop();
      const client = connect({ server: server.url });
      await expect(client.list(resources.pods)).rejects.toMatchObject({
        code: 'ECONNREFUSED',
        retryable: true,
        server: server.url,
        message: expect.stringContaining('is the API server running?'),
      });
    });

    it.each(['before', 'while'])(
      'sends calls made %s a GOAWAY arrives, and leaves open watches alone',
      async (moment) => {
        const server = await start({ certificates });
        const client = connect(server.connectionOptions);
        const events = watch(client.connection, resources.pods, {
          resourceVersion: '1',
          timeoutSeconds: 300,
        });
        const event = events.next();
        await server.until(() => server.watches().length === 1);
        server.goAway();
        if (moment === 'before') await new Promise((resolve) => setImmediate(resolve));
        const calls = Array.from({ length: 20 }, () => client.list(resources.pods));
        expect(await Promise.all(calls)).toHaveLength(20);
        server.put(resources.pods, { metadata: { name: 'a', namespace: 'ns' } });
        expect((await event).value).toMatchObject({ type: 'ADDED', object: { metadata: { name: 'a' } } });
        expect(server.requests.filter(({ verb }) => verb === 'watch')).toHaveLength(1);
        await events.return();
      },
    );

    it('opens further connections when watches fill one', async () => {
      const server = await start({ certificates });
      const client = connect(server.connectionOptions);
      const watches = Array.from({ length: 150 }, () =>
        watch(client.connection, resources.pods, { resourceVersion: '1', timeoutSeconds: 300 }),
      );
      const events = watches.map((each) => each.next());
      await server.until(() => server.watches().length === 150);
      expect((await client.list(resources.pods)).items).toEqual([]);
      server.put(resources.pods, { metadata: { name: 'a', namespace: 'ns' } });
      expect(await Promise.all(events)).toHaveLength(150);
      await Promise.all(watches.map((each) => each.return()));
    });

    it('ends a call even while the connection is still being made', async () => {
      // Accepts TCP and never answers the TLS hello: calls wait in a queue that hears no signal.
      const mute = createServer();
      await new Promise<void>((resolve) => mute.listen(0, '127.0.0.1', resolve));
      const sockets = new Set<{ destroy(): void }>();
      mute.on('connection', (socket) => sockets.add(socket.on('error', () => {})));
      cleanups.push(async () => {
        for (const socket of sockets) socket.destroy();
        await new Promise((resolve) => mute.close(resolve));
      });
      const address = mute.address();
      const port = typeof address === 'object' ? address?.port : undefined;
      const client = connect({ server: `https://127.0.0.1:${port}` });
      const controller = new AbortController();
      const calls = [1, 2, 3].map(() => client.list(resources.pods, { signal: controller.signal }));
      const settled = Promise.allSettled(calls);
      controller.abort(new Error('enough'));
      for (const result of await settled) expect(result).toMatchObject({ reason: { message: 'enough' } });
    });

    it('records every call once, failures with status 0', async () => {
      const server = await start();
      const calls: CallRecord[] = [];
      const client = connect({ ...server.connectionOptions, onCall: (call) => calls.push(call) });
      await client.create(resources.pods, { metadata: { name: 'a', namespace: 'ns' } });
      await client.get(resources.pods, { name: 'b', namespace: 'ns' }).catch(() => {});
      await client.raw('GET', '/readyz');
      server.inject({ fault: { kind: 'reset' } });
      await client.list(resources.nodes).catch(() => {});
      expect(calls.map(({ method, verb, resource, status }) => [method, verb, resource, status])).toEqual([
        ['POST', 'create', 'pods', 201],
        ['GET', 'get', 'pods', 404],
        ['GET', 'other', '', 200],
        ['GET', 'list', 'nodes', 0],
      ]);
    });

    it('keeps a path in front of the API', async () => {
      const server = await start();
      const client = connect({ server: `${server.url}/clusters/one/` });
      await client.raw('GET', '/readyz').catch(() => {});
      expect(server.requests[0]?.path).toBe('/clusters/one/readyz');
    });

    it('refuses options that cannot work', () => {
      expect(() => new Connection({ server: 'localhost:6443' })).toThrow('https://host:port');
      expect(() => new Connection({ server: 'https://x', cert: 'a' })).toThrow('key');
    });
  });
});

describe('connection abort', () => {
  let certificates: TestCertificates;
  let server: FakeApiServer;

  beforeAll(async () => {
    certificates = await createTestCertificates();
  });

  afterEach(() => server.stop());

  describe('Connection over HTTP/2', () => {
    // What undici emits without a listener is an uncaught exception, which fails the run.
    it('can be closed after a call that was aborted in the very turn in which it was made', async () => {
      server = await FakeApiServer.start({ certificates });
      for (let turn = 0; turn < 3; turn++) {
        const connection = new Connection(server.connectionOptions);
        const client = new KubeClient(connection);
        await client.list(resources.pods);
        const abort = new AbortController();
        const call = client.list(resources.pods, { signal: abort.signal });
        abort.abort(new Error('changed my mind'));
        await expect(call).rejects.toThrow('changed my mind');
        await client.list(resources.pods);
        await connection.close();
      }
    });
  });
});
