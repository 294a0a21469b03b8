import type { ServerResponse } from 'node:http';
import { setImmediate } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { KubeClient } from './client.ts';
import type { ConnectionOptions } from './connection.ts';
import { ApiError, ConnectionError } from './errors.ts';
import { isTooLarge, longestNesting, parseJson } from './read-limits.ts';
import { Reflector, type ReflectorProblem } from './reflector.ts';
import { resources } from './resources.ts';
import { Store } from './store.ts';
import { type LyingHandler, startLyingServer } from './testing/index.ts';
import type { KubeObject } from './types.ts';
import { type WatchEvent, watch } from './watch.ts';

const kilobyte = 1024;
const limits = { objectBytes: 64 * kilobyte, pageBytes: 128 * kilobyte, eventBytes: 64 * kilobyte };
const ref = { namespace: 'ns', name: 'a' };

let cleanups: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.reverse()) await cleanup();
  cleanups = [];
});

/** A client of a server that answers whatever the test needs. */
async function lying(handler: LyingHandler, options: Partial<ConnectionOptions> = {}): Promise<KubeClient> {
  const server = await startLyingServer(handler, { readLimits: limits, ...options });
  cleanups.push(() => Promise.resolve(server[Symbol.asyncDispose]()));
  return server.client;
}

function configMap(name: string, bytes: number): KubeObject {
  return {
    metadata: { name, namespace: 'ns', uid: name, resourceVersion: '1' },
    data: { a: 'x'.repeat(bytes) },
  };
}

/** Sends until the other side has had enough. */
function sendForEver(response: ServerResponse, chunk: string): void {
  const more = (): void => {
    while (!response.destroyed && response.write(chunk));
  };
  response.on('drain', more).on('error', () => undefined);
  more();
}

async function failure(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    () => undefined,
    (error: unknown) => error,
  );
}

function thrownBy(work: () => unknown): unknown {
  try {
    return work();
  } catch (error) {
    return error;
  }
}

describe('an answer', () => {
  it('without end is not read to the end, on either kind of connection', async () => {
    const client = await lying((_request, response) => sendForEver(response, 'x'.repeat(kilobyte)));
    expect(isTooLarge(await failure(client.get(resources.configMaps, ref)))).toBe(true);
    expect(isTooLarge(await failure(client.raw('GET', '/readyz', { aside: true })))).toBe(true);
  });

  it('that fits is read, and a call after one that did not fit is answered', async () => {
    let bytes = 100 * kilobyte;
    const client = await lying((_request, response) => response.end(JSON.stringify(configMap('a', bytes))));
    expect(isTooLarge(await failure(client.get(resources.configMaps, ref)))).toBe(true);
    bytes = 50 * kilobyte;
    expect(await client.get(resources.configMaps, ref)).toEqual(configMap('a', bytes));
  });

  it('that trickles ends by time', async () => {
    const trickle: LyingHandler = (_request, response) => {
      const timer = setInterval(() => response.write(' '), 5);
      response.on('close', () => clearInterval(timer));
    };
    const client = await lying(trickle, { requestTimeoutMs: 50 });
    for (const call of [
      () => client.get(resources.configMaps, ref),
      () => client.raw('GET', '/readyz', { aside: true, timeoutMs: 50 }),
    ]) {
      expect(await failure(call())).toMatchObject({ name: 'ConnectionError', code: 'ETIMEDOUT' });
    }
  });

  it('with headers without end is refused', async () => {
    const client = await lying((_request, response) => {
      response.setHeader('x-long', 'x'.repeat(64 * kilobyte)).end('{}');
    });
    expect(await failure(client.get(resources.configMaps, ref))).toMatchObject({
      code: 'UND_ERR_HEADERS_OVERFLOW',
    });
  });

  it('that refuses without end refuses all the same', async () => {
    const client = await lying((_request, response) => {
      response.statusCode = 403;
      sendForEver(response, 'x'.repeat(kilobyte));
    });
    const error = await failure(client.get(resources.configMaps, ref));
    expect(error).toBeInstanceOf(ApiError);
    expect(error).toMatchObject({ code: 403, status: undefined });
  });

  it('that refuses with a Status of wrong types is an ApiError with what is right of it', async () => {
    const details = { causes: [null, 'x', { reason: 1, message: 'm' }] };
    const body = { kind: 'Status', message: { toString: null }, reason: 7, code: 'x', details };
    const client = await lying((_request, response) => {
      response.statusCode = 422;
      response.end(JSON.stringify(body));
    });
    const error = await failure(client.get(resources.configMaps, ref));
    expect(error).toMatchObject({ code: 422, reason: '' });
    expect((error as ApiError).hasCause('x')).toBe(false);
    expect((error as ApiError).status?.details?.causes).toEqual([{ message: 'm' }]);
  });

  it.each([
    ['null', 'null'],
    ['a list', '[]'],
    ['no metadata', '{}'],
    ['a name that is no text', '{"metadata":{"name":{}}}'],
    ['a UID that is no text', '{"metadata":{"name":"a","uid":{}}}'],
    ['labels that are a list', '{"metadata":{"name":"a","labels":[]}}'],
    ['an annotation that is a number', '{"metadata":{"name":"a","annotations":{"a":1}}}'],
    ['owners that are texts', '{"metadata":{"name":"a","ownerReferences":["a"]}}'],
  ])('is no object: %s', async (_name, body) => {
    const client = await lying((request, response) =>
      response.end(request.url?.endsWith('/a') ? body : `{"items":[${body}]}`),
    );
    for (const call of [
      () => client.get(resources.configMaps, ref),
      () => client.list(resources.configMaps),
    ]) {
      const error = await failure(call());
      expect(error).toBeInstanceOf(ConnectionError);
      expect(error).toMatchObject({ code: 'ERR_INVALID_OBJECT' });
    }
  });
});

