import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { annotationKeys } from '../../api/labels.ts';
import { type Reflector, resources } from '../../kube/index.ts';
import { FakeClock } from '../../kube/testing/index.ts';
import type { KeyRef } from '../context.ts';
import type { SyncedKind } from '../kinds/contract.ts';
import { allKinds } from '../kinds/registry.ts';
import { relistInTurn, runPeriodically } from './resync.ts';
import { ReconcilerHarness } from './testing/reconciler-harness.ts';
import { resyncOf, settings } from './testing/resync-of.ts';

const nothing: KeyRef = { kind: 'configmaps', namespace: 'shop', name: 'never' };

describe('resync (sync rule `resync`)', () => {
  it('finds and queues what is missing, left over or different, on either side', async () => {
    await using harness = await ReconcilerHarness.start();
    harness.namespace('shop');
    const same = harness.have('tenant', resources.configMaps, settings('same'));
    harness.have('super', resources.configMaps, harness.superOf(same));
    harness.have('tenant', resources.configMaps, settings('missing'));
    const changed = harness.have('tenant', resources.configMaps, settings('changed'));
    harness.have('super', resources.configMaps, harness.superOf(changed, { data: { a: 'drift' } }));
    harness.have(
      'super',
      resources.configMaps,
      harness.superOf({ metadata: { name: 'left', namespace: 'shop', uid: 'earlier' } }),
    );
    const n1 = harness.have('super', resources.nodes, { metadata: { name: 'n1' } });
    harness.have('super', resources.nodes, { metadata: { name: 'n2' } });
    harness.have('tenant', resources.nodes, {
      metadata: {
        name: 'n1',
        annotations: { [annotationKeys.uid]: n1.metadata.uid ?? '' },
        labels: { 'kubernetes.io/os': 'x' },
      },
    });
    harness.have('tenant', resources.nodes, {
      metadata: { name: 'n3', annotations: { [annotationKeys.uid]: 'gone' } },
    });

    // A payload that was never read counts as different.
    await harness.reconcile('configmaps', 'same', 'shop');
    const { resync, queued } = resyncOf(harness);
    const findings = await resync.run(harness.state);
    expect(new Set(findings)).toEqual(
      new Set([
        { kind: 'configmaps', drift: 'missing-in-super', count: 1 },
        { kind: 'configmaps', drift: 'differs', count: 1 },
        { kind: 'configmaps', drift: 'orphan', count: 1 },
        { kind: 'nodes', drift: 'missing-in-tenant', count: 1 },
        { kind: 'nodes', drift: 'differs', count: 1 },
        { kind: 'nodes', drift: 'orphan', count: 1 },
      ]),
    );
    expect(queued.toSorted()).toEqual([
      'configmaps/shop/changed',
      'configmaps/shop/left',
      'configmaps/shop/missing',
      'nodes//n1',
      'nodes//n2',
      'nodes//n3',
    ]);
  });

  it.each(allKinds.map((kind) => [kind.name, kind] as const))('looks at %s', async (_name, kind) => {
    await using harness = await ReconcilerHarness.start();
    const seen = new Set<string>();
    const { resync } = resyncOf(harness, {
      driftOf: (_tenant, key) => {
        seen.add(key.kind);
        return undefined;
      },
    });
    const own = harness.namespace('shop');
    const subject = harness.have('tenant', resources.configMaps, settings('x'));
    const superObject = {
      ...harness.superOf({ metadata: { ...subject.metadata, name: 'x' } }),
      involvedObject: { kind: 'ConfigMap', name: 'x', namespace: harness.shop },
      spec: { claimRef: { namespace: harness.shop, name: 'x', uid: 'u' } },
    };
    superObject.metadata.uid = 's1';
    if (kind.resource.plural === 'namespaces') superObject.metadata = harness.superNamespaceOf(own).metadata;
    harness.superCaches.of(kind).apply('ADDED', superObject);
    harness.state.caches.of(kind).apply('ADDED', structuredClone(subject));
    await resync.run(harness.state);
    expect(seen).toContain(kind.name);
  });

  it('leaves alone what is held, queued in any case, or behind our own write', async () => {
    await using harness = await ReconcilerHarness.start();
    harness.namespace('shop');
    harness.have('tenant', resources.configMaps, settings('held'));
    harness.state.held.set('configmaps/shop/held', true);
    harness.have('tenant', resources.configMaps, settings('queued'));
    const t = harness.have('tenant', resources.configMaps, settings('behind'));
    harness.have('super', resources.configMaps, harness.superOf(t, { data: { a: 'drift' } }));
    harness.state.expectations.super.expectVersion('configmaps/shop/behind', '1000000');
    harness.state.expectations.super.expectCreated('configmaps/shop/new', { metadata: { uid: 's1' } });
    harness.have('tenant', resources.configMaps, settings('new'));
    const { resync } = resyncOf(harness, { isQueued: (_tenant, { name }) => name === 'queued' });
    expect(await resync.run(harness.state)).toEqual([]);
  });

  it('leaves look-alikes without our marks alone, on either side (sync rule `unmarked-objects`)', async () => {
    await using harness = await ReconcilerHarness.start();
    harness.namespace('shop');
    const theirs = { metadata: { name: 'x', namespace: harness.shop, uid: 'u1' }, data: { whose: 'theirs' } };
    harness.show('super', resources.configMaps, theirs);
    const labels =
      harness.superOf({ metadata: { name: 'y', namespace: 'shop', uid: 'u' } }).metadata.labels ?? {};
    harness.show('super', resources.configMaps, {
      metadata: { name: 'y', namespace: harness.shop, uid: 'u2', labels },
    });
    harness.show('tenant', resources.configMaps, { metadata: { ...settings('x').metadata, uid: 't1' } });
    harness.have('super', resources.nodes, { metadata: { name: 'n1' } });
    harness.have('tenant', resources.nodes, { metadata: { name: 'n1' } });
    harness.have('tenant', resources.nodes, { metadata: { name: 'of-the-tenant' } });
    const { resync, queued } = resyncOf(harness);
    expect(await resync.run(harness.state)).toEqual([]);
    expect(queued).toEqual([]);
  });

  it('goes on past an object that a kind cannot cope with, and has it looked at', async () => {
    await using harness = await ReconcilerHarness.start();
    harness.namespace('shop');
    harness.have('tenant', resources.configMaps, settings('a-poison'));
    harness.have('tenant', resources.configMaps, settings('b'));
    const kinds = allKinds.map((kind): SyncedKind => {
      if (kind.direction === 'up' || kind.name !== 'configmaps') return kind;
      return {
        ...kind,
        admit: (object, context) => {
          if (object.metadata.name === 'a-poison') throw new TypeError('a defect');
          return kind.admit?.(object, context) ?? { wanted: true };
        },
      };
    });
    const { resync, queued } = resyncOf(harness, { kinds });
    await resync.run(harness.state);
    expect(queued).toEqual(['configmaps/shop/a-poison', 'configmaps/shop/b']);
  });

  it('goes on past a demand of policy that cannot be found out, and tells of it', async () => {
    await using harness = await ReconcilerHarness.start();
    harness.namespace('shop');
    harness.have('tenant', resources.configMaps, settings('a'));
    const errors: string[] = [];
    const { resync, queued } = resyncOf(harness, {
      isDemanded: () => {
        throw new TypeError('a defect');
      },
      onError: (_tenant, { name }, error) => errors.push(`${name}: ${error}`),
    });
    await resync.run(harness.state);
    expect(queued).toEqual(['configmaps/shop/a']);
    expect(errors).toEqual(['a: TypeError: a defect']);
  });

  it('ends waits that nothing else has ended', async () => {
    await using harness = await ReconcilerHarness.start();
    harness.namespace('shop');
    harness.state.dependents.add(nothing, { kind: 'configmaps', namespace: 'shop', name: 'x' });
    harness.have('tenant', resources.configMaps, settings('x'));
    const { resync, queued } = resyncOf(harness);
    await resync.run(harness.state);
    expect(queued).toEqual(['configmaps/shop/x']);
    expect(harness.state.dependents.size).toBe(0);
  });

  it('lets others work in between: no more than 5 ms at a stretch of 10,000 objects', async () => {
    await using harness = await ReconcilerHarness.start();
    let nowMs = 0;
    let looked = 0;
    const { resync } = resyncOf(harness, {
      clock: { monotonic: () => nowMs, sleep: () => nextTurn() },
      keysOf: () => Array.from({ length: 10_000 }, () => nothing),
      driftOf: () => {
        looked += 1;
        nowMs += 0.1;
        return undefined;
      },
    });
    const stretches: number[] = [];
    let before = 0;
    let ended = false;
    const othersTurn = (): void => {
      stretches.push(looked - before);
      before = looked;
      if (!ended) setImmediate(othersTurn);
    };
    setImmediate(othersTurn);
    await resync.run(harness.state);
    ended = true;
    stretches.push(looked - before);
    expect(looked).toBe(10_000);
    expect(Math.max(...stretches)).toBeLessThanOrEqual(52);
  });

  it('rests as long as it has worked, be one look ever so long', async () => {
    await using harness = await ReconcilerHarness.start();
    let nowMs = 0;
    const rests: number[] = [];
    const looks = [1, 4, 300, 2, 3, 1];
    const { resync } = resyncOf(harness, {
      clock: { monotonic: () => nowMs, sleep: async (ms) => void rests.push(ms) },
      keysOf: () => looks.map((ms) => ({ ...nothing, name: String(ms) })),
      driftOf: (_tenant, { name }) => {
        nowMs += Number(name);
        return undefined;
      },
    });
    await resync.run(harness.state);
    expect(rests).toEqual([5, 300, 5]);
  });

  it('tells how long it has looked, without what others did in between', async () => {
    await using harness = await ReconcilerHarness.start();
    let nowMs = 0;
    const took: number[] = [];
    const { resync } = resyncOf(harness, {
      clock: { monotonic: () => nowMs, sleep: () => nextTurn() },
      keysOf: () => Array.from({ length: 30 }, () => nothing),
      driftOf: () => {
        nowMs += 1;
        return undefined;
      },
      onCompleted: (busyMs) => took.push(busyMs),
    });
    let ended = false;
    const othersTurn = (): void => {
      nowMs += 1_000;
      if (!ended) setImmediate(othersTurn);
    };
    setImmediate(othersTurn);
    await resync.run(harness.state);
    ended = true;
    expect(nowMs).toBeGreaterThan(1_000);
    expect(took).toEqual([30]);
  });

  it('ends when the tenant leaves', async () => {
    await using harness = await ReconcilerHarness.start();
    let nowMs = 0;
    let looked = 0;
    const { resync } = resyncOf(harness, {
      clock: { monotonic: () => nowMs++, sleep: () => nextTurn() },
      keysOf: () => Array.from({ length: 100 }, () => nothing),
      driftOf: () => {
        looked += 1;
        return undefined;
      },
      isServed: () => false,
    });
    await resync.run(harness.state);
    expect(looked).toBeLessThan(10);
  });
});

