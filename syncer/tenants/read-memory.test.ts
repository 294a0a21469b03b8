import type { ServerResponse } from 'node:http';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type KubeClient,
  type MemoryHold,
  type ReadMemory,
  Reflector,
  type ReflectorProblem,
  resources,
  Store,
} from '../../kube/index.ts';
import { startLyingServer } from '../../kube/testing/index.ts';
import { ReadMemoryExceeded, SharedReadMemory } from './read-memory.ts';

const mebibyte = 2 ** 20;
const exceeded = { name: 'ConnectionError', code: 'ReadMemoryExceeded', retryable: true };
const ref = { namespace: 'ns', name: 'a' };

/** Sends so much and falls silent. */
function trickle(response: ServerResponse, bytes: number, isSent: () => void = () => undefined): void {
  let left = bytes;
  const more = (): void => {
    while (left > 0 && !response.destroyed) {
      left -= 65_536;
      if (!response.write('x'.repeat(65_536))) return;
    }
    isSent();
  };
  response.on('drain', more).on('error', () => undefined);
  more();
}

const listOf = (bytes: number): string =>
  JSON.stringify({
    metadata: { resourceVersion: '1' },
    items: [{ metadata: { ...ref, uid: 'u', resourceVersion: '1' }, data: { a: 'x'.repeat(bytes) } }],
  });

async function failure(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    () => undefined,
    (error: unknown) => error,
  );
}

/** What is held, counted by the test. */
class Observed {
  readonly held = new Map<MemoryHold, number>();
  mostBytes = 0;

  of(memory: ReadMemory): ReadMemory {
    return {
      hold: (abort) => {
        // A chunk that has come before the reader sees the end is dropped by it.
        let hasEnded = false;
        const hold = memory.hold((error) => {
          hasEnded = true;
          this.held.delete(hold);
          abort(error);
        });
        return {
          takes: (bytes) => {
            if (!hasEnded) this.held.set(hold, bytes);
            hold.takes(bytes);
            const sum = [...this.held.values()].reduce((a, b) => a + b, 0);
            this.mostBytes = Math.max(this.mostBytes, sum);
          },
          release: () => {
            this.held.delete(hold);
            hold.release();
          },
        };
      },
    };
  }
}

describe('answers that are being read', () => {
  it('take no more memory than all tenants may, and those of a light tenant come all the same', async () => {
    const limit = 64 * mebibyte;
    const shared = new SharedReadMemory(limit);
    const observed = new Observed();
    let aborted = 0;
    await using stack = new AsyncDisposableStack();
    const attacks: Promise<unknown>[] = [];
    for (let n = 0; n < 20; n++) {
      const { client } = stack.use(
        await startLyingServer((_request, response) => trickle(response, 10.5 * mebibyte), {
          readMemory: observed.of(
            shared.tenant(() => {
              aborted += 1;
            }),
          ),
        }),
      );
      attacks.push(failure(client.get(resources.configMaps, ref)));
      stack.adopt(client.connection, (connection) => connection.close());
    }
    await expect.poll(() => shared.bytes).toBe(6 * 10.5 * mebibyte);
    expect(aborted).toBe(14);
    const light = stack.use(
      await startLyingServer((_request, response) => response.end(listOf(4 * mebibyte)), {
        readMemory: observed.of(shared.tenant(() => expect.unreachable())),
      }),
    );
    expect((await light.client.list(resources.configMaps)).items).toHaveLength(1);
    expect(aborted).toBe(15);
    expect(observed.mostBytes).toBeGreaterThan(limit / 2);
    expect(observed.mostBytes).toBeLessThanOrEqual(limit);
    await stack.disposeAsync();
    const errors = await Promise.all(attacks);
    expect(errors.filter((error) => (error as { code?: string }).code === exceeded.code)).toHaveLength(
      aborted,
    );
    expect(errors.find((error) => (error as { code?: string }).code === exceeded.code)).toMatchObject(
      exceeded,
    );
    expect(shared.bytes).toBe(0);
  });

  it('are held until they are parsed, and let go of at once when they wait for that', async () => {
    const shared = new SharedReadMemory(5.5 * mebibyte);
    const waiting: (() => void)[] = [];
    const meter = {
      worked: () => undefined,
      // The one after the last piece: that of the parser.
      turn: () => (shared.bytes < 3 * mebibyte ? undefined : new Promise<void>((go) => waiting.push(go))),
    };
    await using server = await startLyingServer((_request, response) => response.end(listOf(3 * mebibyte)), {
      readMemory: shared.tenant(),
      meter,
    });
    const list = () => server.client.list(resources.configMaps);
    const first = list();
    await expect.poll(() => waiting.length).toBe(1);
    expect(shared.bytes).toBeGreaterThan(3 * mebibyte);
    waiting[0]?.();
    expect((await first).items).toHaveLength(1);
    expect(shared.bytes).toBe(0);

    const second = failure(list());
    await expect.poll(() => waiting.length).toBe(2);
    await using other = await startLyingServer(
      (_request, response) => response.end(listOf(2.75 * mebibyte)),
      { readMemory: shared.tenant() },
    );
    expect((await other.client.list(resources.configMaps)).items).toHaveLength(1);
    expect(await second).toMatchObject(exceeded);
    expect(shared.bytes).toBe(0);
  });
});

