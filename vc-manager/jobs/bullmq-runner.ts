import type { Logger } from 'pino';
import type { Clock } from '../../kube/index.ts';
import { JobError } from './errors.ts';
import type { Job, JobHandler } from './job.ts';
import { JobOffers } from './job-offers.ts';
import type { JobRunner } from './job-runner.ts';
import { JobWorker } from './job-worker.ts';
import type { Outcome } from './outcome.ts';
import { Turns } from './turns.ts';

export interface BullmqRunnerOptions {
  url: string;
  queueName: string;
  identity: string;
  /** Does a job on this manager; sees to it itself that no other manager is at work on the same tenant. */
  handle: JobHandler;
  /** How many jobs this manager does at the same time. */
  parallel: number;
  clock: Clock;
  logger: Logger;
  /** How long Redis may be silent before the leader does without it. Default 5 s. */
  patienceMs?: number;
  /** How long a job of a manager that says nothing stays that manager's. Default 6 s. */
  lockMs?: number;
  checkMs?: number;
}

/** As many as may ever wait in the queue; the managers take them as they have room. */
const mostOffered = 1_000;
const probeMs = 1_000;

/**
 * Jobs lie in a queue in Redis, from which all managers take. Redis holds nothing that could be lost: while it cannot
 * be used the leader does the work itself, and what it has forgotten is offered again.
 */
export class BullmqRunner implements JobRunner {
  readonly parallel = mostOffered;
  readonly #o: BullmqRunnerOptions;
  readonly #turns: Turns;
  readonly #ended = new AbortController();
  #offers: JobOffers | undefined;
  #probing: Promise<void> | undefined;
  #lastProblem = '';

  constructor(options: BullmqRunnerOptions) {
    this.#o = options;
    this.#turns = new Turns(options.parallel);
  }

  async carryOut(job: Job, signal: AbortSignal): Promise<Outcome> {
    if (this.#probing === undefined) {
      try {
        return await this.#queue().carryOut(job, signal);
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof JobError)) this.#o.logger.warn({ err: error }, 'a job could not be offered');
        this.#lose(error);
      }
    }
    return this.here(job, signal);
  }

  /** On this manager, without the queue. */
  here(job: Job, signal: AbortSignal): Promise<Outcome> {
    return this.#turns.take(signal, () => this.#o.handle(job, { signal }));
  }

  async work(signal: AbortSignal): Promise<void> {
    const { url, queueName, identity, handle, parallel, clock, lockMs = 6_000 } = this.#o;
    const onProblem = (error: Error): void => this.#noteProblem(error);
    await new JobWorker({ url, queueName, identity, handle, parallel, clock, lockMs, onProblem }).run(signal);
  }

  async close(): Promise<void> {
    this.#ended.abort();
    await this.#probing;
    await this.#offers?.close();
  }

  #queue(): JobOffers {
    const { url, queueName, clock, patienceMs = 5_000, checkMs = 1_000 } = this.#o;
    const onProblem = (error: Error): void => this.#noteProblem(error);
    this.#offers ??= new JobOffers({ url, queueName, clock, patienceMs, checkMs, onProblem });
    return this.#offers;
  }

  /** From now on without it, until it answers again. */
  #lose(error: unknown): void {
    if (this.#probing !== undefined || this.#ended.signal.aborted) return;
    const message = error instanceof Error ? error.message : String(error);
    this.#o.logger.warn(`${message}: this manager does all the work itself meanwhile`);
    this.#probing = this.#probe().finally(() => {
      this.#probing = undefined;
    });
  }

  async #probe(): Promise<void> {
    const { signal } = this.#ended;
    try {
      while (!(await this.#queue().isThere(signal))) await this.#o.clock.sleep(probeMs, signal);
      this.#o.logger.info('Redis is there again: managers share the work');
      this.#lastProblem = '';
    } catch {
      // Closed meanwhile.
    }
  }

  /** Each connection tells of each attempt. */
  #noteProblem(error: Error): void {
    if (error.message === this.#lastProblem) return;
    this.#lastProblem = error.message;
    // Not the error itself: a command that failed is in it, with a password as its argument.
    this.#o.logger.debug(`a problem with Redis: ${error.message}`);
  }
}
