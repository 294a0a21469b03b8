import { FairQueue } from '../fair-queue.ts';
import type { FairQueueOptions } from '../options.ts';
import { ManualClock } from './manual-clock.ts';

export interface Job {
  tenant: string;
  id: string;
  /** Time that a worker needs for it. */
  costMs: number;
}

interface Run {
  job: Job;
  startedAt: number;
  endsAt: number;
}

/** Runs a queue against simulated workers in simulated time: exact, and as fast as the queue itself. */
export class Simulation {
  readonly clock = new ManualClock();
  readonly queue: FairQueue<Job>;
  /** In the order in which they were started. */
  readonly started: Run[] = [];
  readonly finished: Run[] = [];
  #running: Run[] = [];
  readonly #onDone: (job: Job) => void;

  constructor(
    options: Partial<FairQueueOptions<Job>> & { maxConcurrent: number },
    onDone: (job: Job) => void = () => undefined,
  ) {
    this.queue = new FairQueue<Job>({
      keyOf: (job) => job.id,
      tenantOf: (job) => job.tenant,
      clock: this.clock,
      random: () => 0,
      ...options,
    });
    this.#onDone = onDone;
  }

  get running(): readonly Run[] {
    return this.#running;
  }

  addMany(tenant: string, count: number, costMs: number, prefix = 'item'): void {
    for (let i = 0; i < count; i += 1) this.queue.add({ tenant, id: `${prefix}-${i}`, costMs });
  }

  /** Runs until the time has come, or until nothing is left to wait for. */
  runUntil(stopAt: number): void {
    for (;;) {
      this.#startAll();
      const next = Math.min(
        this.queue.nextDueAt() ?? Number.POSITIVE_INFINITY,
        ...this.#running.map((run) => run.endsAt),
      );
      if (next > stopAt || next === Number.POSITIVE_INFINITY) break;
      this.clock.advanceTo(next);
      this.#finishDue();
    }
    if (stopAt !== Number.POSITIVE_INFINITY) this.clock.advanceTo(stopAt);
  }

  runFor(ms: number): void {
    this.runUntil(this.clock.monotonic() + ms);
  }

  /** Time spent on a tenant's items since then, work in progress included. */
  serviceMs(tenant: string, since = 0): number {
    const now = this.clock.monotonic();
    return this.started
      .filter((run) => run.job.tenant === tenant)
      .reduce((sum, run) => sum + Math.max(0, Math.min(run.endsAt, now) - Math.max(run.startedAt, since)), 0);
  }

  countStarted(tenant: string): number {
    return this.started.filter((run) => run.job.tenant === tenant).length;
  }

  #startAll(): void {
    for (;;) {
      const job = this.queue.take();
      if (job === undefined) return;
      const startedAt = this.clock.monotonic();
      const run = { job, startedAt, endsAt: startedAt + job.costMs };
      this.started.push(run);
      this.#running.push(run);
    }
  }

  #finishDue(): void {
    const now = this.clock.monotonic();
    const due = this.#running.filter((run) => run.endsAt <= now);
    this.#running = this.#running.filter((run) => run.endsAt > now);
    for (const run of due) {
      this.finished.push(run);
      this.queue.done(run.job);
      this.#onDone(run.job);
    }
  }
}
