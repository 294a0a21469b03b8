import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type BlockList, isIP } from 'node:net';
import type { Writable } from 'node:stream';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import PQueue from 'p-queue';
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
    ...(encoding && { 'content-encoding': encoding }),
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

/** What was sent has not been read for too long. */
export class SlowReaderError extends Error {
  override readonly name = 'SlowReaderError';
}

/**
 * Server-sent events to one page. What is sent next waits until the page has read what was sent before, so that a page
 * that reads slowly is told the latest state less often, and holds no more memory than one event.
 */
export class EventStream {
  readonly #response: Writable;
  readonly #signal: AbortSignal;
  readonly #unreadMs: number;

  /** `unreadMs`: who reads nothing for so long is not there any more. */
  constructor(response: Writable, signal: AbortSignal, unreadMs: number) {
    this.#response = response;
    this.#signal = signal;
    this.#unreadMs = unreadMs;
  }

  async event(name: string, data: object, id?: number): Promise<void> {
    const head = id === undefined ? '' : `id: ${id}\n`;
    await this.#send(`${head}event: ${name}\ndata: ${JSON.stringify(data)}\n\n`);
  }

  /** For proxies and browsers; pages do not see it. */
  async comment(text: string): Promise<void> {
    await this.#send(`: ${text}\n\n`);
  }

  /** Resolves when the page has room for more. Throws SlowReaderError, or the reason of the signal. */
  async #send(text: string): Promise<void> {
    if (this.#response.write(text)) return;
    const late = AbortSignal.timeout(this.#unreadMs);
    try {
      await once(this.#response, 'drain', { signal: AbortSignal.any([this.#signal, late]) });
    } catch (error) {
      this.#signal.throwIfAborted();
      if (late.aborted) throw new SlowReaderError('the page does not read what it is sent');
      throw error;
    }
  }
}

/** Runs so many calls at once for each key; the others wait. */
export class ConcurrencyLimiter {
  readonly #atOnce: number;
  readonly #waiting: number;
  readonly #queues = new Map<string, PQueue>();

  /** `waiting`: when so many of a key wait, others are refused. */
  constructor({ atOnce, waiting }: { atOnce: number; waiting: number }) {
    this.#atOnce = atOnce;
    this.#waiting = waiting;
  }

  /** Throws HttpError 429, the reason of the signal when it ends the wait, or what `work` throws. */
  async run<T>(whose: string, work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const queue = this.#queues.get(whose) ?? new PQueue({ concurrency: this.#atOnce });
    if (queue.size >= this.#waiting) throw new HttpError(429, 'too many requests at once: wait a moment');
    this.#queues.set(whose, queue);
    try {
      return (await queue.add(work, signal === undefined ? {} : { signal })) as T;
    } finally {
      if (queue.size === 0 && queue.pending <= 1) void queue.onIdle().then(() => this.#forget(whose, queue));
    }
  }

  /** How many keys have calls that run or wait. */
  get busy(): number {
    return this.#queues.size;
  }

  #forget(whose: string, queue: PQueue): void {
    if (queue.size === 0 && queue.pending === 0 && this.#queues.get(whose) === queue)
      this.#queues.delete(whose);
  }
}

/**
 * Whose request it is, by what the proxies say that are trusted: each adds to the right of X-Forwarded-For whom it was asked
 * by, so that the first one from the right that is no such proxy is the client. What stands further left anybody can write.
 */
export function clientAddress(
  remote: string,
  forwardedFor: string | undefined,
  trusted: BlockList | undefined,
): string {
  let address = bare(remote);
  const hops = (forwardedFor ?? '').split(',').map((hop) => bare(hop.trim()));
  while (trusted !== undefined && isTrusted(trusted, address)) {
    const next = hops.pop();
    if (next === undefined || isIP(next) === 0) break;
    address = next;
  }
  return address;
}

/** Whom an address counts as: whoever has one of IPv6 has all of its /64. */
export function networkOf(address: string): string {
  if (isIP(address) !== 6) return address;
  const [whole = ''] = address.split('%', 1);
  const [left, right] = whole.split('::').map((part) => (part === '' ? [] : part.split(':')));
  const groups = left ?? [];
  const missing = right === undefined ? 0 : 8 - groups.length - right.length;
  const all = [...groups, ...Array.from({ length: Math.max(0, missing) }, () => '0'), ...(right ?? [])];
  const prefix = all.slice(0, 4).map((group) => Number.parseInt(group, 16).toString(16));
  return `${prefix.join(':')}::/64`;
}

function isTrusted(trusted: BlockList, address: string): boolean {
  const family = isIP(address);
  return family !== 0 && trusted.check(address, family === 4 ? 'ipv4' : 'ipv6');
}

/** Without a port, and IPv4 as such. */
function bare(address: string): string {
  const withoutPort =
    /^\[(.+)\](?::\d+)?$/.exec(address)?.[1] ?? /^([\d.]+):\d+$/.exec(address)?.[1] ?? address;
  return withoutPort.replace(/^::ffff:(?=[\d.]+$)/i, '');
}
