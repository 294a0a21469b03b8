import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Reflector } from './reflector.ts';
import { resources } from './resources.ts';
import { Store, type StoreEvent } from './store.ts';
import {
  type FakeApiServer,
  FakeClock,
  type Fault,
  type Snapshot,
  startFakeCluster,
} from './testing/index.ts';
import type { KubeObject } from './types.ts';

const name = fc.constantFrom('a', 'b', 'c', 'd', 'e');
const expired: Fault = { kind: 'status', code: 410, reason: 'Expired' };
const listFault = fc.constantFrom<Fault>(
  { kind: 'status', code: 500 },
  { kind: 'status', code: 429, retryAfterSeconds: 1 },
  { kind: 'reset' },
  { kind: 'reset-in-body' },
  { kind: 'half-body' },
  expired,
);
const watchFault = fc.constantFrom<Fault>(
  { kind: 'status', code: 500 },
  { kind: 'status', code: 429, retryAfterSeconds: 1 },
  { kind: 'reset' },
  { kind: 'end' },
  { kind: 'error-event', code: 410, reason: 'Expired' },
  { kind: 'error-event', code: 500, reason: 'InternalError' },
  expired,
);
const step = fc.oneof(
  { weight: 8, arbitrary: fc.record({ do: fc.constant('put'), name, value: fc.nat(3) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('remove'), name }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('recreate'), name }) },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constantFrom('bump', 'bookmark', 'compact', 'relist', 'wait', 'wait'),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constantFrom('end', 'reset', 'halfEnd', 'halfReset', 'silence', 'expire', 'split'),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant('listFault'), fault: listFault, continued: fc.boolean() }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('watchFault'), fault: watchFault }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('backup', 'restore', 'restart') }) },
);
/** How many turns of the event loop everybody else gets before the next step. */
const turns = fc.oneof(fc.constant(0), fc.nat(4), fc.nat(30));
type Step = { do: string; name?: string; value?: number; fault?: Fault; continued?: boolean };

/** The state that follows from the events alone. Every event must be possible in it. */
class Listener {
  readonly known = new Map<string, KubeObject>();

  hear({ type, object, previous }: StoreEvent): void {
    const key = object.metadata.name ?? '';
    const known = this.known.get(key);
    if (type === 'added') {
      expect(known).toBeUndefined();
    } else {
      expect(known).toBeDefined();
      expect(previous).toBe(known);
      expect(object.metadata.uid).toBe(known?.metadata.uid);
    }
    if (type === 'deleted') this.known.delete(key);
    else this.known.set(key, object);
  }
}

class World {
  readonly #server: FakeApiServer;
  readonly #reflector: Reflector;
  #backup: Snapshot;

  constructor(server: FakeApiServer, reflector: Reflector) {
    this.#server = server;
    this.#reflector = reflector;
    this.#backup = server.snapshot();
  }

  async take(each: Step): Promise<void> {
    const server = this.#server;
    const watches = server.watches();
    const metadata = { name: each.name ?? '', namespace: 'ns', labels: { value: String(each.value) } };
    switch (each.do) {
      case 'put':
        server.put(resources.configMaps, { metadata, unknown: { value: each.value } });
        break;
      case 'recreate':
        server.remove(resources.configMaps, metadata);
        server.put(resources.configMaps, { metadata });
        break;
      case 'remove':
        server.remove(resources.configMaps, metadata);
        break;
      case 'listFault':
      case 'watchFault':
        if (each.fault === undefined) break;
        server.inject({
          verb: each.do === 'listFault' ? 'list' : 'watch',
          fault: each.fault,
          ...(each.continued ? { continued: true } : {}),
        });
        break;
      case 'bump':
      case 'bookmark':
      case 'compact':
        server[each.do]();
        break;
      case 'relist':
        this.#reflector.relist();
        break;
      case 'wait':
        await server.until(() => server.watches().length > 0);
        break;
      case 'backup':
        this.#backup = server.snapshot();
        break;
      case 'restore':
        await this.#restore();
        break;
      case 'restart':
        await server.stop();
        await new Promise((resolve) => setImmediate(resolve));
        await server.listen();
        break;
      default:
        for (const watch of watches) disturb(watch, each.do);
    }
  }