/** Gives these numbers, again and again. */
function numbers(...values: number[]): () => number {
  let next = 0;
  return () => values[next++ % values.length] as number;
}

describe('rounds', () => {
  it('are spread over the first interval, and vary after that: who starts together does not stay together', async () => {
    const clock = new FakeClock();
    const stop = new AbortController();
    const times: Record<string, number[]> = { a: [], b: [] };
    const running = [numbers(0.1, 0.5), numbers(0.8, 0.75)].map((random, index) =>
      runPeriodically({ everyMs: 60_000, clock, random }, stop.signal, () => {
        times['ab'[index] as string]?.push(clock.monotonic());
      }).catch(() => undefined),
    );
    await clock.advance(200_000);
    stop.abort();
    await Promise.all(running);
    expect(times['a']?.slice(0, 3)).toEqual([6_000, 66_000, 121_200]);
    expect(times['b']?.slice(0, 2)).toEqual([48_000, 111_000]);
  });

  it('do not overlap, and end with what one throws', async () => {
    const clock = new FakeClock();
    const running = runPeriodically(
      { everyMs: 1_000, clock, random: () => 0.5 },
      new AbortController().signal,
      async () => {
        await clock.sleep(5_000);
        throw new Error('boom');
      },
    );
    const failed = expect(running).rejects.toThrow('boom');
    await clock.advance(5_000);
    expect(clock.sleeping).toBe(1);
    await clock.advance(1_000);
    await failed;
  });
});

describe('fresh lists', () => {
  it('come from one at a time, each in its turn, beginning anywhere', () => {
    const listed: string[] = [];
    const reflectors = ['a', 'b', 'c'].map(
      (name) => ({ relist: () => listed.push(name) }) as unknown as Reflector,
    );
    const listAfresh = relistInTurn(
      () => reflectors,
      () => 0.5,
    );
    for (let round = 0; round < 4; round++) listAfresh();
    expect(listed).toEqual(['c', 'a', 'b', 'c']);
    expect(() => relistInTurn(() => [], Math.random)()).not.toThrow();
  });
});
