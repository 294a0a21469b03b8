import { describe, expect, it } from 'vitest';
import { countsOf, differences, Lane, ShownTracker, type States, type Step, seededRandom } from './churn.ts';
import type { ChurnVerb, Operation } from './protocol.ts';

function steps(count: number, ...seeds: number[]): Step[] {
  const lane = new Lane(0, seededRandom(...seeds));
  return Array.from({ length: count }, () => lane.next());
}

describe('the work of a lane', () => {
  it('is the same for the same seed, and another for another', () => {
    expect(steps(200, 1, 2, 3)).toEqual(steps(200, 1, 2, 3));
    expect(steps(200, 1, 2, 3)).not.toEqual(steps(200, 1, 2, 4));
    expect(steps(200, 1, 2, 3)).not.toEqual(steps(200, 2, 2, 3));
  });

  it('creates what is not there, and updates and deletes only what is', () => {
    const there = new Map<string, number>();
    for (const { verb, kind, name, object } of steps(5_000, 7)) {
      const id = `${kind}/${name}`;
      if (verb === 'create') expect(there.has(id)).toBe(false);
      else expect(there.get(id)).toBe(object);
      if (verb === 'delete') there.delete(id);
      else there.set(id, object);
      expect(there.size).toBeLessThanOrEqual(8);
    }
  });

  it('has all verbs of all kinds in it', () => {
    const all = steps(2_000, 1);
    const shares = Map.groupBy(all, ({ kind, verb }) => `${verb} ${kind}`);
    expect(shares.size).toBe(9);
    for (const [, some] of shares) expect(some.length).toBeGreaterThan(50);
  });

  it('gives no object the number of an earlier one, even when it has its name', () => {
    const created = steps(2_000, 1).filter(({ verb }) => verb === 'create');
    expect(new Set(created.map(({ object }) => object)).size).toBe(created.length);
  });
});

describe('seeded random numbers', () => {
  it('are spread over the whole range', () => {
    const random = seededRandom(1);
    const tenths = new Array<number>(10).fill(0);
    for (let i = 0; i < 10_000; i++) {
      const tenth = Math.floor(random() * 10);
      tenths[tenth] = (tenths[tenth] ?? 0) + 1;
    }
    for (const count of tenths) expect(Math.abs(count - 1_000)).toBeLessThan(150);
  });
});

function operation(verb: ChurnVerb): Operation {
  return { kind: 'pods', verb, sentMs: 0 };
}

function start() {
  const tracker = new ShownTracker('run');
  const operations = {
    create: operation('create'),
    update: operation('update'),
    delete: operation('delete'),
  };
  const create = tracker.sent('pod', operations.create);
  const update = tracker.sent('pod', operations.update);
  return { tracker, operations, create, update };
}

describe('operations and what a watch shows of them', () => {
  it('are shown by the state that they have made', () => {
    const { tracker, operations, create, update } = start();
    tracker.seen(create, false, 5);
    expect([operations.create.shownMs, operations.update.shownMs]).toEqual([5, undefined]);
    tracker.seen(update, false, 9);
    expect([operations.create.shownMs, operations.update.shownMs]).toEqual([5, 9]);
    expect(tracker.pending).toBe(0);
  });

  it('are shown by a later state of the same object, but not of another', () => {
    const { tracker, operations, update } = start();
    const other = operation('create');
    tracker.sent('other', other);
    tracker.seen(update, false, 7);
    expect([operations.create.shownMs, other.shownMs]).toEqual([7, undefined]);
  });

  it('end with the object, in whatever state it went', () => {
    const { tracker, operations, create } = start();
    tracker.sent('pod', operations.delete);
    tracker.seen(create, true, 8);
    expect([operations.update.shownMs, operations.delete.shownMs]).toEqual([8, 8]);
    expect(tracker.pending).toBe(0);
  });

  it('are not ended by an event that only marks the object for deletion, nor by a delete nobody asked for', () => {
    const { tracker, operations, create, update } = start();
    tracker.seen(create, true, 3);
    expect(operations.update.shownMs).toBeUndefined();
    tracker.sent('pod', operations.delete);
    tracker.seen(update, false, 4);
    expect([operations.update.shownMs, operations.delete.shownMs]).toEqual([4, undefined]);
  });

  it('are shown once only, and by their own run', () => {
    const { tracker, operations, create } = start();
    tracker.seen(create.replace('run', 'other'), false, 1);
    expect(operations.create.shownMs).toBeUndefined();
    tracker.seen(create, false, 2);
    tracker.seen(create, false, 6);
    expect(operations.create.shownMs).toBe(2);
  });
});

function states(pods: string[], services: string[] = []): States {
  return { pods: new Set(pods), configmaps: new Set(), services: new Set(services) };
}

describe('the agreement of both sides', () => {
  it('counts what only one of them has, and what is in another state', () => {
    expect(differences(states(['1', '2']), states(['2', '1']))).toBe(0);
    expect(differences(states(['1', '2']), states(['1']))).toBe(1);
    expect(differences(states(['1'], ['7']), states(['1'], ['8']))).toBe(2);
  });

  it('tells how many there are of each kind', () => {
    expect(countsOf(states(['1', '2'], ['3']))).toEqual({ pods: 2, configmaps: 0, services: 1 });
  });
});
