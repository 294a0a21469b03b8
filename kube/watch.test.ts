import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { isGone } from './errors.ts';
import { resources } from './resources.ts';
import { type FakeCluster, startFakeCluster, startLyingServer } from './testing/index.ts';
import { endsInitialEvents, LineSplitter, type WatchEvent, type WatchOptions, watch } from './watch.ts';

function split(bytes: Buffer, cuts: readonly number[]): string[] {
  const splitter = new LineSplitter(1 << 20);
  const lines: string[] = [];
  let at = 0;
  for (const cut of [...cuts, bytes.length].sort((a, b) => a - b)) {
    lines.push(...splitter.push(bytes.subarray(at, cut)));
    at = cut;
  }
  return lines;
}

describe('LineSplitter', () => {
  it('returns the same lines wherever the bytes are cut', () => {
    const line = fc.string({ unit: 'grapheme', minLength: 1 }).filter((text) => !text.includes('\n'));
    fc.assert(
      fc.property(fc.array(line), fc.array(fc.nat(500)), (lines, cuts) => {
        const bytes = Buffer.from(lines.map((each) => `${each}\n`).join(''));
        const inside = cuts.map((cut) => Math.min(cut, bytes.length));
        expect(split(bytes, inside)).toEqual(lines.map((each) => Buffer.from(each).toString()));
      }),
    );
  });

  it('keeps a character whole whose bytes arrive one by one', () => {
    const splitter = new LineSplitter(1 << 20);
    const lines = [...Buffer.from('"€😀"\n')].flatMap((byte) => splitter.push(Buffer.from([byte])));
    expect(lines).toEqual(['"€😀"']);
  });

  it('keeps a line whose bytes arrive one by one in few Buffers', () => {
    const splitter = new LineSplitter(1 << 20);
    for (let at = 0; at < 500_000; at++) splitter.push(Buffer.from('a'));
    const concat = vi.spyOn(Buffer, 'concat');
    try {
      expect(splitter.push(Buffer.from('\n'))).toEqual(['a'.repeat(500_000)]);
      expect(concat.mock.calls[0]?.[0].length).toBeLessThan(20);
    } finally {
      concat.mockRestore();
    }
  });

  it('leaves out empty lines', () => {
    expect(new LineSplitter(1 << 20).push(Buffer.from('\n\na\n\n'))).toEqual(['a']);
  });

  it('takes a few blank lines in a row, and no more, however they are cut', () => {
    const splitter = new LineSplitter(1 << 20);
    const few = Buffer.from('\n'.repeat(16));
    expect(splitter.push(few)).toEqual([]);
    expect(splitter.push(Buffer.from('a\n'))).toEqual(['a']);
    expect(splitter.push(few)).toEqual([]);
    expect(() => splitter.push(Buffer.from('\n'))).toThrow('blank lines');
  });

  it('knows that a line is not complete', () => {
    const splitter = new LineSplitter(1 << 20);
    splitter.push(Buffer.from('a\nbc'));
    expect(splitter.pendingBytes).toBe(2);
  });

  it('refuses a line without end', () => {
    const splitter = new LineSplitter(10);
    expect(() => splitter.push(Buffer.from('longer than ten'))).toThrow(RangeError);
  });
});

function open(cluster: FakeCluster, options: Partial<WatchOptions> = {}): AsyncGenerator<WatchEvent> {
  const { connection } = cluster.client;
  return watch(connection, resources.configMaps, {
    resourceVersion: cluster.server.resourceVersion,
    timeoutSeconds: 300,
    ...options,
  });
}

/** Reads to the end; what ended it is the last entry. */
async function read(events: AsyncGenerator<WatchEvent>): Promise<unknown[]> {
  const seen: unknown[] = [];
  try {
    for await (const { type, object } of events) {
      seen.push(`${type} ${object.metadata.name ?? object.metadata.resourceVersion}`);
    }
  } catch (error) {
    seen.push(error);
  }
  return seen;
}

function put(cluster: FakeCluster, name: string, data: Record<string, string> = {}): void {
  cluster.server.put(resources.configMaps, { metadata: { name, namespace: 'ns' }, data });
}

