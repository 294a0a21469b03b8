import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FakeClock } from '../../kube/testing/index.ts';
import { Replica } from './testing/replica.ts';
import { SharedRecords } from './testing/shared-records.ts';

const names = ['a', 'b', 'c'] as const;
const watchEveryMs = 100;

type Step = {
  what: 'pass' | 'start' | 'pause' | 'resume' | 'cut' | 'heal' | 'kill' | 'end';
  who: number;
  ms: number;
};

const step: fc.Arbitrary<Step> = fc.record({
  what: fc.constantFrom('pass', 'pass', 'start', 'start', 'pause', 'resume', 'cut', 'heal', 'kill', 'end'),
  who: fc.nat(names.length - 1),
  ms: fc.oneof(fc.nat(3_000), fc.integer({ min: 5_000, max: 15_000 })),
});

/** Replicas that come and go, stand still, are cut off and die, and whose calls take their time. */
class Scene {
  readonly #records = new SharedRecords();
  readonly #clock = new FakeClock();
  readonly #replicas: (Replica | undefined)[] = names.map(() => undefined);
  readonly #ending: Promise<void>[] = [];
  readonly #random: () => number;
  #generation = 0;
  #isCalm = false;

  constructor(delays: readonly number[]) {
    let next = 0;
    this.#random = () => (this.#isCalm ? 0 : (delays[next++ % delays.length] ?? 0));
  }

  async play({ what, who, ms }: Step): Promise<void> {
    const replica = this.#replicas[who];
    if (what === 'start' && replica === undefined) this.#start(who);
    if (what === 'pause') replica?.pause();
    if (what === 'resume') replica?.resume();
    if (what === 'cut' && replica !== undefined) replica.isCut = true;
    if (what === 'heal' && replica !== undefined) replica.isCut = false;
    if (what === 'kill') this.#kill(who);
    if (what === 'end' && replica !== undefined) {
      this.#replicas[who] = undefined;
      this.#ending.push(replica.end());
    }
    await this.pass(ms);
  }

  async pass(ms: number, everyMs = watchEveryMs): Promise<void> {
    for (let passed = 0; passed < ms; passed += everyMs) {
      await this.#clock.advance(everyMs);
      this.#expectApart();
    }
  }

  /** All that are left are well: each bucket is served, by one. */
  async settle(): Promise<void> {
    this.#isCalm = true;
    if (this.#replicas.every((replica) => replica === undefined)) this.#start(0);
    for (const replica of this.#replicas) {
      replica?.resume();
      if (replica !== undefined) replica.isCut = false;
    }
    await this.pass(60_000, 1_000);
    const living = this.#replicas.filter((replica) => replica !== undefined);
    for (let bucket = 0; bucket < 64; bucket++) {
      expect(living.filter((replica) => replica.mayWrite(bucket))).toHaveLength(1);
    }
  }

  #start(who: number): void {
    this.#generation += 1;
    this.#replicas[who] = new Replica(this.#records, names[who] ?? '', this.#clock, {
      identity: `${names[who]}_${this.#generation}`,
      delayMs: () => [1 + this.#random(), 1 + this.#random()],
      dropMs: () => this.#random(),
    });
  }

  #kill(who: number): void {
    this.#replicas[who]?.kill();
    this.#replicas[who] = undefined;
  }

  #expectApart(): void {
    const writing = new Map<number, string>();
    for (const replica of this.#replicas) {
      if (replica === undefined || !replica.fence.isOpen) continue;
      for (const bucket of replica.serving) {
        const other = writing.get(bucket);
        if (other !== undefined)
          expect.fail(`${other} and ${replica.name} may both write for bucket ${bucket}`);
        writing.set(bucket, replica.name);
      }
    }
  }
}

describe('replicas, whatever becomes of them', () => {
  it('never write for one bucket at the same time, and serve all of them in the end', {
    timeout: 120_000,
  }, async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { minLength: 5, maxLength: 20 }),
        fc.array(fc.oneof(fc.nat(50), fc.nat(3_000)), { minLength: 5, maxLength: 40 }),
        async (steps, delays) => {
          const scene = new Scene(delays);
          for (const each of steps) await scene.play(each);
          await scene.settle();
        },
      ),
      { numRuns: 25 },
    );
  });
});
