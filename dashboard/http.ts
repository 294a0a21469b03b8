import type { IncomingMessage, ServerResponse } from 'node:http';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Asset } from './assets.ts';

/** An answer that refuses, with a message for people. */
export class HttpError extends Error {
  override readonly name = 'HttpError';
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

const longestBody = 64 * 1024;
const compressedFrom = 1_024;
const gzipAsync = promisify(gzip);

/** Throws HttpError for what is no JSON object of a bearable size. */
export async function readJson(request: IncomingMessage): Promise<unknown> {
  if (!/^application\/json\b/.test(request.headers['content-type'] ?? ''))
    throw new HttpError(415, 'send JSON');
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > longestBody) throw new HttpError(413, 'this is too long');
    chunks.push(chunk);
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString());
  } catch {
    throw new HttpError(400, 'this is no JSON');
  }
}

export async function sendJson(
  request: IncomingMessage,
  response: ServerResponse,
  body: unknown,
  status = 200,
): Promise<void> {
  const text = JSON.stringify(body);
  const isCompressed = text.length >= compressedFrom && accepts(request, 'gzip');
  const bytes = isCompressed ? await gzipAsync(text, { level: 3 }) : Buffer.from(text);
  if (response.destroyed) return;
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': bytes.length,
    'cache-control': 'no-store',
    ...(isCompressed ? { 'content-encoding': 'gzip' } : {}),
  });
  response.end(bytes);
}

export function sendAsset(request: IncomingMessage, response: ServerResponse, asset: Asset): void {
  const headers = { etag: asset.etag, 'cache-control': 'no-cache', vary: 'accept-encoding' };
  if (request.headers['if-none-match'] === asset.etag) {
    response.writeHead(304, headers).end();
    return;
  }
  const encoding = accepts(request, 'br') ? 'br' : accepts(request, 'gzip') ? 'gzip' : undefined;
  const bytes = asset[encoding ?? 'plain'];
  response.writeHead(200, {
    ...headers,
    'content-type': asset.type,
    'content-length': bytes.length,
    ...(encoding === undefined ? {} : { 'content-encoding': encoding }),
  });
  response.end(request.method === 'HEAD' ? undefined : bytes);
}

function accepts(request: IncomingMessage, encoding: string): boolean {
  return `${request.headers['accept-encoding']}`.split(/[,; ]+/).includes(encoding);
}

export function cookieOf(request: IncomingMessage, name: string): string | undefined {
  for (const pair of (request.headers.cookie ?? '').split(/; */)) {
    if (pair.startsWith(`${name}=`)) return pair.slice(name.length + 1);
  }
  return undefined;
}