  /**
   * Older data shows only while versions are below those that were seen; a server that has caught up
   * with them before anybody asks cannot be told from one that never went back.
   */
  async #restore(): Promise<void> {
    const server = this.#server;
    server.restore(this.#backup);
    await server.until(() =>
      server
        .watches()
        .some(({ info }) => Number(info.query.get('resourceVersion')) <= Number(server.resourceVersion)),
    );
  }
}

function disturb(watch: ReturnType<FakeApiServer['watches']>[number], how: string): void {
  switch (how) {
    case 'end':
    case 'reset':
    case 'silence':
      watch[how]();
      break;
    case 'halfEnd':
      watch.halfLine('end');
      break;
    case 'halfReset':
      watch.halfLine('reset');
      break;
    case 'expire':
      watch.error(410, 'Expired');
      break;
    case 'split':
      watch.splitBytes = 11;
      break;
  }
}

function byName(objects: Iterable<KubeObject>): [string, string][] {
  return [...objects]
    .map((object): [string, string] => [object.metadata.name ?? '', JSON.stringify(sorted(object))])
    .sort(([a], [b]) => (a < b ? -1 : 1));
}

function sorted(object: object): unknown {
  return Object.entries(object).sort(([a], [b]) => (a < b ? -1 : 1));
}

async function run(steps: readonly { step: Step; turns: number }[], streamedStart: boolean): Promise<void> {
  await using cluster = await startFakeCluster();
  const { server, client } = cluster;
  const errors: unknown[] = [];
  const store = new Store({
    indexes: { value: ({ metadata }) => [metadata.labels?.['value'] ?? ''] },
    onListenerError: (error) => errors.push(error),
  });
  const listener = new Listener();
  store.subscribe((event) => listener.hear(event));
  const reflector = new Reflector({
    client,
    resource: resources.configMaps,
    store,
    pageSize: 2,
    streamedStart,
    bodyTimeoutMs: 200,
    clock: new FakeClock({ autoAdvance: true }),
    random: () => 0.5,
    onProblem: () => undefined,
  });
  const controller = new AbortController();
  let ended = false;
  const running = reflector.run(controller.signal).finally(() => {
    ended = true;
  });
  const world = new World(server, reflector);
  for (const each of steps) {
    await world.take(each.step);
    for (let i = 0; i < each.turns; i++) await new Promise((resolve) => setImmediate(resolve));
  }

  server.clearFaults();
  for (const watch of server.watches()) watch.end();
  await reflector.synced();
  const wanted = byName(server.list(resources.configMaps));
  while (JSON.stringify(byName(store.list())) !== JSON.stringify(wanted)) {
    await new Promise<void>((resolve) => {
      const stop = store.subscribe(() => {
        stop();
        resolve();
      });
    });
  }
  expect(errors).toEqual([]);
  expect(byName(listener.known.values())).toEqual(wanted);
  for (const value of ['0', '1', '2', '3', 'undefined']) {
    const indexed = byName(store.byIndex('value', value)).map(([each]) => each);
    const having = [...store.list()].filter(({ metadata }) => metadata.labels?.['value'] === value);
    expect(indexed).toEqual(byName(having).map(([each]) => each));
  }
  expect(ended).toBe(false);
  controller.abort();
  await running;
}

describe('Reflector and Store', () => {
  it('are equal to the server at rest, whatever has happened, and so is what listeners believe', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ step, turns }), { minLength: 5, maxLength: 40 }),
        fc.boolean(),
        run,
      ),
      { numRuns: 60, timeout: 60_000 },
    );
  }, 120_000);
});
