import { afterEach, expect, it, vi } from 'vitest';
import type { Cgroups } from './cgroups.ts';
import { CpuShares } from './cpu-shares.ts';

/** Groups of which each second some processes use some time. */
class Machine {
  readonly shares = new Map<string, number>();
  readonly processes = new Map<string, number[]>();
  readonly used = new Map<number, number>();
  readonly weights = new Map<string, number>();
  nowMs = 0;
  areReadable = true;
  readonly looked: CpuShares;

  constructor(full = 0.5) {
    const groups: Partial<Cgroups> = {
      names: (prefix) =>
        this.areReadable ? [...this.processes.keys()].filter((name) => name.startsWith(prefix)) : undefined,
      processes: (name) => this.processes.get(name) ?? [],
      setShare: (name, share) => void this.shares.set(name, share),
    };
    this.looked = new CpuShares({
      groups: groups as Cgroups,
      prefix: 'skerry-a-',
      full,
      weightOf: (name) => this.weights.get(name) ?? 1,
      now: () => this.nowMs,
      usedBy: (pid) => this.used.get(pid),
    });
  }

  /** Seconds of time that each process uses in each of so many seconds. */
  pass(seconds: number, uses: Record<number, number> = {}): void {
    for (let n = 0; n < seconds; n++) {
      this.nowMs += 1_000;
      for (const [pid, used] of Object.entries(uses))
        this.used.set(Number(pid), (this.used.get(Number(pid)) ?? 0) + used);
      this.looked.look();
    }
  }
}

afterEach(() => void vi.useRealTimers());

it('looks twice a second while processors are busy, every five seconds while they are not, and forgets nothing meanwhile', () => {
  vi.useFakeTimers();
  let partInUse = 0.6;
  let looks = 0;
  let used = 0;
  let share = 0.5;
  const groups: Partial<Cgroups> = {
    names: () => {
      looks += 1;
      return ['skerry-a-flooded'];
    },
    processes: () => [1],
    setShare: (_, set) => {
      share = set;
    },
  };
  const shares = new CpuShares({
    groups: groups as Cgroups,
    prefix: 'skerry-a-',
    full: 0.5,
    now: () => Date.now(),
    usedBy: () => used,
    partInUse: () => partInUse,
  });
  shares.start();
  const looksIn = (seconds: number): number => {
    looks = 0;
    vi.advanceTimersByTime(seconds * 1_000);
    return looks;
  };
  expect(looksIn(60)).toBe(12);
  expect(share).toBe(0.5);
  used += 4;
  vi.advanceTimersByTime(4_000);
  partInUse = 0.7;
  expect(looksIn(0.5)).toBe(1);
  expect(share).toBeCloseTo(0.087, 3);
  expect(looksIn(10)).toBe(20);
  shares.close();
  expect(looksIn(10)).toBe(0);
});

it('who uses little keeps the full share; who uses much has less, until it has been quiet for a while', () => {
  const machine = new Machine();
  machine.processes.set('skerry-a-quiet', [1]).set('skerry-a-flooded', [2]).set('skerry-b-other', [3]);
  machine.used.set(1, 5).set(2, 500).set(3, 5);
  machine.pass(60, { 1: 0.08, 2: 1, 3: 1 });
  expect(machine.shares.get('skerry-a-quiet')).toBe(0.5);
  expect(machine.shares.get('skerry-a-flooded')).toBeCloseTo(0.05, 2);
  expect(machine.shares.has('skerry-b-other')).toBe(false);
  machine.pass(30, { 2: 50 });
  expect(machine.shares.get('skerry-a-flooded')).toBe(0.5 / 32);
  machine.pass(120);
  expect(machine.shares.get('skerry-a-flooded')).toBe(0.5);
});

it('who goes on to use much has less within two seconds; who does for a moment keeps most of it', () => {
  const machine = new Machine();
  machine.processes.set('skerry-a-flooded', [1]);
  machine.used.set(1, 0);
  machine.pass(60);
  expect(machine.shares.get('skerry-a-flooded')).toBe(0.5);
  machine.pass(1, { 1: 0.5 });
  expect(machine.shares.get('skerry-a-flooded')).toBeGreaterThan(0.4);
  machine.pass(60);
  machine.pass(2, { 1: 1 });
  expect(machine.shares.get('skerry-a-flooded')).toBeLessThan(0.1);
  machine.pass(2);
  expect(machine.shares.get('skerry-a-flooded')).toBeLessThan(0.2);
});

it('what a program uses to start does not count, nor does what cannot be read for a moment', () => {
  const machine = new Machine();
  machine.processes.set('skerry-a-starting', [1]);
  machine.used.set(1, 0);
  machine.pass(30, { 1: 1 });
  expect(machine.shares.get('skerry-a-starting')).toBe(0.5);
  machine.pass(30, { 1: 0.01 });
  machine.processes.set('skerry-a-starting', []);
  machine.pass(1);
  machine.processes.set('skerry-a-starting', [1]);
  machine.pass(1);
  expect(machine.shares.get('skerry-a-starting')).toBe(0.5);
});