describe('JSON', () => {
  const nested = (depth: number): string => `${'['.repeat(depth)}${']'.repeat(depth)}`;

  it('may nest so deep and no deeper', () => {
    expect(JSON.stringify(parseJson(nested(longestNesting)))).toBe(nested(longestNesting));
    expect(() => parseJson(nested(longestNesting + 1))).toThrow(RangeError);
  });

  it('may have any number of brackets in texts', () => {
    const text = JSON.stringify({ a: '[{'.repeat(10_000), b: `\\"${'{'.repeat(10_000)}` });
    expect(parseJson(text)).toEqual(JSON.parse(text));
  });

  it('may have so many brackets and commas outside of texts and no more', () => {
    const many = `[${'{},'.repeat(1_000)}0]`;
    expect(parseJson(many, 2_001)).toHaveLength(1_001);
    expect(isTooLarge(thrownBy(() => parseJson(many, 2_000)))).toBe(true);
    const text = JSON.stringify({ data: { table: `${'1,2,{[\n"'.repeat(10_000)}` } });
    expect(parseJson(text, 10)).toEqual(JSON.parse(text));
  });

  it('that takes far more memory than its text is refused, in an answer, an event and over the pages of a list', async () => {
    const dense = (values: number): KubeObject => ({
      ...configMap('dense', 1),
      spec: Array.from({ length: values }, () => ({})),
    });
    let values = 10_000;
    const client = await lying(
      (request, response) => {
        const object = dense(values);
        if (request.url?.includes('watch')) response.end(`${JSON.stringify({ type: 'ADDED', object })}\n`);
        else if (request.url?.endsWith('/a'))
          response.end(JSON.stringify({ ...object, metadata: { ...object.metadata, name: 'a' } }));
        else response.end(JSON.stringify({ metadata: { continue: 'more' }, items: [object] }));
      },
      { readLimits: { ...limits, answerValues: 5_000, listValues: 8_000 } },
    );
    const calls = [
      () => client.get(resources.configMaps, ref),
      () => client.list(resources.configMaps, { limit: 1_000, pageSize: 100 }),
      async () => {
        for await (const event of watch(client.connection, resources.configMaps, {
          resourceVersion: '1',
          timeoutSeconds: 60,
          graceMs: 0,
        }))
          return event;
        return undefined;
      },
    ];
    for (const call of calls) expect(isTooLarge(await failure(call()))).toBe(true);
    // One page fits, two do not.
    values = 2_200;
    const [get, list] = calls;
    expect(await get?.()).toMatchObject({ metadata: { name: 'a' } });
    expect(isTooLarge(await failure(list?.() ?? Promise.resolve()))).toBe(true);
  });

  it('of a page whose values count toward those of its list is gone through once', async () => {
    const items = [{ ...configMap('a', 1), spec: Array.from({ length: 100_000 }, () => 0) }];
    const text = JSON.stringify({ metadata: { resourceVersion: '1' }, items });
    const client = await lying((_request, response) => response.end(text), {
      readLimits: { ...limits, pageBytes: text.length, answerValues: 250_000, listValues: 500_000 },
    });
    const looked = vi.spyOn(String.prototype, 'charCodeAt');
    const list = await client.list(resources.configMaps, { limit: 1 });
    const times = looked.mock.calls.length;
    looked.mockRestore();
    expect(list.items).toHaveLength(1);
    // The measure measures.
    expect(times).toBeGreaterThan(0.9 * text.length);
    expect(times).toBeLessThan(1.5 * text.length);
  });

  it('whose fields stand there many times takes no more memory than it has fields', () => {
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as () => void;
    const repeated = `{"__proto__":{"b":[]},${Array.from({ length: 300_000 }, () => '"a":1').join(',')}}`;
    const distinct = `{${Array.from({ length: 10_000 }, (_, at) => `"a${at}":1`).join(',')}}`;
    const heapOf = (text: string): { kept: unknown[]; bytes: number } => {
      collect();
      const before = process.memoryUsage().heapUsed;
      const kept = Array.from({ length: 4 }, () => parseJson(text, 1_000_000));
      collect();
      return { kept, bytes: process.memoryUsage().heapUsed - before };
    };
    const { kept, bytes } = heapOf(repeated);
    expect(JSON.stringify(kept[0])).toBe('{"__proto__":{"b":[]},"a":1}');
    expect(bytes).toBeLessThan(4_000_000);
    // The measure measures.
    expect(heapOf(distinct).bytes).toBeGreaterThan(1_000_000);
  });

  it('is read as JSON.parse reads it, and once where no field stands twice', () => {
    const texts = fc.sample(fc.json(), 300);
    const written = vi.spyOn(JSON, 'stringify');
    const read = texts.map((text) => parseJson(text, 1_000_000));
    const times = written.mock.calls.length;
    written.mockRestore();
    expect(times).toBe(0);
    expect(read).toEqual(texts.map((text) => JSON.parse(text)));
  });

  it('of honest objects of the largest size is read', () => {
    const property = { type: 'string', description: 'x'.repeat(20), enum: ['a', 'b'] };
    const properties = Object.fromEntries(
      Array.from({ length: 15_000 }, (_, at) => [`field${at}`, property]),
    );
    const crd = JSON.stringify({ spec: { versions: [{ schema: { openAPIV3Schema: { properties } } }] } });
    expect(crd.length).toBeGreaterThan(1_200_000);
    const table = JSON.stringify(configMap('table', 0)).replace(
      '""',
      JSON.stringify('1,2,3\n'.repeat(170_000)),
    );
    for (const text of [crd, table]) expect(parseJson(text, 250_000)).toEqual(JSON.parse(text));
  });

  it('that nests without end is refused as an answer', async () => {
    const client = await lying((_request, response) => response.end('['.repeat(10_000)));
    expect(await failure(client.get(resources.configMaps, ref))).toMatchObject({ code: 'ERR_INVALID_JSON' });
  });
});

