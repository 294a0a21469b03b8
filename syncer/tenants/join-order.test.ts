import { describe, expect, it } from 'vitest';
import { FakeClock } from '../../kube/testing/index.ts';
import { crashesUntilJoinsLast } from '../watchdog/watchdog.ts';
import { JoinOrder } from './join-order.ts';

const second = 1_000;
const minute = 60 * second;

/** Who has had a turn, in order; what each holds. */
class Joins {
  readonly clock = new FakeClock();
  readonly order = new JoinOrder(this.clock);
  readonly begun: string[] = [];
  readonly end = new Map<string, () => void>();
  readonly stop = new AbortController();

  ask(name: string, attempts = 0): void {
    this.order.turn(attempts, this.stop.signal).then(
      (end) => {
        this.begun.push(name);
        this.end.set(name, end);
      },
      () => undefined,
    );
  }
}

describe('JoinOrder', () => {
  it('lets tenants join at once of which no replica has died', async () => {
    const joins = new Joins();
    for (const name of ['a', 'b', 'c']) joins.ask(name);
    await joins.clock.advance(0);
    expect(joins.begun).toEqual(['a', 'b', 'c']);
  });

  it('lets one join after the others of which a replica has died', async () => {
    const joins = new Joins();
    joins.ask('suspect', 1);
    joins.ask('a');
    await joins.clock.advance(30 * second);
    expect(joins.begun).toEqual(['a']);
    joins.end.get('a')?.();
    await joins.clock.advance(second);
    expect(joins.begun).toEqual(['a', 'suspect']);
  });

  it('does not wait for ever for those that do not get done', async () => {
    const joins = new Joins();
    joins.ask('suspect', 1);
    joins.ask('hangs');
    await joins.clock.advance(2 * minute);
    expect(joins.begun).toEqual(['hangs', 'suspect']);
  });

  it('forms groups that are the smaller the more replicas have died', async () => {
    for (const [attempts, size] of [
      [1, 16],
      [2, 4],
      [3, 1],
      [9, 1],
    ] as const) {
      const joins = new Joins();
      for (let i = 0; i < 20; i += 1) joins.ask(`t${i}`, attempts);
      await joins.clock.advance(20 * minute);
      expect(joins.begun).toHaveLength(size);
      for (const end of joins.end.values()) end();
      await joins.clock.advance(second);
      expect(joins.begun).toHaveLength(Math.min(20, 2 * size));
    }
  });

  it('lets one with many attempts be alone among those with few', async () => {
    const joins = new Joins();
    joins.ask('worst', 3);
    await joins.clock.advance(5 * minute);
    joins.ask('other', 1);
    await joins.clock.advance(5 * minute);
    expect(joins.begun).toEqual(['worst']);
    joins.end.get('worst')?.();
    await joins.clock.advance(second);
    expect(joins.begun).toEqual(['worst', 'other']);
  });

  it('lets one wait longer each time, and no longer than ten minutes', async () => {
    for (const [attempts, ms] of [
      [3, 30 * second],
      [4, minute],
      [50, 10 * minute],
    ] as const) {
      const joins = new Joins();
      joins.ask('t', attempts);
      await joins.clock.advance(ms - 1);
      expect(joins.begun).toEqual([]);
      await joins.clock.advance(1);
      expect(joins.begun).toEqual(['t']);
    }
  });

  it('forgets who was told to stop while it waited', async () => {
    const joins = new Joins();
    joins.ask('a');
    joins.ask('gone', 3);
    await joins.clock.advance(minute);
    joins.stop.abort(new Error('over'));
    joins.end.get('a')?.();
    await joins.clock.advance(20 * minute);
    expect(joins.begun).toEqual(['a']);
  });
});

/**
 * One replica's life: every tenant joins; the culprit kills the replica a second after it has begun. Returns who is
 * served by then. `attempts` is what VirtualClusters say.
 */
async function life(attempts: Map<string, number>, culprit: string | undefined): Promise<Set<string>> {
  const clock = new FakeClock();
  const order = new JoinOrder(clock);
  const killed = new AbortController();
  const served = new Set<string>();
  const join = async (name: string): Promise<void> => {
    const before = attempts.get(name) ?? 0;
    const end = await order.turn(before, killed.signal);
    attempts.set(name, before + 1);
    await clock.sleep(second, killed.signal);
    if (name === culprit) killed.abort(new Error('out of memory'));
    killed.signal.throwIfAborted();
    served.add(name);
    await clock.sleep(before < crashesUntilJoinsLast ? 10 * second : 30 * second, killed.signal);
    end();
    await clock.sleep(before < crashesUntilJoinsLast ? 20 * second : 0, killed.signal);
    attempts.set(name, 0);
  };
  const joining = [...attempts.keys()].map((name) => join(name).catch(() => undefined));
  for (let i = 0; i < 3_600 && !killed.signal.aborted; i += 1) await clock.advance(second);
  killed.abort(new Error('over'));
  await Promise.all(joining);
  return served;
}

describe('a tenant that kills every replica that takes it up', () => {
  it('stops the others a few times, and then no more', async () => {
    const names = Array.from({ length: 60 }, (_, i) => `t${i}`);
    const attempts = new Map(names.map((name) => [name, 0]));
    const innocent = names.filter((name) => name !== 't31');
    const counts: number[] = [];
    for (let lives = 0; lives < 6; lives += 1) {
      counts.push((await life(attempts, 't31')).size);
    }
    // The attack: nobody is safe from the first deaths.
    expect(counts[0]).toBeLessThan(innocent.length);
    expect(counts.slice(3)).toEqual([innocent.length, innocent.length, innocent.length]);
    expect(innocent.filter((name) => (attempts.get(name) ?? 0) > 0)).toEqual([]);
    expect(attempts.get('t31')).toBe(6);
    // When it has come to its senses, it is served like any other.
    expect((await life(attempts, undefined)).size).toBe(names.length);
    expect(attempts.get('t31')).toBe(0);
  });
});
