import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gunzipSync } from 'node:zlib';
import { afterEach, describe, expect, it } from 'vitest';
import type { Asset } from './assets.ts';
import { cookieOf, HttpError, readJson, sendAsset, sendJson } from './http.ts';

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