/** A server with these objects, which pages as it is asked to. */
function listing(objects: readonly KubeObject[], asked: number[]): LyingHandler {
  return (request, response) => {
    const { searchParams } = new URL(request.url ?? '', 'http://x');
    const from = Number(searchParams.get('continue') ?? 0);
    const limit = Number(searchParams.get('limit') ?? objects.length);
    asked.push(limit);
    const items = objects.slice(from, from + limit);
    const rest = from + limit < objects.length ? { continue: String(from + limit) } : {};
    response.end(JSON.stringify({ metadata: { resourceVersion: '9', ...rest }, items }));
  };
}

describe('a list', () => {
  const objects = Array.from({ length: 30 }, (_, index) => configMap(`c${index}`, 20 * kilobyte));

  it('whose pages are too large is read in smaller ones', async () => {
    const asked: number[] = [];
    const client = await lying(listing(objects, asked));
    const { items, metadata } = await client.list(resources.configMaps, { pageSize: 20 });
    expect(items.map(({ metadata: { name } }) => name)).toEqual(
      objects.map(({ metadata: { name } }) => name),
    );
    expect(metadata.resourceVersion).toBe('9');
    expect(asked.slice(0, 3)).toEqual([20, 5, 6]);
  });

  it('goes back to larger pages after large objects', async () => {
    const large = Array.from({ length: 6 }, (_, index) => configMap(`a${index}`, 90 * kilobyte));
    const small = Array.from({ length: 300 }, (_, index) => configMap(`b${index}`, 10));
    const asked: number[] = [];
    const client = await lying(listing([...large, ...small], asked));
    const { items } = await client.list(resources.configMaps, { pageSize: 20 });
    expect(items).toHaveLength(306);
    expect(Math.min(...asked)).toBe(1);
    expect(asked.at(-1)).toBe(20);
  });

  it('with an object of more values than one may have fails', async () => {
    const withValues = (values: number): KubeObject => ({
      ...configMap('a', 1),
      x: [{ y: Array(values).fill(0) }],
    });
    const readLimits = { ...limits, objectValues: 1_000 };
    const few = await lying(listing([withValues(900), withValues(900)], []), { readLimits });
    expect((await few.list(resources.configMaps)).items).toHaveLength(2);
    const many = await lying(listing([withValues(1_000)], []), { readLimits });
    expect(await failure(many.list(resources.configMaps))).toMatchObject({
      code: 'ERR_INVALID_OBJECT',
      message: expect.stringContaining('ConfigMap ns/a has more than 1000 values'),
    });
  });

  it('with one object that is larger than a page fails', async () => {
    const client = await lying(listing([configMap('a', 200 * kilobyte)], []));
    expect(isTooLarge(await failure(client.list(resources.configMaps)))).toBe(true);
  });

  it('with one object that is larger than a page, and no larger than an object may be, is read', async () => {
    const readLimits = { ...limits, pageBytes: 64 * kilobyte, objectBytes: 128 * kilobyte };
    const asked: number[] = [];
    const large = [configMap('a', 100 * kilobyte), configMap('b', 1)];
    const client = await lying(listing(large, asked), { readLimits });
    expect((await client.list(resources.configMaps, { pageSize: 4 })).items).toHaveLength(2);
    expect(asked).toEqual([4, 1, 2]);
  });

  it('with one object that has too much tells which, where the server shows its metadata alone', async () => {
    const dense = { ...configMap('dense', 1), spec: Array(2_000).fill(0) };
    let showsMetadata = true;
    const client = await lying(
      (request, response) => {
        const isMetadata = showsMetadata && request.headers.accept?.includes('PartialObjectMetadataList');
        listing([configMap('a', 1), isMetadata ? configMap('dense', 1) : dense], [])(request, response);
      },
      { readLimits: { ...limits, answerValues: 1_000 } },
    );
    const told = await failure(client.list(resources.configMaps));
    expect(isTooLarge(told)).toBe(true);
    expect(told).toMatchObject({
      message: expect.stringContaining(
        'ConfigMap ns/dense cannot be read: the answer is larger than 1000 values',
      ),
    });
    showsMetadata = false;
    expect(await failure(client.list(resources.configMaps))).toMatchObject({
      message: expect.not.stringContaining('dense'),
    });
  });

  it('ends by time, though no page takes long and there is always one more', async () => {
    const now = vi.spyOn(performance, 'now');
    let asked = 0;
    const client = await lying((_request, response) => {
      now.mockReturnValue(performance.now() + 60_000);
      response.end(JSON.stringify({ metadata: { continue: String(++asked) }, items: [] }));
    });
    expect(await failure(client.list(resources.pods))).toBeInstanceOf(RangeError);
    expect(asked).toBe(10);
    now.mockRestore();
  });

  it('ends at its limit by what was asked for, though empty pages come with a token for more', async () => {
    let pages = 0;
    const client = await lying((_request, response) => {
      pages += 1;
      response.end(JSON.stringify({ metadata: { continue: 'more' }, items: [] }));
    });
    const list = await client.list(resources.pods, { limit: 10 });
    expect(list).toMatchObject({ items: [], metadata: { continue: 'more' } });
    expect(pages).toBe(1);
    await client.list(resources.pods, { limit: 1_200 });
    expect(pages).toBe(1 + 3);
  });

  it('is not gone on with by a token that is longer than any that servers make', async () => {
    let asked: string[] = [];
    let token = '';
    const client = await lying((request, response) => {
      asked.push(request.url ?? '');
      const metadata = asked.length === 1 ? { continue: token } : {};
      response.end(JSON.stringify({ metadata, items: [configMap(`a${asked.length}`, 1)] }));
    });
    const longest = 'x'.repeat(4_096);
    token = longest;
    expect((await client.list(resources.configMaps)).items).toHaveLength(2);
    expect(asked[1]).toContain(longest);
    asked = [];
    token = `${longest}x`;
    expect(await failure(client.list(resources.configMaps))).toMatchObject({ code: 'ERR_INVALID_OBJECT' });
    expect(asked).toHaveLength(1);
  });

  it('of any number of pages ends where all of it is too large', async () => {
    const page = { metadata: { resourceVersion: '9', continue: 'more' }, items: [configMap('a', 1)] };
    let pages = 0;
    const client = await lying(
      (_request, response) => {
        pages += 1;
        response.end(JSON.stringify(page));
      },
      { readLimits: { ...limits, listBytes: 10 * kilobyte } },
    );
    expect(isTooLarge(await failure(client.list(resources.configMaps)))).toBe(true);
    expect(pages).toBeLessThan(100);
  });
});

