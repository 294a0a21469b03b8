import { describe, expect, it } from 'vitest';
import { Lane, type Step } from './lane.ts';
import { seededRandom } from './random.ts';

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
