import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FairShares } from './fair-shares.ts';

class Holders {
  readonly shares: FairShares;
  /** What each has; by holder, the newest last. */
  readonly held = new Map<string, { release: () => void }[]>();
  takenBack = 0;

  constructor(all: number, each: number) {
    this.shares = new FairShares({ all, each });
  }

  get taken(): number {
    return [...this.held.values()].reduce((sum, { length }) => sum + length, 0);
  }

  count(holder: string): number {
    return this.held.get(holder)?.length ?? 0;
  }

  take(holder: string): 'each' | 'share' | undefined {
    const refused = this.shares.refuses(holder);
    if (refused !== undefined) return refused;
    const own = this.held.get(holder) ?? [];
    this.held.set(holder, own);
    const one = {
      release: this.shares.take(holder, () => {
        expect(own.pop()).toBe(one);
        this.takenBack += 1;
      }),
    };
    own.push(one);
    return undefined;
  }

  /** As many as it gets. */
  fill(holder: string): 'each' | 'share' {
    for (let count = 0; count < 20_000; count++) {
      const refused = this.take(holder);
      if (refused !== undefined) return refused;
    }
    throw new Error('it gets more than there is');
  }
}

describe('shares of something limited', () => {
  it('leave as much free as each of the first few holders takes', () => {
    const holders = new Holders(10_000, 2_000);
    expect(['a', 'b', 'c', 'd'].map((each) => holders.fill(each))).toEqual(Array(4).fill('each'));
    expect(holders.fill('e')).toBe('share');
    expect(holders.count('e')).toBe(1_666);
    expect(holders.taken).toBe(9_666);
    expect(holders.takenBack).toBe(0);
  });

  it('give room to another holder, however many have taken as much as they got', () => {
    const holders = new Holders(1_000, 200);
    for (let greedy = 0; greedy < 100; greedy++) holders.fill(`greedy-${greedy}`);
    expect(holders.take('late')).toBeUndefined();
    holders.fill('late');
    expect(holders.count('late')).toBe(9);
    expect(holders.taken).toBe(1_000);
  });

  it('are not taken back from who has no more than all would have', () => {
    const holders = new Holders(1_000, 200);
    for (let own = 0; own < 9; own++) holders.take('modest');
    for (let round = 0; round < 3; round++)
      for (let greedy = 0; greedy < 100; greedy++) holders.fill(`greedy-${greedy}`);
    expect(holders.takenBack).toBeGreaterThan(0);
    expect(holders.count('modest')).toBe(9);
  });

  it('are free again once they are given up, also what was taken back before', () => {
    const holders = new Holders(2, 2);
    const given = [holders.shares.take('a', () => undefined), holders.shares.take('a', () => undefined)];
    const late = holders.shares.take('b', () => undefined);
    for (const give of [...given, ...given, late, late]) give();
    expect([holders.shares.has('a'), holders.shares.has('b')]).toEqual([false, false]);
    expect([holders.take('a'), holders.take('a')]).toEqual([undefined, 'share']);
  });

  it('are never more than there is, and everybody has one as long as there are more than holders', () => {
    const step = fc.record({ holder: fc.integer({ min: 0, max: 8 }), gives: fc.boolean() });
    fc.assert(
      fc.property(
        fc.integer({ min: 10, max: 40 }),
        fc.integer({ min: 1, max: 40 }),
        fc.array(step, { maxLength: 300 }),
        (all, each, steps) => {
          const holders = new Holders(all, each);
          for (const { holder, gives } of steps) {
            const name = `${holder}`;
            if (gives) holders.held.get(name)?.shift()?.release();
            else if (holders.count(name) === 0) expect(holders.take(name)).toBeUndefined();
            else holders.fill(name);
            expect(holders.taken).toBeLessThanOrEqual(all);
            expect(holders.count(name)).toBeLessThanOrEqual(each);
          }
        },
      ),
    );
  });
});
