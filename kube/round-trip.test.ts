import { EventEmitter, once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { createSecureServer } from 'node:http2';
import { type AddressInfo, createServer as createRawServer } from 'node:net';
import { Readable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import { createServer as createTlsServer } from 'node:tls';
import { Client, type Dispatcher } from 'undici';
import { describe, expect, it, vi } from 'vitest';
import { Chunks } from './chunks.ts';
import { type Call, Connection, type ConnectionOptions } from './connection.ts';
import { pieceBytes, readText, roundTrip } from './round-trip.ts';
import { createTestCertificates } from './testing/index.ts';

/** A server that counts its connections, and answers `/held` when it is told to. */
class CountingServer implements AsyncDisposable {
  connections = 0;
  readonly seen: string[] = [];
  readonly connection: Connection;
  readonly #server: Server;
  readonly #held = Promise.withResolvers<ServerResponse>();

  private constructor(server: Server) {
    this.#server = server;
    server.on('connection', () => (this.connections += 1));
    server.on('request', (request, response: ServerResponse) => {
      request.resume();
      this.seen.push(`${request.method} ${request.url}`);
      if (request.url === '/held') this.#held.resolve(response);
      else response.end('{}');
    });
    const { port } = server.address() as AddressInfo;
    this.connection = new Connection({ server: `http://127.0.0.1:${port}`, maxConnections: 1 });
  }

  static async start(): Promise<CountingServer> {
    const server = createServer({ keepAliveTimeout: 60_000 });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return new CountingServer(server);
  }

  /** Resolves to how to answer it. */
  held(): Promise<ServerResponse> {
    return this.#held.promise;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.connection.close();
    this.#server.closeAllConnections();
    this.#server.close();
  }
}

const call = (method: string, path: string, more: Partial<Call> = {}): Call => ({
  method,
  path,
  verb: 'other',
  resource: '',
  ...more,
});

describe('large answers to calls', () => {
  it('count as time of their server, whose next call waits for its turn, and small ones do not', async () => {
    const mebibyte = 2 ** 20;
    const server = createServer((request, response) => {
      const bytes = Number(request.url?.slice(1));
      response.end('x'.repeat(bytes));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    let counted = 0;
    const taken = (): number => {
      const ms = Math.round(counted);
      counted = 0;
      return ms;
    };
    let rest = Promise.resolve();
    const answerMeter = { worked: (ms: number) => (counted += ms), turn: () => rest };
    await using connection = closing(
      new Connection({
        server: `http://127.0.0.1:${port}`,
        answerMeter,
        readLimits: { objectBytes: 4 * mebibyte },
      }),
    );
    const ask = (bytes: number, verb: Call['verb'] = 'patch') =>
      connection.request(call('GET', `/${bytes}`, { verb }));
    await ask(60_000);
    expect(taken()).toBe(0);
    await ask(2 * mebibyte);
    await ask(2 * mebibyte, 'list');
    expect(taken()).toBe(20);
    await expect(ask(100 * mebibyte)).rejects.toThrow('larger than');
    expect(taken()).toBeGreaterThanOrEqual(340);
    await connection.requestAside({ ...call('GET', `/${mebibyte}`), method: 'GET' });
    expect(taken()).toBe(10);
    await connection.request(call('GET', `/${4 * mebibyte}`, { verb: 'get', maxBytes: 12 * mebibyte }));
    expect(taken()).toBe(40);

    const { promise, resolve } = Promise.withResolvers<void>();
    rest = promise;
    let isAnswered = false;
    const next = ask(1).then(() => (isAnswered = true));
    await ask(1, 'list');
    expect(isAnswered).toBe(false);
    resolve();
    await next;
    server.closeAllConnections();
    server.close();
  });
});

it.each(['patch', 'list'] as const)(
  'a large answer to a %s is read in pieces, each in its turn',
  async (verb) => {
    const mebibyte = 2 ** 20;
    let sent = 0;
    const server = createServer((_request, response) => {
      const send = (): void => {
        while (sent < 8 * mebibyte) {
          sent += 65_536;
          if (!response.write('x'.repeat(65_536))) return;
        }
        response.end();
      };
      response.on('drain', send);
      send();
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    const asked: (() => void)[] = [];
    const oneAsked = new EventTarget();
    const meter = {
      worked: () => undefined,
      turn: (): Promise<void> | undefined =>
        sent === 0
          ? undefined
          : new Promise((resolve) => {
              asked.push(resolve);
              oneAsked.dispatchEvent(new Event('asked'));
            }),
    };
    await using connection = closing(
      new Connection({ server: `http://127.0.0.1:${port}`, answerMeter: meter, meter }),
    );
    const nextAsked = () =>
      asked.length > 0 ||
      new Promise((resolve) => oneAsked.addEventListener('asked', resolve, { once: true }));
    let pieces = 0;
    let isAnswered = false;
    const answer = connection.request(call('GET', '/', { verb })).finally(() => (isAnswered = true));
    for (; pieces < 3; pieces += 1) {
      await nextAsked();
      expect(asked.length).toBe(1);
      asked.shift()?.();
    }
    await nextAsked();
    expect(isAnswered).toBe(false);
    while (!isAnswered) {
      asked.shift()?.();
      await setImmediate();
    }
    expect((await answer).text.length).toBe(8 * mebibyte);
    server.closeAllConnections();
    server.close();
  },
);

it('rests while an answer is read count neither towards its timeout nor as the distance of its server, and hold up no other call', async () => {
  const mebibyte = 2 ** 20;
  const server = createServer((request, response) => {
    response.end(request.url === '/list' ? 'x'.repeat(4 * mebibyte) : '{}');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const resting: (() => void)[] = [];
  const turn = () => new Promise<void>((resolve) => resting.push(resolve));
  const durationsMs: number[] = [];
  await using connection = closing(
    new Connection({
      server: `http://127.0.0.1:${port}`,
      meter: { worked: () => undefined, turn },
      callsWhenNear: 2,
      maxConnections: 8,
      onCall: ({ verb, durationMs }) => verb === 'list' && durationsMs.push(durationMs),
    }),
  );
  const timeoutMs = 60_000;
  const restMs = 10 * timeoutMs;
  let aheadMs = 0;
  const realNow = performance.now.bind(performance);
  using _now = vi.spyOn(performance, 'now').mockImplementation(() => realNow() + aheadMs);
  let restedMs = 0;
  const onRest = (ms: number): void => {
    restedMs += ms;
  };
  let ended = 0;
  const lists = Array.from({ length: 2 }, () =>
    connection.request(call('GET', '/list', { verb: 'list', timeoutMs, onRest })).finally(() => (ended += 1)),
  );
  const texts = Promise.all(lists.map(async (list) => (await list).text.length));
  texts.catch(() => undefined);
  /** Until each list rests or has ended. */
  const untilResting = async (): Promise<void> => {
    while (resting.length + ended < 2) await setImmediate();
  };
  await untilResting();
  for (let n = 0; n < 3; n += 1) await connection.request(call('GET', '/', { verb: 'get' }));
  expect(ended).toBe(0);
  for (; ended < 2; await untilResting()) {
    aheadMs += restMs;
    for (const resume of resting.splice(0)) resume();
  }
  expect(await texts).toEqual([4 * mebibyte, 4 * mebibyte]);
  expect(restedMs).toBeGreaterThanOrEqual(2 * 2 * restMs);
  expect(durationsMs.filter((ms) => ms < timeoutMs)).toHaveLength(2);
  server.closeAllConnections();
  server.close();
});

it('a rest that begins during another counts once, and the deadline waits for both', async () => {
  vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout'] });
  try {
    const [piece, end] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let restedMs = 0;
    const pace = {
      read: () => undefined,
      turn: () => piece.promise,
      parseTurn: () => end.promise,
      rested: (ms: number) => {
        restedMs += ms;
      },
      end: () => undefined,
    };
    let handler: Dispatcher.DispatchHandler | undefined;
    const dispatcher = {
      dispatch: (_options: unknown, given: Dispatcher.DispatchHandler) => {
        handler = given;
        return true;
      },
    } as unknown as Dispatcher;
    const controller = {
      pause: () => undefined,
      resume: () => undefined,
    } as unknown as Dispatcher.DispatchController;
    const options = { method: 'GET', path: '/', deadlineMs: 1_000, maxBytes: 2 ** 22, pace } as const;
    const answer = roundTrip(dispatcher, options, undefined);
    answer.catch(() => undefined);
    handler?.onResponseStart?.(controller, 200, {});
    handler?.onResponseData?.(controller, Buffer.alloc(pieceBytes));
    await vi.advanceTimersByTimeAsync(600);
    handler?.onResponseEnd?.(controller, {});
    await vi.advanceTimersByTimeAsync(600);
    piece.resolve();
    await vi.advanceTimersByTimeAsync(5_000);
    end.resolve();
    expect((await answer).text.length).toBe(pieceBytes);
    expect(restedMs).toBe(6_200);
  } finally {
    vi.useRealTimers();
  }
});

it('no more than four answers of one server are read at once beyond their first piece', async () => {
  const mebibyte = 2 ** 20;
  const sent: number[] = [];
  const open: ServerResponse[] = [];
  const server = createServer((_request, response) => {
    const index = sent.push(0) - 1;
    open.push(response);
    const send = (): void => {
      // It falls silent before its end.
      while ((sent[index] ?? 0) < 24 * mebibyte) {
        sent[index] = (sent[index] ?? 0) + 65_536;
        if (!response.write('x'.repeat(65_536))) return;
      }
    };
    response.on('drain', send);
    send();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const meter = { worked: () => undefined, turn: () => undefined };
  await using connection = closing(
    new Connection({
      server: `http://127.0.0.1:${port}`,
      meter,
      answerMeter: meter,
      readLimits: { objectBytes: 32 * mebibyte },
    }),
  );
  const answers = Array.from({ length: 6 }, () => connection.request(call('GET', '/', { verb: 'get' })));
  const wholly = () => sent.filter((bytes) => bytes >= 24 * mebibyte).length;
  await expect.poll(wholly).toBe(4);
  expect(sent.length).toBe(6);
  for (const [index, response] of open.entries()) if ((sent[index] ?? 0) >= 24 * mebibyte) response.end();
  await expect.poll(wholly).toBe(6);
  for (const response of open) response.end();
  for (const { text } of await Promise.all(answers)) expect(text.length).toBe(24 * mebibyte);
  server.closeAllConnections();
  server.close();
});

describe('an answer that goes aside and does not end', () => {
  it('counts with what has come of it', async () => {
    const server = createServer((_request, response) =>
      response.write('x'.repeat(2 ** 20), () => response.destroy()),
    );
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    const counted: number[] = [];
    const answerMeter = { worked: (ms: number) => counted.push(Math.round(ms)), turn: () => undefined };
    await using connection = closing(new Connection({ server: `http://127.0.0.1:${port}`, answerMeter }));
    const asked = connection.requestAside({ ...call('GET', '/'), method: 'GET' });
    await expect(asked).rejects.toThrow();
    expect(counted).toEqual([10]);
    server.closeAllConnections();
    server.close();
  });
});

describe('an answer whose framing takes more time than its bytes', () => {
  /** A server that sends these bytes for each request. */
  async function rawServer(bytes: Buffer): Promise<{ server: string } & AsyncDisposable> {
    const server = createRawServer((socket) => {
      socket.on('error', () => undefined).on('data', () => socket.write(bytes));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    return {
      server: `http://127.0.0.1:${port}`,
      [Symbol.asyncDispose]: async () => void server.close(),
    };
  }

  const chunked = (size: number, count: number): Buffer => {
    const chunk = `${size.toString(16)}\r\n${'x'.repeat(size)}\r\n`;
    return Buffer.from(
      `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${chunk.repeat(count)}0\r\n\r\n`,
    );
  };

  it.each([
    ['one byte', 1, 2_000, 2_000 * 1_024],
    // What kube-apiserver sends at least, but for single events and the end of an answer.
    ['2 KiB', 2_048, 1_000, 2_000 * 1_024],
  ])('counts as a KiB for each chunk of %s at least', async (_what, size, count, work) => {
    await using raw = await rawServer(chunked(size, count));
    const client = new Client(raw.server);
    let read = 0;
    let turns = 0;
    const pace = {
      read: (bytes: number) => {
        read += bytes;
      },
      turn: () => {
        turns += 1;
        return undefined;
      },
      parseTurn: () => undefined,
      rested: () => undefined,
      end: () => undefined,
    };
    const options = { method: 'GET', path: '/', deadlineMs: 60_000, maxBytes: 2 ** 22, pace } as const;
    const { text } = await roundTrip(client, options, undefined);
    expect(text.length).toBe(size * count);
    // Where the socket was read in the middle of a chunk, that came as two.
    expect(read).toBeGreaterThanOrEqual(work);
    expect(read).toBeLessThan(1.05 * work);
    expect(turns).toBe(Math.floor(work / 2 ** 19));
    await client.close();
  });

  it('counts so too where it goes aside', async () => {
    await using raw = await rawServer(chunked(1, 1_024));
    let counted = 0;
    const answerMeter = {
      worked: (ms: number) => {
        counted += ms;
      },
      turn: () => undefined,
    };
    await using connection = closing(new Connection({ ...raw, answerMeter }));
    await connection.requestAside({ ...call('GET', '/'), method: 'GET' });
    expect(Math.round(counted)).toBe(10);
  });

  it.each([
    ['a call', (connection: Connection) => connection.request(call('GET', '/'))],
    [
      'one that goes aside',
      (connection: Connection) => connection.requestAside({ ...call('GET', '/'), method: 'GET' }),
    ],
  ])('ends %s whose chunks have extensions of megabytes', async (_what, ask) => {
    const meter = { worked: () => undefined, turn: () => undefined };
    const answer = (extension: number): Buffer =>
      Buffer.from(
        `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;${'x'.repeat(extension)}\r\n{}\r\n0\r\n\r\n`,
      );
    await using honest = await rawServer(answer(1024));
    await using hostile = await rawServer(answer(32 * 2 ** 20));
    await using answered = closing(new Connection({ ...honest, meter, answerMeter: meter }));
    for (let n = 0; n < 3; n++) expect((await ask(answered)).text).toBe('{}');
    await using ended = closing(new Connection({ ...hostile, meter, answerMeter: meter }));
    await expect(ask(ended)).rejects.toThrow('beside the answer');
  });

  /** A server of HTTP/2 that sends this many bytes of frames that say nothing, and then `{}` if there are few, for each request. */
  async function frameServer(bytes: number): Promise<ConnectionOptions & AsyncDisposable> {
    const { ca, server: pair } = await createTestCertificates();
    const frame = (type: number, flags: number, stream: number, payload: Buffer): Buffer => {
      const head = Buffer.alloc(9);
      head.writeUIntBE(payload.length, 0, 3);
      head.writeUInt8(type, 3);
      head.writeUInt8(flags, 4);
      head.writeUInt32BE(stream, 5);
      return Buffer.concat([head, payload]);
    };
    const server = createTlsServer({ ...pair, ALPNProtocols: ['h2'] }, (socket) => {
      // After the preface.
      let received = Buffer.alloc(0);
      let next = 24;
      socket.on('error', () => undefined).write(frame(4, 0, 0, Buffer.alloc(0)));
      socket.on('data', (chunk: Buffer) => {
        received = Buffer.concat([received, chunk]);
        while (received.length >= next + 9) {
          const [type, flags] = [received.readUInt8(next + 3), received.readUInt8(next + 4)];
          const stream = received.readUInt32BE(next + 5);
          next += 9 + received.readUIntBE(next, 3);
          if (type === 4 && flags === 0) socket.write(frame(4, 1, 0, Buffer.alloc(0)));
          if (type !== 1) continue;
          socket.write(frame(1, 4, stream, Buffer.from([0x88])));
          const unknown = frame(0xbb, 0, 0, Buffer.alloc(16_000));
          for (let sent = 0; sent < bytes; sent += unknown.length) socket.write(unknown);
          if (bytes < 2 ** 20) socket.write(frame(0, 1, stream, Buffer.from('{}')));
        }
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return {
      server: `https://127.0.0.1:${(server.address() as AddressInfo).port}`,
      ca,
      [Symbol.asyncDispose]: async () => void server.close(),
    };
  }

  it('ends a stream of HTTP/2 that comes with megabytes of frames without data', async () => {
    const meter = { worked: () => undefined, turn: () => undefined };
    const ask = async (connection: Connection): Promise<string> => {
      const { body } = await connection.stream(call('GET', '/'), 60_000);
      return readText(body, { maxBytes: 100, timeoutMs: 60_000 });
    };
    await using honest = await frameServer(64_000);
    await using hostile = await frameServer(8 * 2 ** 20);
    await using answered = closing(new Connection({ ...honest, meter }));
    for (let n = 0; n < 3; n++) expect(await ask(answered)).toBe('{}');
    await using ended = closing(new Connection({ ...hostile, meter }));
    await expect(ask(ended)).rejects.toThrow('beside the answer');
  });

  it('reads more than that of a stream of HTTP/2 whose frames have data', async () => {
    const { ca, server: pair } = await createTestCertificates();
    const text = 'x'.repeat(16 * 2 ** 20);
    const server = createSecureServer(pair, (_request, response) => response.end(text));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    const meter = { worked: () => undefined, turn: () => undefined };
    {
      await using connection = closing(new Connection({ server: `https://127.0.0.1:${port}`, ca, meter }));
      const { body } = await connection.stream(call('GET', '/'), 60_000);
      expect(await readText(body, { maxBytes: text.length, timeoutMs: 60_000 })).toHaveLength(text.length);
    }
    server.close();
  });

  it('ends a call that nothing counts', async () => {
    await using raw = await rawServer(chunked(1, 100_000));
    await using connection = closing(new Connection(raw));
    await expect(connection.request(call('GET', '/'))).rejects.toThrow('small chunks');
  });

  it.each([
    ['a call', (connection: Connection) => connection.request(call('GET', '/'))],
    [
      'one that goes aside',
      (connection: Connection) => connection.requestAside({ ...call('GET', '/'), method: 'GET' }),
    ],
  ])('ends %s with the ninth informational answer', async (_what, ask) => {
    const answer = (informational: number): Buffer =>
      Buffer.from(
        `${'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(informational)}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}`,
      );
    await using patient = await rawServer(answer(8));
    await using hostile = await rawServer(answer(9));
    await using answered = closing(new Connection(patient));
    await using ended = closing(new Connection(hostile));
    expect((await ask(answered)).text).toBe('{}');
    await expect(ask(ended)).rejects.toThrow('larger than 8 informational answers');
  });
});

/** `await using` closes it. */
function closing(connection: Connection): Connection & AsyncDisposable {
  return Object.assign(connection, { [Symbol.asyncDispose]: () => connection.close() });
}

it('calls beyond those that run at once are sent when one of them has ended, and wait no longer than they may', async () => {
  const held: ServerResponse[] = [];
  const arrived = new EventEmitter();
  const server = createServer((_request, response) => {
    held.push(response);
    arrived.emit('call');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const address = { server: `http://127.0.0.1:${port}`, callsWhenNear: 2, maxConnections: 4 };
  await using connection = closing(new Connection(address));
  const send = (more: Partial<Call> = {}) => connection.request(call('GET', '/', { verb: 'get', ...more }));
  const answers = [send(), send()];
  while (held.length < 2) await once(arrived, 'call');
  const third = send();
  const ending = new AbortController();
  const aborted = send({ signal: ending.signal });
  ending.abort(new Error('given up'));
  await expect(aborted).rejects.toThrow('given up');
  await expect(send({ timeoutMs: 1 })).rejects.toMatchObject({ code: 'ETIMEDOUT' });
  expect(held.length).toBe(2);
  held[0]?.end('{}');
  while (held.length < 3) await once(arrived, 'call');
  for (const response of held) response.end('{}');
  for (const answer of [...answers, third]) expect((await answer).status).toBe(200);
  server.closeAllConnections();
  server.close();
});

describe('calls over one connection', () => {
  it.each(['DELETE', 'PATCH', 'POST', 'PUT'])('leave it open, %s with a body too', async (method) => {
    await using server = await CountingServer.start();
    const body = { body: '{"kind":"DeleteOptions"}', contentType: 'application/json' };
    for (let i = 0; i < 5; i++) await server.connection.request(call(method, `/${i}`, body));
    expect(server.seen).toHaveLength(5);
    expect(server.connections).toBe(1);
  });

  it('end with what was thrown where an answer is longer than a text can be', async () => {
    await using server = await CountingServer.start();
    const take = vi.spyOn(Chunks.prototype, 'take').mockImplementationOnce(() => {
      throw new RangeError('Invalid string length');
    });
    try {
      await expect(server.connection.request(call('GET', '/long'))).rejects.toThrow('Invalid string length');
    } finally {
      take.mockRestore();
    }
    await server.connection.request(call('GET', '/next'));
    expect(server.seen).toEqual(['GET /long', 'GET /next']);
  });

  it('that were given up while they waited for it neither reach the server nor cost the connection', async () => {
    await using server = await CountingServer.start();
    const first = server.connection.request(call('GET', '/held'));
    const response = await server.held();
    const abort = new AbortController();
    const given = Array.from({ length: 20 }, (_, i) =>
      server.connection.request(call('GET', `/waiting/${i}`, { signal: abort.signal })),
    );
    const outcomes = Promise.allSettled(given);
    const live = server.connection.request(call('GET', '/live'));
    // All of them have been handed over, and wait.
    await setImmediate();
    abort.abort(new Error('given up'));
    expect((await outcomes).map(({ status }) => status)).toEqual(Array(20).fill('rejected'));
    response.end('{}');
    await Promise.all([first, live]);
    expect(server.seen).toEqual(['GET /held', 'GET /live']);
    expect(server.connections).toBe(1);
  });

  it('are passed by one that goes aside', async () => {
    await using server = await CountingServer.start();
    const first = server.connection.request(call('GET', '/held'));
    const response = await server.held();
    const { status, text } = await server.connection.requestAside({
      ...call('GET', '/readyz'),
      method: 'GET',
    });
    expect([status, text]).toEqual([200, '{}']);
    response.end('{}');
    await first;
  });

  it('do not wait for credentials for ever', async () => {
    const connection = new Connection({
      server: 'http://127.0.0.1:9',
      authorization: () => new Promise<string>(() => undefined),
    });
    const abort = new AbortController();
    const asked = connection.request(call('GET', '/', { signal: abort.signal }));
    abort.abort(new Error('enough'));
    await expect(asked).rejects.toThrow('enough');
    await connection.close();
  });
});

describe('an answer that comes one byte at a time', () => {
  const length = 50_000;
  const options = { method: 'GET', path: '/', deadlineMs: 60_000, maxBytes: 2 * length } as const;

  function* bytes(): Generator<Buffer> {
    for (let at = 0; at < length; at++) yield Buffer.from('a');
  }

  it.each<[string, () => Promise<string>]>([
    [
      'whole',
      async () => {
        const dispatch = (_options: unknown, handler: Dispatcher.DispatchHandler): boolean => {
          const controller = {} as Dispatcher.DispatchController;
          handler.onRequestStart?.(controller, {});
          handler.onResponseStart?.(controller, 200, {});
          for (const each of bytes()) handler.onResponseData?.(controller, each);
          handler.onResponseEnd?.(controller, {});
          return true;
        };
        return (await roundTrip({ dispatch } as Dispatcher, options, undefined)).text;
      },
    ],
    [
      'as a stream',
      () =>
        readText(Readable.from(bytes()) as Dispatcher.ResponseData['body'], {
          maxBytes: 2 * length,
          timeoutMs: 60_000,
        }),
    ],
  ])('and is read %s is kept in few Buffers', async (_how, read) => {
    const concat = vi.spyOn(Buffer, 'concat');
    try {
      expect(await read()).toBe('a'.repeat(length));
      const joined = concat.mock.calls.map(([list]) => list.length);
      expect(joined).toEqual([expect.any(Number)]);
      expect(joined[0]).toBeLessThan(20);
    } finally {
      concat.mockRestore();
    }
  });
});
