import { describe, expect, it } from 'vitest';
import type { ChurnVerb, Operation } from './protocol.ts';
import { ShownTracker } from './shown-tracker.ts';

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