describe('a watch', () => {
  async function read(events: AsyncGenerator<WatchEvent>): Promise<unknown[]> {
    const seen: unknown[] = [];
    try {
      for await (const { object } of events) seen.push(object.metadata.name);
    } catch (error) {
      seen.push(error);
    }
    return seen;
  }

  function open(client: KubeClient, timeoutSeconds = 60): AsyncGenerator<WatchEvent> {
    return watch(client.connection, resources.configMaps, {
      resourceVersion: '1',
      timeoutSeconds,
      graceMs: 0,
    });
  }

  const event = (name: string, bytes: number): string =>
    `${JSON.stringify({ type: 'ADDED', object: configMap(name, bytes) })}\n`;

  it('yields events that fit, and ends with one that does not', async () => {
    const client = await lying((_request, response) => {
      response.write(event('small', 40 * kilobyte));
      response.write('{"type":"ADDED","object":{"metadata":{"name":"');
      sendForEver(response, 'x'.repeat(kilobyte));
    });
    const [first, error, ...rest] = await read(open(client));
    expect(first).toBe('small');
    expect(isTooLarge(error)).toBe(true);
    expect(rest).toEqual([]);
  });

  it('ends with an event of more values than an object may have, however few bytes each takes', async () => {
    const withValues = (name: string, values: number): string =>
      JSON.stringify({
        type: 'ADDED',
        object: { ...configMap(name, 1), x: Array(values).fill(0), y: ',{['.repeat(500) },
      });
    const client = await lying(
      (_request, response) => response.write(`${withValues('few', 800)}\n${withValues('many', 2_000)}\n`),
      { readLimits: { ...limits, objectValues: 1_000 } },
    );
    expect(await read(open(client))).toEqual([
      'few',
      expect.objectContaining({ message: expect.stringContaining('is larger than 1000 values') }),
    ]);
  });

  it('whose first state has no end, in bytes or in time, ends', async () => {
    const endless = await lying((_request, response) => sendForEver(response, event('again', kilobyte)), {
      readLimits: { ...limits, listBytes: 10 * kilobyte },
    });
    const streamed = { resourceVersion: '', initialEvents: true, timeoutSeconds: 60 };
    const seen = await read(watch(endless.connection, resources.configMaps, streamed));
    expect(isTooLarge(seen.at(-1))).toBe(true);
    expect(seen.length).toBeLessThan(15);
    const silent = await lying((_request, response) => response.write(event('alone', 1)));
    const options = { ...streamed, initialTimeoutMs: 50 };
    // Where this process is slow, the one event comes too late.
    const last = (await read(watch(silent.connection, resources.configMaps, options))).at(-1);
    expect(last).toMatchObject({ code: 'WATCH_OVERDUE' });
  });

  it.each([
    ['has as much more time', 49, ['alone', undefined]],
    ['has no more than that', 50, ['alone', expect.objectContaining({ code: 'WATCH_OVERDUE' })]],
  ])('whose first state is read late, as this thread rests, %s', async (_what, afterRestMs, seen) => {
    const asked = Promise.withResolvers<ServerResponse>();
    const resting = Promise.withResolvers<void>();
    const rest = Promise.withResolvers<void>();
    let turns = 0;
    const turn = (): Promise<void> | undefined => {
      turns += 1;
      if (turns > 1) return undefined;
      resting.resolve();
      return rest.promise;
    };
    const client = await lying((_request, response) => asked.resolve(response), {
      meter: { worked: () => undefined, turn },
    });
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    cleanups.push(async () => vi.useRealTimers());
    const options = { resourceVersion: '', initialEvents: true, initialTimeoutMs: 50, timeoutSeconds: 60 };
    const reading = read(watch(client.connection, resources.configMaps, options));
    const response = await asked.promise;
    response.write(event('alone', 1));
    await resting.promise;
    vi.advanceTimersByTime(170);
    rest.resolve();
    await setImmediate();
    vi.advanceTimersByTime(afterRestMs);
    const annotations = { 'k8s.io/initial-events-end': 'true' };
    const bookmark = { type: 'BOOKMARK', object: { metadata: { resourceVersion: '9', annotations } } };
    response.end(`${JSON.stringify(bookmark)}\n`);
    expect(await reading).toEqual(seen);
  });

  it('that trickles within an event ends by time', async () => {
    const client = await lying((_request, response) => {
      const timer = setInterval(() => response.write('x'), 5);
      response.on('close', () => clearInterval(timer));
    });
    expect(await read(open(client, 0.05))).toMatchObject([{ code: 'WATCH_OVERDUE' }]);
  });

  it('that is refused without end is refused', async () => {
    const client = await lying((_request, response) => {
      response.statusCode = 403;
      sendForEver(response, 'x'.repeat(kilobyte));
    });
    expect(await read(open(client))).toMatchObject([{ name: 'ApiError', code: 403 }]);
  });

  it.each(['null', '{"type":"ADDED"}', '{"type":"GONE","object":{}}', '{"type":"BOOKMARK","object":{}}'])(
    'ends with what is no event: %s',
    async (line) => {
      const client = await lying((_request, response) => response.end(`${line}\n`));
      expect(await read(open(client))).toMatchObject([{ code: 'ERR_INVALID_OBJECT' }]);
    },
  );
});

describe('a reflector', () => {
  it('of a server that sends without end says so, and ends at once when it is told to', async () => {
    const client = await lying((_request, response) => sendForEver(response, 'x'.repeat(kilobyte)));
    const stop = new AbortController();
    const { promise: problem, resolve } = Promise.withResolvers<ReflectorProblem>();
    const reflector = new Reflector({
      client,
      resource: resources.configMaps,
      store: new Store(),
      onProblem: resolve,
    });
    const running = reflector.run(stop.signal);
    expect(await problem).toMatchObject({ phase: 'list' });
    stop.abort(new Error('over'));
    await running;
    expect(reflector.hasSynced).toBe(false);
  });
});
