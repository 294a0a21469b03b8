import { randomUUID } from 'node:crypto';
import { Queue, type Job as QueuedJob, QueueEvents, UnrecoverableError, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import type { Logger } from 'pino';
import type { Clock } from '../../kube/index.ts';
import {
  type Job,
  JobError,
  type JobHandler,
  type JobRunner,
  type ReconcileResult,
  redisLost,
} from './job-runner.ts';
import { Turns } from './turns.ts';

/**
 * A connection that is made again for as long as it takes. `onProblem` is told of each failure; a command that waits
 * for the server waits until it is back.
 */
export function redisConnection(url: string, onProblem: (error: Error) => void): Redis {
  const redis = new Redis(url, {
    maxRetriesPerRequest: null,
    connectTimeout: 5_000,
    keepAlive: 5_000,
    // The protocol that BullMQ is made for.
    protocol: 2,
    retryStrategy: (times) => Math.min(100 * 2 ** Math.min(times, 5), 2_000),
  });
  redis.on('error', onProblem);
  return redis;
}

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
const maxQueuedJobs = 1_000;
const probeMs = 1_000;

/**
 * Jobs lie in a queue in Redis, from which all managers take. Redis holds nothing that could be lost: while it cannot
 * be used the leader does the work itself, and what it has forgotten is offered again.
 */
export class BullmqRunner implements JobRunner {
  readonly parallel = maxQueuedJobs;
  readonly #o: BullmqRunnerOptions;
  readonly #turns: Turns;
  readonly #ended = new AbortController();
  #offers: JobProducer | undefined;
  #probing: Promise<void> | undefined;
  #lastProblem = '';

  constructor(options: BullmqRunnerOptions) {
    this.#o = options;
    this.#turns = new Turns(options.parallel);
  }

  async run(job: Job, signal: AbortSignal): Promise<ReconcileResult> {
    if (this.#probing === undefined) {
      try {
        return await this.#queue().carryOut(job, signal);
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof JobError)) this.#o.logger.warn({ err: error }, 'a job could not be offered');
        this.#lose(error);
      }
    }
    return this.runLocally(job, signal);
  }

  /** On this manager, without the queue. */
  runLocally(job: Job, signal: AbortSignal): Promise<ReconcileResult> {
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

  #queue(): JobProducer {
    const { url, queueName, clock, patienceMs = 5_000, checkMs = 1_000 } = this.#o;
    const onProblem = (error: Error): void => this.#noteProblem(error);
    this.#offers ??= new JobProducer({ url, queueName, clock, patienceMs, checkMs, onProblem });
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

export interface QueuedData extends Job {
  /** Which offer it is: of two that are one job in the queue, the one that was first. */
  offer: string;
}

export interface QueuedProgress {
  step?: string;
  doing?: string;
  outcome?: ReconcileResult;
}

export interface JobProducerOptions {
  url: string;
  queueName: string;
  clock: Clock;
  /** How long Redis may take to answer before it counts as lost. */
  patienceMs: number;
  /** How often a job is looked at when nothing is heard of it. */
  checkMs: number;
  onProblem: (error: Error) => void;
}

/** So many jobs of each kind of end are kept for dashboards. */
const keptJobs = { count: 200 };

/** The leader's side of the queue: jobs go in, outcomes come back. */
export class JobProducer {
  readonly #o: JobProducerOptions;
  readonly #redis: Redis;
  readonly #queue: Queue<QueuedData, ReconcileResult>;
  readonly #events: QueueEvents;
  readonly #listening = new Map<string, Set<() => void>>();

  constructor(options: JobProducerOptions) {
    this.#o = options;
    const { url, queueName, onProblem } = options;
    this.#redis = redisConnection(url, onProblem);
    this.#queue = new Queue(queueName, { connection: this.#redis, skipWaitingForReady: true });
    this.#events = new QueueEvents(queueName, { connection: this.#redis });
    this.#queue.on('error', onProblem);
    this.#events.on('error', onProblem);
    const tell = ({ jobId }: { jobId: string }): void => {
      for (const told of this.#listening.get(jobId) ?? []) told();
    };
    this.#events.on('completed', tell);
    this.#events.on('failed', tell);
  }

  /** Throws `RedisLost`, or for its signal. */
  async carryOut(job: Job, signal: AbortSignal): Promise<ReconcileResult> {
    const data: QueuedData = { ...job, offer: randomUUID() };
    for (;;) {
      const added = await this.#ask(
        () =>
          this.#queue.add(job.kind, data, {
            jobId: `${job.uid}-${job.kind}-${data.offer.slice(0, 8)}-${randomUUID().slice(0, 4)}`,
            // One tenant, one job: a second offer is the one that is there.
            deduplication: { id: job.uid },
            removeOnComplete: keptJobs,
            removeOnFail: keptJobs,
          }),
        signal,
      );
      const ended = await this.#untilEnded(added.id ?? '', signal);
      // Redis has forgotten it, or it was what somebody had offered before: it may have looked at something older.
      if (ended === undefined || ended.data.offer !== data.offer) continue;
      return resultOf(ended);
    }
  }

  /** Whether it answers in time. */
  async isThere(signal: AbortSignal): Promise<boolean> {
    try {
      await this.#ask(() => this.#redis.ping(), signal);
      return true;
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof Error) this.#o.onProblem(error);
      return false;
    }
  }

  async close(): Promise<void> {
    const closing = Promise.all([this.#events.close(), this.#queue.close()]).catch(() => undefined);
    // Commands that wait for a server that is gone would wait for ever.
    await Promise.race([closing, this.#o.clock.sleep(1_000)]);
    this.#redis.disconnect();
  }

  /** Undefined when there is no such job any more. */
  async #untilEnded(
    id: string,
    signal: AbortSignal,
  ): Promise<QueuedJob<QueuedData, ReconcileResult> | undefined> {
    for (;;) {
      const told = this.#hears(id, signal);
      try {
        const found = await this.#ask(() => this.#queue.getJob(id), signal);
        if (found === undefined || found.finishedOn !== undefined) return found;
        await told.promise;
      } finally {
        told.end();
      }
    }
  }

  /** Until the job has ended, as far as events tell, or it is time to look. */
  #hears(id: string, signal: AbortSignal): { promise: Promise<void>; end: () => void } {
    const over = new AbortController();
    const end = (): void => over.abort();
    const listeners = this.#listening.get(id) ?? new Set();
    this.#listening.set(id, listeners.add(end));
    const promise = this.#o.clock.sleep(this.#o.checkMs, AbortSignal.any([signal, over.signal])).catch(() => {
      signal.throwIfAborted();
    });
    promise.catch(() => undefined);
    return {
      promise,
      end: () => {
        end();
        listeners.delete(end);
        if (listeners.size === 0) this.#listening.delete(id);
      },
    };
  }

  async #ask<T>(command: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const { clock, patienceMs } = this.#o;
    signal.throwIfAborted();
    const waiting = new AbortController();
    const tooLong = clock.sleep(patienceMs, AbortSignal.any([signal, waiting.signal])).then(() => {
      throw new Error(`it has not answered within ${patienceMs / 1000} s`);
    });
    tooLong.catch(() => undefined);
    try {
      return await Promise.race([command(), tooLong]);
    } catch (error) {
      signal.throwIfAborted();
      throw redisLost(error);
    } finally {
      waiting.abort();
    }
  }
}

