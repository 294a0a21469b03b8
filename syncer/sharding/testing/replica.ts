import type { Clock } from '../../../kube/index.ts';
import { Fence } from '../own-lease.ts';
import { type BucketHolder, Shards } from '../shards.ts';
import { clientOf, followerOf, type RecordsClientOptions, type SharedRecords } from './shared-records.ts';

/** A replica of a test: what it holds, and a process that can be stopped, stand still, and die. */
export class Replica implements BucketHolder {
  readonly name: string;
  readonly fence: Fence;
  readonly shards: Shards;
  readonly serving = new Set<number>();
  /** `expect 64`, `take 32`, `drop 3`, `resumed`. */
  readonly told: string[] = [];
  isCut = false;
  delayMs: RecordsClientOptions['delayMs'];
  /** Nothing is heard of what changes; calls get through. */
  isDeaf = false;
  /** What the run ended with. */
  failure: unknown;
  readonly #stop = new AbortController();
  readonly #clock: PausableClock;
  readonly #running: Promise<void>;
  #isDead = false;

  constructor(
    records: SharedRecords,
    name: string,
    clock: Clock,
    options: {
      isNamed?: boolean;
      identity?: string;
      delayMs?: RecordsClientOptions['delayMs'];
      dropMs?: () => number;
      ready?: Promise<void>;
    } = {},
  ) {
    this.name = name;
    this.#clock = new PausableClock(clock);
    this.fence = new Fence({ windowMs: 6_600, clock: this.#clock });
    const { isNamed = true, identity = `${name}_1` } = options;
    this.delayMs = options.delayMs ?? (() => [0, 0]);
    this.#dropMs = options.dropMs ?? (() => 0);
    const isCut = (): boolean => this.isCut || this.#isDead;
    this.shards = new Shards({
      client: clientOf(records, { clock: this.#clock, delayMs: () => this.delayMs(), isCut }),
      follow: followerOf(records, () => isCut() || this.isDeaf),
      namespace: 'skerry-system',
      replica: name,
      isNamed,
      identity,
      fence: this.fence,
      holder: this,
      clock: this.#clock,
      ready: options.ready ?? Promise.resolve(),
      logger: { info: () => undefined, warn: () => undefined },
    });
    this.#running = this.shards.run(this.#stop.signal).catch((error: unknown) => {
      this.failure = error;
    });
  }

  readonly #dropMs: () => number;

  /** Whether a write for this bucket would be sent now. */
  mayWrite(bucket: number): boolean {
    return !this.#isDead && this.fence.isOpen && this.serving.has(bucket);
  }

  expect(buckets: ReadonlySet<number>): void {
    this.told.push(`expect ${buckets.size}`);
  }

  take(buckets: ReadonlySet<number>): void {
    this.told.push(`take ${buckets.size}`);
    for (const bucket of buckets) this.serving.add(bucket);
  }

  async drop(buckets: ReadonlySet<number>): Promise<void> {
    this.told.push(`drop ${buckets.size}`);
    const ms = this.#dropMs();
    if (ms > 0) await this.#clock.sleep(ms);
    for (const bucket of buckets) this.serving.delete(bucket);
  }

  resumed(): void {
    this.told.push('resumed');
  }

  /** As SIGSTOP: nothing goes on, time does. */
  pause(): void {
    this.#clock.pause();
  }

  resume(): void {
    this.#clock.resume();
  }

  /** As SIGTERM. */
  async end(): Promise<void> {
    this.#stop.abort(new Error('ends'));
    await this.#running;
    this.serving.clear();
    await this.shards.leave();
  }

  /** As SIGKILL: what it had is as it was. */
  kill(): void {
    this.#isDead = true;
    this.#stop.abort(new Error('killed'));
  }
}

/** Sleeps of somebody who may stand still end when he goes on. */
class PausableClock implements Clock {
  readonly #clock: Clock;
  #going: Promise<void> = Promise.resolve();
  #goOn: (() => void) | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  now(): number {
    return this.#clock.now();
  }

  monotonic(): number {
    return this.#clock.monotonic();
  }

  async sleep(ms: number, signal?: AbortSignal): Promise<void> {
    try {
      await this.#clock.sleep(ms, signal);
    } finally {
      await this.#going;
    }
  }

  pause(): void {
    if (this.#goOn !== undefined) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#going = promise;
    this.#goOn = resolve;
  }

  resume(): void {
    this.#goOn?.();
    this.#goOn = undefined;
    this.#going = Promise.resolve();
  }
}
