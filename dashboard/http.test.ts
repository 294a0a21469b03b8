import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, BlockList } from 'node:net';
import { PassThrough } from 'node:stream';
import { gunzipSync } from 'node:zlib';
import { afterEach, describe, expect, it } from 'vitest';
import type { Asset } from './assets.ts';
import {
  ConcurrencyLimiter,
  clientAddress,
  cookieOf,
  EventStream,
  HttpError,
  networkOf,
  readJson,
  SlowReaderError,
  sendAsset,
  sendJson,
} from './http.ts';

let server: Server | undefined;
afterEach(() => {
  server?.closeAllConnections();
  server?.close();
});

type Handler = (asked: IncomingMessage, response: ServerResponse) => unknown;

async function ask(
  handler: Handler,
  {
    body = '',
    method = 'GET',
    headers = {},
  }: { body?: string; method?: string; headers?: Record<string, string> } = {},
): Promise<{ status: number; headers: IncomingMessage['headers']; body: Buffer }> {
  server = createServer((asked, response) => {
    Promise.resolve(handler(asked, response)).catch((error: unknown) =>
      response.writeHead(error instanceof HttpError ? error.status : 500).end(),
    );
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  const sent = request({ port, host: '127.0.0.1', method, headers });
  sent.end(body);
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  const chunks: Buffer[] = [];
  for await (const chunk of response as AsyncIterable<Buffer>) chunks.push(chunk);
  return { status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks) };
}

describe('what a page sends', () => {
  const echo: Handler = async (asked, response) => response.end(JSON.stringify(await readJson(asked)));
  const post = (body: string, type?: string) =>
    ask(echo, { method: 'POST', body, headers: type === undefined ? {} : { 'content-type': type } });

  it('is JSON that says so, of a bearable size', async () => {
    const { body } = await post('{"a":"ä"}', 'application/json; charset=utf-8');
    expect(body.toString()).toBe('{"a":"ä"}');
    expect((await post('{}')).status).toBe(415);
    expect((await post('{}', 'text/plain')).status).toBe(415);
    expect((await post('{}', 'application/jsonp')).status).toBe(415);
    expect((await post('{', 'application/json')).status).toBe(400);
    expect((await post(`"${'x'.repeat(64 * 1024 - 2)}"`, 'application/json')).status).toBe(200);
    expect((await post(`"${'x'.repeat(64 * 1024 - 1)}"`, 'application/json')).status).toBe(413);
  });

  it('has a cookie by its whole name', () => {
    const of = (cookie: string | undefined, name: string) =>
      cookieOf({ headers: { cookie } } as IncomingMessage, name);
    expect(of('a=1; session=x=y=;b=2', 'session')).toBe('x=y=');
    expect(of('sessions=1; mysession=2; session', 'session')).toBeUndefined();
    // Without a sign between name and value it is neither.
    expect(of('sessionX', 'session')).toBeUndefined();
    expect(of(undefined, 'session')).toBeUndefined();
  });
});

describe('what a page is sent', () => {
  it('is compressed where that is worth it and understood, and kept by nobody', async () => {
    const large = { text: 'x'.repeat(5_000) };
    const json =
      (body: unknown): Handler =>
      (asked, response) =>
        sendJson(asked, response, body, 201);
    const gzip = { headers: { 'accept-encoding': 'deflate, gzip;q=1.0, *;q=0.5' } };
    const compressed = await ask(json(large), gzip);
    expect(compressed.headers).toMatchObject({ 'content-encoding': 'gzip', 'cache-control': 'no-store' });
    expect(JSON.parse(gunzipSync(compressed.body).toString())).toEqual(large);
    expect(compressed.status).toBe(201);
    for (const plain of [await ask(json(large)), await ask(json({}), gzip)])
      expect(plain.headers).not.toHaveProperty('content-encoding');
  });

  it('of files is what it does not have yet, in the best encoding that it takes', async () => {
    const [plain, gzip, br] = ['plain', 'gzip', 'br'].map((each) => Buffer.from(each));
    const asset = { type: 'text/css', etag: '"1"', plain, gzip, br } as unknown as Asset;
    const send: Handler = (asked, response) => sendAsset(asked, response, asset);
    const get = async (headers: Record<string, string>, method = 'GET') =>
      ask(send, { headers, method }).then(({ status, body }) => [status, body.toString()]);
    expect(await get({})).toEqual([200, 'plain']);
    expect(await get({ 'accept-encoding': 'gzip' })).toEqual([200, 'gzip']);
    expect(await get({ 'accept-encoding': 'gzip, deflate, br' })).toEqual([200, 'br']);
    expect(await get({ 'if-none-match': '"1"' })).toEqual([304, '']);
    expect(await get({ 'if-none-match': '"0"' })).toEqual([200, 'plain']);
    expect(await get({}, 'HEAD')).toEqual([200, '']);
  });
});

const large = { text: 'x'.repeat(10_000) };
const never = new AbortController().signal;

describe('a stream of events', () => {
  it('sends nothing more until the page has read what it was sent', async () => {
    const page = new PassThrough({ highWaterMark: 1_000 });
    const stream = new EventStream(page, never, 60_000);
    let isSent = false;
    const sent = stream.event('tenants', large, 7).then(() => {
      isSent = true;
    });
    await new Promise(setImmediate);
    expect(isSent).toBe(false);
    let text = '';
    page.on('data', (chunk: Buffer) => {
      text += chunk.toString();
    });
    await sent;
    expect(text).toMatch(/^id: 7\nevent: tenants\ndata: \{"text":"x+"\}\n\n$/);
  });

  it('gives up a page that reads nothing', async () => {
    const stream = new EventStream(new PassThrough({ highWaterMark: 1_000 }), never, 1);
    await expect(stream.event('tenants', large)).rejects.toThrow(SlowReaderError);
  });

  it('ends with the connection', async () => {
    const gone = new AbortController();
    const stream = new EventStream(new PassThrough({ highWaterMark: 1_000 }), gone.signal, 60_000);
    const sent = stream.event('tenants', large);
    gone.abort(new Error('the browser has gone'));
    await expect(sent).rejects.toThrow('the browser has gone');
  });
});

describe('a concurrency limiter', () => {
  it('let each do so much at once, have the rest wait, and refuse what is too much', async () => {
    const limiter = new ConcurrencyLimiter({ atOnce: 2, waiting: 3 });
    const gate = Promise.withResolvers<void>();
    const began: number[] = [];
    const all = Array.from({ length: 5 }, (_, each) =>
      limiter.run('blue', async () => {
        began.push(each);
        await gate.promise;
        return each;
      }),
    );
    await expect(limiter.run('blue', async () => 0)).rejects.toMatchObject({ status: 429 });
    expect(await limiter.run('green', async () => 'at once')).toBe('at once');
    expect(began).toEqual([0, 1]);
    gate.resolve();
    expect(await Promise.all(all)).toEqual([0, 1, 2, 3, 4]);
  });

  it('are given up with the connection of who waits', async () => {
    const limiter = new ConcurrencyLimiter({ atOnce: 1, waiting: 3 });
    const gate = Promise.withResolvers<void>();
    const first = limiter.run('blue', () => gate.promise);
    const gone = new AbortController();
    let isRun = false;
    const second = limiter.run(
      'blue',
      async () => {
        isRun = true;
      },
      gone.signal,
    );
    gone.abort(new Error('gone'));
    await expect(second).rejects.toThrow('gone');
    gate.resolve();
    await first;
    expect(isRun).toBe(false);
  });

  it('remember nobody who has had theirs, whether it went well or not', async () => {
    const limiter = new ConcurrencyLimiter({ atOnce: 1, waiting: 3 });
    const failed = limiter.run('blue', async () => {
      throw new Error('odd');
    });
    await expect(failed).rejects.toThrow('odd');
    await limiter.run('green', async () => undefined);
    await new Promise(setImmediate);
    expect(limiter.busy).toBe(0);
  });
});

const trusted = new BlockList();
trusted.addSubnet('10.0.0.0', 8, 'ipv4');
trusted.addSubnet('fd00::', 8, 'ipv6');

describe('the address of a client', () => {
  it.each([
    ['is that of the connection', '192.0.2.1', undefined, '192.0.2.1'],
    [
      'is that of the connection, whatever one that is no proxy says',
      '192.0.2.1',
      '198.51.100.7',
      '192.0.2.1',
    ],
    ['is what a trusted proxy says', '10.1.2.3', '198.51.100.7', '198.51.100.7'],
    ['is what the last trusted proxy was asked by', '10.1.2.3', '198.51.100.7, 10.9.9.9', '198.51.100.7'],
    ['is not what the client itself wrote', '10.1.2.3', '203.0.113.5, 198.51.100.7', '198.51.100.7'],
    ['is found over IPv6', 'fd00::1', '2001:db8::9', '2001:db8::9'],
    ['is found over IPv4 in IPv6', '::ffff:10.1.2.3', '198.51.100.7', '198.51.100.7'],
    ['has no port', '10.1.2.3', '198.51.100.7:4711', '198.51.100.7'],
    ['has no brackets', '10.1.2.3', '[2001:db8::9]:4711', '2001:db8::9'],
    ['is that of the proxy where it names none', '10.1.2.3', 'unknown', '10.1.2.3'],
    ['is that of the proxy where it says nothing', '10.1.2.3', undefined, '10.1.2.3'],
    ['is the last one where all are proxies', '10.1.2.3', '10.4.4.4', '10.4.4.4'],
  ])('%s', (_, remote, forwardedFor, expected) => {
    expect(clientAddress(remote, forwardedFor, trusted)).toBe(expected);
  });

  it('is that of the connection where no proxy is trusted', () => {
    expect(clientAddress('10.1.2.3', '198.51.100.7', undefined)).toBe('10.1.2.3');
  });
});

describe('whom attempts to sign in are counted for', () => {
  it.each([
    ['192.0.2.1', '192.0.2.1'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:0DB8:1:2::9', '2001:db8:1:2::/64'],
    ['2001:db8::9', '2001:db8:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['unknown', 'unknown'],
  ])('%s counts as %s', (address, expected) => {
    expect(networkOf(address)).toBe(expected);
  });
});