it('lines of watches are let go of when they take too much, and the watch is resumed later', async () => {
  const shared = new SharedReadMemory(32 * mebibyte);
  const observed = new Observed();
  const follow = (client: KubeClient, store: Store, onProblem: (problem: ReflectorProblem) => void) =>
    new Reflector({ client, resource: resources.configMaps, store, onProblem }).run(ending.signal);
  const ending = new AbortController();
  const event = { type: 'ADDED', object: { metadata: { ...ref, uid: 'u', resourceVersion: '2' } } };
  await using hostile = await startLyingServer(
    (request, response) => {
      if (request.url?.includes('watch=1')) trickle(response, 10 * mebibyte);
      else response.end(JSON.stringify({ metadata: { resourceVersion: '1' }, items: [] }));
    },
    { readMemory: observed.of(shared.tenant()) },
  );
  let send: (line: string) => void = () => undefined;
  await using honest = await startLyingServer(
    (request, response) => {
      if (request.url?.includes('watch=1')) send = (line) => response.write(`${line}\n`);
      else response.end(JSON.stringify({ metadata: { resourceVersion: '1' }, items: [] }));
    },
    { readMemory: observed.of(shared.tenant(() => expect.unreachable())) },
  );
  const problems: ReflectorProblem[] = [];
  const store = new Store();
  const running = Array.from({ length: 5 }, () =>
    follow(hostile.client, new Store(), (problem) => void problems.push(problem)),
  );
  running.push(follow(honest.client, store, () => expect.unreachable()));
  await expect.poll(() => problems.length).toBeGreaterThanOrEqual(2);
  for (const { phase, error, retryInMs } of problems) {
    expect([phase, error]).toMatchObject(['watch', exceeded]);
    expect(retryInMs).toBeGreaterThan(500);
  }
  const data = { a: 'x'.repeat(2 * mebibyte) };
  send(JSON.stringify({ ...event, object: { ...event.object, data } }));
  await expect.poll(() => store.size).toBe(1);
  expect(observed.mostBytes).toBeLessThanOrEqual(32 * mebibyte);
  ending.abort();
  await Promise.all(running);
  expect(shared.bytes).toBe(0);
});

it('ends the largest of the tenant that has most, and none while all together fit', () => {
  const limit = 100;
  const tenants = 4;
  type Step = readonly ['hold' | 'takes' | 'release', number, number];
  const step: fc.Arbitrary<Step> = fc.tuple(
    fc.constantFrom('hold', 'takes', 'takes', 'release'),
    fc.nat(),
    fc.nat(60),
  );
  let ended = 0;
  fc.assert(
    fc.property(fc.array(step, { minLength: 30, maxLength: 60, size: 'max' }), (steps) => {
      const shared = new SharedReadMemory(limit);
      const members = Array.from({ length: tenants }, () => shared.tenant());
      const open: { hold: MemoryHold; tenant: number; bytes: number }[] = [];
      const sum = (of = open): number => of.reduce((total, { bytes }) => total + bytes, 0);
      const of = (tenant: number) => open.filter((each) => each.tenant === tenant);
      for (const [what, which, bytes] of steps) {
        if (what === 'hold') {
          const tenant = which % tenants;
          const entry = { tenant, bytes: 0 } as (typeof open)[number];
          entry.hold = members[tenant]?.hold((error) => {
            expect(error).toBeInstanceOf(ReadMemoryExceeded);
            expect(sum()).toBeGreaterThan(limit);
            for (let other = 0; other < tenants; other++)
              expect(sum(of(other))).toBeLessThanOrEqual(sum(of(tenant)));
            expect(entry.bytes).toBe(Math.max(...of(tenant).map((each) => each.bytes)));
            open.splice(open.indexOf(entry), 1);
            ended += 1;
            // As whoever reads does, and some more.
            entry.hold.release();
            entry.hold.takes(1);
          }) as MemoryHold;
          open.push(entry);
          continue;
        }
        const entry = open[which % Math.max(1, open.length)];
        if (entry === undefined) continue;
        if (what === 'takes') {
          entry.bytes = bytes;
          entry.hold.takes(bytes);
        } else {
          open.splice(open.indexOf(entry), 1);
          entry.hold.release();
        }
        expect(shared.bytes).toBe(sum());
        expect(shared.bytes).toBeLessThanOrEqual(limit);
      }
      for (const { hold } of open) hold.release();
      expect(shared.bytes).toBe(0);
    }),
  );
  expect(ended).toBeGreaterThan(0);
});
