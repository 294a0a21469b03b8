import { expect, it } from 'vitest';
import { ContestedWrites, patchedFields } from './contested-writes.ts';

class Trial {
  nowMs = 0;
  readonly writes = new ContestedWrites(() => this.nowMs);
  written = 0;
  begun = 0;

  /** Tries to write once in so many milliseconds, for so long. */
  try(
    everyMs: number,
    forMs: number,
    patch: (n: number) => object,
    source: (n: number) => string | undefined = () => undefined,
  ): number {
    const before = this.written;
    for (let passed = 0; passed < forMs; passed += everyMs) {
      const { held, begins } = this.writes.check('object', patch(passed), source(passed));
      if (!held) this.written += 1;
      if (begins) this.begun += 1;
      this.nowMs += everyMs;
    }
    return this.written - before;
  }

  /** Tries to create the object once in so many milliseconds, for so long. */
  make(everyMs: number, forMs: number, source: () => string): number {
    let made = 0;
    for (let passed = 0; passed < forMs; passed += everyMs) {
      const { held, begins } = this.writes.checkCreation('object');
      if (begins) this.begun += 1;
      if (!held) {
        this.writes.created('object', source());
        made += 1;
      }
      this.nowMs += everyMs;
    }
    return made;
  }
}

const same = () => ({ metadata: { labels: { app: 'web' } } });

it('the same patch many times a minute is slowed down to one in a minute, and said once', () => {
  const trial = new Trial();
  expect(trial.try(100, 60_000, same)).toBeLessThanOrEqual(20 + 7);
  expect(trial.begun).toBe(1);
  trial.try(100, 120_000, same);
  expect(trial.try(100, 600_000, same)).toBeLessThanOrEqual(11);
  expect(trial.begun).toBe(1);
});

it('patches that differ, or come now and then, are written at once', () => {
  const changing = new Trial();
  expect(changing.try(100, 60_000, (n) => ({ metadata: { labels: { n: String(n) } } }))).toBe(600);
  const rare = new Trial();
  expect(rare.try(7_000, 700_000, same)).toBe(100);
});

it('patches that differ each time are slowed down as the same one is, while what they are made from stays as it is', () => {
  const another = (n: number) => ({ metadata: { labels: { [`n${n}`]: null } } });
  const trial = new Trial();
  expect(trial.try(100, 60_000, another, () => '7')).toBeLessThanOrEqual(20 + 7);
  expect(trial.begun).toBe(1);
  // What the source newly says is written at once, in the middle of it.
  expect(trial.writes.check('object', another(-1), '8')).toEqual({ held: false, begins: false });
  expect(trial.try(100, 60_000, another, () => '8')).toBeLessThanOrEqual(7);
  const changing = new Trial();
  expect(changing.try(100, 60_000, another, (n) => String(n))).toBe(600);
});

it('a war is noticed although other patches of the same object are written in between', () => {
  const trial = new Trial();
  let n = 0;
  const written = trial.try(100, 60_000, () => {
    n += 1;
    return n % 2 === 0 ? same() : { metadata: { annotations: { n: String(n) } } };
  });
  expect(trial.begun).toBe(1);
  expect(written).toBeLessThanOrEqual(300 + 20 + 7);
});

it('what has been calm for a time is written at once again, and another object is not held meanwhile', () => {
  const trial = new Trial();
  trial.try(100, 60_000, same);
  expect(trial.writes.check('another', same()).held).toBe(false);
  trial.nowMs += 240_000;
  expect(trial.writes.check('object', same())).toEqual({ held: false, begins: false });
  expect(trial.try(7_000, 60_000, same)).toBe(9);
});

it('an object that is made from another one again and again is made less and less often, which is said once', () => {
  const trial = new Trial();
  let uid = 0;
  const make = (everyMs: number, forMs: number, next = () => ++uid): number =>
    trial.make(everyMs, forMs, () => String(next()));
  expect(make(100, 60_000)).toBeLessThanOrEqual(11 + 6);
  expect(make(100, 600_000)).toBeLessThanOrEqual(11);
  expect(trial.begun).toBe(1);
  expect(trial.writes.checkCreation('another').held).toBe(false);
  trial.nowMs += 240_000;
  // A few times a minute, for as long as it likes.
  expect(make(6_000, 3_600_000)).toBe(600);
  // From the same one, as it is needed and not needed any more.
  expect(make(100, 60_000, () => 0)).toBe(600);
  expect(trial.begun).toBe(1);
});

it('an object whose source is deleted and comes back with the same UID is made less and less often', () => {
  const trial = new Trial();
  const back = (...deleted: string[]): string => {
    for (const uid of deleted) trial.writes.sourceDeleted('object', uid);
    return 'a';
  };
  expect(trial.make(100, 60_000, () => back('a'))).toBeLessThanOrEqual(12 + 6);
  expect(trial.begun).toBe(1);
  trial.nowMs += 240_000;
  // Another one that comes and goes meanwhile hides nothing.
  expect(trial.make(100, 60_000, () => back('a', 'b'))).toBeLessThanOrEqual(12 + 6);
  // One that is still there is made as often as it is needed, whatever else is deleted.
  const calm = new Trial();
  expect(calm.make(100, 60_000, () => 'a')).toBe(600);
  calm.writes.sourceDeleted('object', 'b');
  expect(calm.make(100, 60_000, () => 'a')).toBe(600);
  expect(calm.begun).toBe(0);
});

it('names a few of the fields, however many a patch has', () => {
  expect(patchedFields(same())).toEqual(['metadata.labels.app']);
  const many = Object.fromEntries(Array.from({ length: 1_000 }, (_, n) => [`k${n}`, n]));
  expect(patchedFields({ data: many, spec: { list: [1, 2] } })).toHaveLength(5);
});