describe('watch', () => {
  it('begins with the state, and says when that is complete', async () => {
    await using cluster = await startFakeCluster();
    const put = (name: string): unknown =>
      cluster.server.put(resources.configMaps, { metadata: { name, namespace: 'ns' } });
    put('a');
    const events = open(cluster, { initialEvents: true });
    const seen: string[] = [];
    for await (const event of events) {
      if (endsInitialEvents(event)) put('b');
      seen.push(`${event.type} ${event.object.metadata.name ?? event.object.metadata.resourceVersion}`);
      if (seen.length === 3) break;
    }
    const [{ query } = { query: new URLSearchParams() }] = cluster.server.requests;
    expect(query.get('sendInitialEvents')).toBe('true');
    expect(query.get('resourceVersionMatch')).toBe('NotOlderThan');
    expect(query.get('resourceVersion')).toBeNull();
    expect(seen[0]).toBe('ADDED a');
    expect(seen[1]).toMatch(/^BOOKMARK \d+$/);
    expect(seen[2]).toBe('ADDED b');
  });

  it('yields changes and bookmarks until the server ends it', async () => {
    await using cluster = await startFakeCluster();
    const { server } = cluster;
    const events = read(open(cluster));
    await server.until(() => server.watches().length === 1);
    put(cluster, 'a');
    put(cluster, 'a');
    server.remove(resources.configMaps, { namespace: 'ns', name: 'a' });
    server.bump();
    server.bookmark();
    for (const each of server.watches()) each.end();
    expect(await events).toEqual([
      'ADDED a',
      'MODIFIED a',
      'DELETED a',
      `BOOKMARK ${server.resourceVersion}`,
    ]);
    const { query } = server.requests[0] ?? {};
    expect([query?.get('allowWatchBookmarks'), query?.get('timeoutSeconds')]).toEqual(['true', '300']);
  });

  it('reads objects of several MB and characters that are split between chunks', async () => {
    await using cluster = await startFakeCluster();
    const { server } = cluster;
    const events = open(cluster);
    const next = events.next();
    await server.until(() => server.watches().length === 1);
    const [stream] = server.watches();
    if (stream) stream.splitBytes = 7;
    put(cluster, 'small', { text: 'ä€😀'.repeat(50) });
    if (stream) stream.splitBytes = 65_537;
    put(cluster, 'big', { text: 'ä€😀'.repeat(500_000) });
    expect((await next).value).toMatchObject({ object: { data: { text: 'ä€😀'.repeat(50) } } });
    const big = (await events.next()).value as WatchEvent;
    expect((big.object['data'] as { text: string }).text === 'ä€😀'.repeat(500_000)).toBe(true);
    await events.return(undefined);
  });

  it('throws an ERROR event as the error that it is', async () => {
    await using cluster = await startFakeCluster();
    cluster.server.inject({ verb: 'watch', fault: { kind: 'error-event', code: 410, reason: 'Expired' } });
    const [error] = await read(open(cluster));
    expect(isGone(error)).toBe(true);
  });

  it('throws when the server refuses', async () => {
    await using cluster = await startFakeCluster();
    const fault = { kind: 'status', code: 429, reason: 'TooManyRequests', retryAfterSeconds: 3 } as const;
    cluster.server.inject({ verb: 'watch', fault });
    expect(await read(open(cluster))).toMatchObject([{ name: 'ApiError', code: 429, retryAfterMs: 3_000 }]);
  });

  it.each(['end', 'reset'] as const)('never yields half an event (%s)', async (then) => {
    await using cluster = await startFakeCluster();
    const { server } = cluster;
    const events = read(open(cluster));
    await server.until(() => server.watches().length === 1);
    put(cluster, 'a');
    server.watches()[0]?.halfLine(then);
    expect(await events).toMatchObject(['ADDED a', { name: 'ConnectionError' }]);
  });

  it('takes silence for the death of the peer', async () => {
    await using cluster = await startFakeCluster();
    const { server } = cluster;
    const events = read(open(cluster, { bodyTimeoutMs: 60 }));
    await server.until(() => server.watches().length === 1);
    server.watches()[0]?.silence();
    put(cluster, 'a');
    expect(await events).toMatchObject([{ name: 'ConnectionError', code: 'UND_ERR_BODY_TIMEOUT' }]);
  });

  it('ends a watch that outlives its time', async () => {
    await using cluster = await startFakeCluster();
    const events = read(open(cluster, { timeoutSeconds: 0, graceMs: 50 }));
    expect(await events).toMatchObject([{ name: 'ConnectionError', code: 'WATCH_OVERDUE' }]);
  });

  it("throws its signal's reason, before and after it has started", async () => {
    await using cluster = await startFakeCluster();
    const { server } = cluster;
    const reason = new Error('enough');
    expect(await read(open(cluster, { signal: AbortSignal.abort(reason) }))).toEqual([reason]);
    const controller = new AbortController();
    const events = read(open(cluster, { signal: controller.signal }));
    await server.until(() => server.watches().length === 1);
    controller.abort(reason);
    expect(await events).toEqual([reason]);
    await server.until(() => server.watches().length === 0);
  });

  it.each([
    ['an object', { type: 'ADDED', object: { metadata: { name: 'a', uid: 'u'.repeat(1_000_000) } } }],
    ['a bookmark', { type: 'BOOKMARK', object: { metadata: { resourceVersion: '1'.repeat(1_000_000) } } }],
  ])('ends with %s whose UID or version has megabytes', async (_what, event) => {
    await using cluster = await startFakeCluster();
    const { server } = cluster;
    const events = read(open(cluster));
    await server.until(() => server.watches().length === 1);
    server.watches()[0]?.raw(Buffer.from(`${JSON.stringify(event)}\n`));
    server.watches()[0]?.end();
    expect(await events).toMatchObject([{ code: 'ERR_INVALID_OBJECT' }]);
  });

  it.each([
    ['blank lines without end', 'ERR_INVALID_JSON', '\n'.repeat(65_536)],
    ['a line without end', 'ERR_ANSWER_TOO_LARGE', 'x'.repeat(65_536)],
  ])('asks for a turn before each piece of %s, and ends with an error', async (_what, code, chunk) => {
    let turns = 0;
    const meter = {
      worked: () => undefined,
      turn: () => {
        turns += 1;
        return undefined;
      },
    };
    const eventBytes = 1 << 20;
    await using server = await startLyingServer(
      (_request, response) => {
        const more = (): void => {
          while (!response.destroyed && response.write(chunk));
        };
        response.on('drain', more).on('error', () => undefined);
        more();
      },
      { meter, readLimits: { eventBytes } },
    );
    const options = { resourceVersion: '1', timeoutSeconds: 2, graceMs: 0 };
    const seen = await read(watch(server.client.connection, resources.configMaps, options));
    expect(seen).toMatchObject([{ name: 'ConnectionError', code }]);
    expect(turns).toBeGreaterThanOrEqual(code === 'ERR_INVALID_JSON' ? 1 : eventBytes / 65_536);
  });

  it('shows an event that comes in many pieces, a turn before each', async () => {
    let turns = 0;
    const meter = {
      worked: () => undefined,
      turn: async () => {
        turns += 1;
      },
    };
    const metadata = { name: 'a', namespace: 'ns', uid: 'a', resourceVersion: '2' };
    const line = JSON.stringify({ type: 'ADDED', object: { metadata, data: { a: 'x'.repeat(1 << 20) } } });
    await using server = await startLyingServer((_request, response) => response.end(`\n${line}\n\n`), {
      meter,
    });
    const options = { resourceVersion: '1', timeoutSeconds: 300 };
    expect(await read(watch(server.client.connection, resources.configMaps, options))).toEqual(['ADDED a']);
    expect(turns).toBeGreaterThan(8);
  });

  it('closes its stream when the reader leaves', async () => {
    await using cluster = await startFakeCluster();
    const { server } = cluster;
    const events = open(cluster);
    const first = events.next();
    await server.until(() => server.watches().length === 1);
    put(cluster, 'a');
    await first;
    await events.return(undefined);
    await server.until(() => server.watches().length === 0);
  });

  it('shows objects that enter and leave its selector as added and deleted', async () => {
    await using cluster = await startFakeCluster();
    const { server } = cluster;
    const events = read(open(cluster, { labelSelector: 'in=yes' }));
    await server.until(() => server.watches().length === 1);
    const metadata = { name: 'a', namespace: 'ns' };
    for (const label of ['no', 'yes', 'yes', 'no']) {
      server.put(resources.configMaps, { metadata: { ...metadata, labels: { in: label } } });
    }
    server.watches()[0]?.end();
    expect(await events).toEqual(['ADDED a', 'MODIFIED a', 'DELETED a']);
  });
});
