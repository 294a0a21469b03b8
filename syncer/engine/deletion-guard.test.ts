import { describe, expect, it } from 'vitest';
import { DeletionGuard, type Missing } from './deletion-guard.ts';

function guarded(
  missing: number,
  total: number,
): { guard: DeletionGuard; set: (missing: number, from?: number) => void; tick: () => void } {
  let nowMs = 0;
  let state: Missing = { uids: [], total };
  const set = (count: number, from = 0): void => {
    state = { uids: Array.from({ length: count }, (_, index) => `uid-${from + index}`), total };
    nowMs += 1_000;
  };
  set(missing);
  return {
    guard: new DeletionGuard(
      { id: 'k3v9' },
      () => state,
      () => nowMs,
    ),
    set,
    tick: () => (nowMs += 1_000),
  };
}

describe('the mass-deletion guard', () => {
  it('minds neither fewer than 20 nor a fifth', () => {
    expect(guarded(19, 19).guard.allowsUnwatched()).toBe(true);
    expect(guarded(20, 100).guard.allowsUnwatched()).toBe(true);
    expect(guarded(21, 100).guard.allowsUnwatched()).toBe(false);
    expect(guarded(20, 20).guard.allowsUnwatched()).toBe(false);
  });

  it('opens when what was missing is back, and asks anew the next time', () => {
    const { guard, set } = guarded(30, 50);
    expect(guard.allowsUnwatched()).toBe(false);
    set(0);
    expect(guard.allowsUnwatched()).toBe(true);
    expect(guard.hold).toBeUndefined();
  });

  it('opens for the id that it asked about, and says so once', () => {
    const { guard, tick } = guarded(30, 50);
    guard.allowsUnwatched();
    const id = guard.hold?.id ?? '';
    expect(guard.confirm('something else')).toBe(false);
    expect(guard.confirm(id)).toBe(true);
    expect(guard.confirm(id)).toBe(false);
    tick();
    expect(guard.allowsUnwatched()).toBe(true);
  });

  it('stays open while what was agreed to goes, and shuts for more than that', () => {
    const { guard, set } = guarded(30, 50);
    guard.allowsUnwatched();
    guard.confirm(guard.hold?.id ?? '');
    set(25);
    expect(guard.allowsUnwatched()).toBe(true);
    set(31);
    expect(guard.allowsUnwatched()).toBe(false);
  });

  it('knows the same objects again after a restart, and takes no old consent for as many others', () => {
    const first = guarded(30, 30).guard;
    first.allowsUnwatched();
    const id = first.hold?.id ?? '';
    const again = guarded(30, 30).guard;
    again.confirm(id);
    expect(again.allowsUnwatched()).toBe(true);
    const others = guarded(0, 30);
    others.set(30, 1_000);
    others.guard.confirm(id);
    expect(others.guard.allowsUnwatched()).toBe(false);
  });

  it('does not answer from memory once something was found missing', () => {
    let uids: string[] = [];
    const guard = new DeletionGuard(
      { id: 'k3v9' },
      () => ({ uids, total: 30 }),
      () => 0,
    );
    expect(guard.allowsUnwatched()).toBe(true);
    uids = Array.from({ length: 30 }, (_, index) => `uid-${index}`);
    expect(guard.allowsUnwatched()).toBe(true);
    guard.invalidate();
    expect(guard.allowsUnwatched()).toBe(false);
  });
});
