import { describe, expect, it } from 'vitest';
import { type Clock, type KubeObject, resources } from '../../kube/index.ts';
import { allKinds, type SyncedKind } from '../kinds/index.ts';
import { marks } from '../mapping/index.ts';
import { SyncEngine } from './engine.ts';
import { Bench } from './testing/bench.ts';

/** An engine that does not run, so that what a patrol queues can be counted. */
function engineOf(bench: Bench, parts: { clock?: Clock; kinds?: readonly SyncedKind[] } = {}): SyncEngine {
  return new SyncEngine({
    kinds: parts.kinds ?? allKinds,
    superClient: bench.super.client,
    superCaches: bench.superCaches,
    superIdentity: bench.superIdentity,
    clock: parts.clock ?? bench.clock,
    workers: 8,
    onMismatch: () => undefined,
    onHeld: () => undefined,
  });
}

const settings = (name: string): KubeObject => ({
  metadata: { name, namespace: 'shop', labels: { [marks.sync]: 'true' } },
});

describe('the patrol', () => {
  it('counts and queues what differs, by kind', async () => {
    await using bench = await Bench.start();
    bench.namespace('shop');
    const t = bench.have('tenant', resources.configMaps, settings('same'));
    bench.have('super', resources.configMaps, bench.superOf(t));
    bench.have('tenant', resources.configMaps, settings('missing'));
    const engine = engineOf(bench);
    engine.join(bench.state, 1);
    expect(await engine.patrol(bench.state)).toEqual(new Map([['configmaps', 1]]));
  });

  it('leaves alone what is held, and what is behind our own write', async () => {
    await using bench = await Bench.start();
    bench.namespace('shop');
    const engine = engineOf(bench);
    engine.join(bench.state, 1);
    bench.have('tenant', resources.configMaps, settings('held'));
    bench.state.held.set('configmaps/shop/held', { kind: 'configmaps', namespace: 'shop', name: 'held' });
    const t = bench.have('tenant', resources.configMaps, settings('behind'));
    bench.have('super', resources.configMaps, bench.superOf(t, { data: { a: 'drift' } }));
    bench.state.memory.super.rememberWritten('configmaps/shop/behind', '1000000');
    bench.state.memory.super.rememberCreated('configmaps/shop/new', { metadata: { uid: 's1' } });
    bench.have('tenant', resources.configMaps, settings('new'));
    expect(await engine.patrol(bench.state)).toEqual(new Map());
  });

  it('goes on past an object that a kind cannot cope with, and has it looked at', async () => {
    await using bench = await Bench.start();
    bench.namespace('shop');
    bench.have('tenant', resources.configMaps, settings('a-poison'));
    bench.have('tenant', resources.configMaps, settings('b'));
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
    const engine = engineOf(bench, { kinds });
    engine.join(bench.state, 1);
    expect(await engine.patrol(bench.state)).toEqual(new Map([['configmaps', 2]]));
  });

  it('ends waits that nothing else has ended', async () => {
    await using bench = await Bench.start();
    bench.namespace('shop');
    const engine = engineOf(bench);
    engine.join(bench.state, 1);
    const waiter = { kind: 'configmaps', namespace: 'shop', name: 'x' };
    bench.state.waiters.add({ kind: 'configmaps', namespace: 'shop', name: 'never' }, waiter);
    bench.have('tenant', resources.configMaps, settings('x'));
    const before = engine.depth();
    expect(await engine.patrol(bench.state)).toEqual(new Map([['configmaps', 1]]));
    expect(bench.state.waiters.size).toBe(0);
    expect(engine.depth()).toBeGreaterThanOrEqual(before);
  });

  it('lets others work in between, and ends when the tenant leaves', async () => {
    await using bench = await Bench.start();
    bench.namespace('shop');
    for (let index = 0; index < 100; index++)
      bench.have('tenant', resources.configMaps, settings(`x-${index}`));
    let nowMs = 0;
    const clock: Clock = {
      now: () => nowMs,
      monotonic: () => nowMs++,
      sleep: () => new Promise(() => undefined),
    };
    const engine = engineOf(bench, { clock });
    engine.join(bench.state, 1);
    const patrol = engine.patrol(bench.state);
    engine.leave(bench.state.info.uid);
    const found = [...(await patrol).values()].reduce((sum, count) => sum + count, 0);
    expect(found).toBeLessThan(100);
  });
});