function resultOf(job: QueuedJob<QueuedData, ReconcileResult>): ReconcileResult {
  if (job.returnvalue !== null && job.returnvalue !== undefined) return job.returnvalue;
  const { outcome } = (typeof job.progress === 'object' ? job.progress : {}) as QueuedProgress;
  return outcome ?? { kind: 'failed' };
}

export interface JobWorkerOptions {
  url: string;
  queueName: string;
  identity: string;
  handle: JobHandler;
  /** How many jobs at the same time. */
  parallel: number;
  clock: Clock;
  /** How long a job of a manager that says nothing stays that manager's. */
  lockMs: number;
  onProblem: (error: Error) => void;
}

/** One manager's share of the work. */
export class JobWorker {
  readonly #o: JobWorkerOptions;

  constructor(options: JobWorkerOptions) {
    this.#o = options;
  }

  /** Until aborted; what it does then is given up, and is somebody else's. */
  async run(signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    const { url, queueName, identity, parallel, lockMs, clock, onProblem } = this.#o;
    const redis: Redis = redisConnection(url, onProblem);
    const worker = new Worker<QueuedData, ReconcileResult>(queueName, (job) => this.#work(job, signal), {
      connection: redis,
      name: identity,
      concurrency: parallel,
      lockDuration: lockMs,
      // Two looks tell that one is gone.
      stalledInterval: Math.max(1_000, lockMs / 3),
      // Whoever dies is replaced, however often.
      maxStalledCount: 1_000_000,
      // Blocks no longer than this: a server that vanished without a word is noticed.
      drainDelay: 5,
    });
    worker.on('error', onProblem);
    await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
    const closing = worker.close().catch(() => undefined);
    // What has been given up has ended by then; the rest is talk with a server that may be gone.
    await Promise.race([closing, clock.sleep(3_000)]);
    await Promise.race([worker.close(true).catch(() => undefined), clock.sleep(500)]);
    redis.disconnect();
  }

  async #work(queued: QueuedJob<QueuedData, ReconcileResult>, signal: AbortSignal): Promise<ReconcileResult> {
    const { key, uid, kind, failures } = queued.data;
    const tell = async (progress: QueuedProgress): Promise<void> => {
      await queued.updateProgress(progress).catch(() => undefined);
    };
    let outcome: ReconcileResult;
    try {
      outcome = await this.#o.handle(
        { key, uid, kind, failures },
        { signal, onStep: ({ name, doing }) => void tell({ step: name, doing }) },
      );
    } catch (error) {
      // Given up: what is wanted now is for the one that leads to say.
      if (isAbort(error) || signal.aborted) return { kind: 'done', againAfterMs: 0 };
      outcome = { kind: 'failed' };
    }
    if (outcome.kind === 'done') return outcome;
    await tell({ outcome });
    // Pauses and further tries are the leader's to decide.
    throw new UnrecoverableError('it has failed and is tried again after a pause: see the VirtualCluster');
  }
}

function isAbort(error: unknown): boolean {
  return error instanceof Error && error.name === 'AbortError';
}