it('a program that is started again has the full share, however much the one before has used', () => {
  const machine = new Machine();
  machine.processes.set('skerry-a-flooded', [1]);
  machine.used.set(1, 0).set(2, 0);
  machine.pass(60, { 1: 2 });
  expect(machine.shares.get('skerry-a-flooded')).toBeLessThan(0.05);
  machine.processes.set('skerry-a-flooded', [2]);
  machine.pass(1, { 2: 2 });
  expect(machine.shares.get('skerry-a-flooded')).toBe(0.5);
});

it('a group that is gone is forgotten, and all have their full share back in the end', () => {
  const machine = new Machine();
  machine.processes.set('skerry-a-flooded', [1]).set('skerry-a-gone', [2]);
  machine.used.set(1, 0).set(2, 0);
  machine.pass(60, { 1: 1, 2: 1 });
  machine.processes.delete('skerry-a-gone');
  machine.areReadable = false;
  machine.pass(1);
  machine.areReadable = true;
  machine.pass(1, { 1: 1 });
  machine.shares.clear();
  machine.looked.close();
  expect([...machine.shares]).toEqual([['skerry-a-flooded', 0.5]]);
});

/** A machine on which each group has one process, numbered in this order, that has started long ago. */
function weighted(weights: Record<string, number>, full?: number): Machine {
  const machine = new Machine(full);
  for (const [name, weight] of Object.entries(weights)) {
    const pid = machine.processes.size + 1;
    machine.weights.set(`skerry-a-${name}`, weight);
    machine.processes.set(`skerry-a-${name}`, [pid]);
    machine.used.set(pid, 0);
  }
  machine.pass(60);
  return machine;
}

it('who has more weight has more of a full share, and may use more before it has less', () => {
  const machine = weighted({ usual: 2, other: 2, heavy: 3, light: 1 }, 0.2);
  const shares = (): (number | undefined)[] =>
    ['usual', 'heavy', 'light'].map((name) => machine.shares.get(`skerry-a-${name}`));
  expect(shares()).toEqual([0.2, expect.closeTo(0.3), 0.1]);
  machine.pass(60, { 1: 0.14, 3: 0.14, 4: 0.04 });
  expect(shares()).toEqual([expect.closeTo(0.2 / 1.4, 2), expect.closeTo(0.3), 0.1]);
});

it('weights say what groups have beside each other: where all are equal they change nothing', () => {
  const machine = weighted({ one: 1000, two: 1000 }, 0.2);
  machine.pass(60, { 1: 0.08, 2: 1 });
  expect(machine.shares.get('skerry-a-one')).toBeCloseTo(0.2);
  expect(machine.shares.get('skerry-a-two')).toBeCloseTo(0.02, 3);
});

it('no weight has a group go before other processes, and one that uses none takes nothing from others', () => {
  const machine = weighted({ usual: 1, other: 1, heavy: 10 }, 0.25);
  expect([...machine.shares.values()]).toEqual([0.25, 0.25, 0.5]);
  for (let n = 0; n < 2; n += 1) machine.pass(60, { 3: 1 });
  expect([...machine.shares.values()]).toEqual([expect.closeTo(0.05), expect.closeTo(0.05), 0.5]);
});

it('who uses little goes before who uses much of the same weight, also beside a heavy one', () => {
  const machine = weighted({ busy: 1, light: 1, heavy: 100 }, 0.25);
  for (let n = 0; n < 2; n += 1) machine.pass(60, { 1: 1, 3: 1 });
  const [busy = 0, light = 0] = machine.shares.values();
  expect(light / busy).toBeCloseTo(10, 0);
});

it('groups that want all they can get come to use processors in proportion to their weights', () => {
  const machine = weighted({ light: 1, usual: 2, heavy: 6 }, 0.3);
  const processors = 2;
  let uses: number[] = [];
  for (let second = 0; second < 120; second++) {
    const shares = [...machine.shares.values()];
    const all = shares.reduce((sum, share) => sum + share, 0);
    uses = shares.map((share) => (processors * share) / all);
    machine.pass(1, Object.fromEntries(uses.map((use, at) => [at + 1, use])));
  }
  const [light = 0, usual = 0, heavy = 0] = uses;
  expect([usual / light, heavy / light]).toEqual([expect.closeTo(2, 1), expect.closeTo(6, 0)]);
});

it('a weight that changes counts from the next look on, and the full share of the end is by weight', () => {
  const machine = weighted({ one: 1, two: 1 }, 0.2);
  machine.weights.set('skerry-a-two', 2);
  machine.pass(1);
  expect([...machine.shares.values()]).toEqual([0.2, 0.4]);
  machine.pass(60, { 2: 2 });
  machine.looked.close();
  expect([...machine.shares.values()]).toEqual([0.2, 0.4]);
});
