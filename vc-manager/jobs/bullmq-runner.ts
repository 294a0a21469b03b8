import { randomUUID } from 'node:crypto';
import { DelayedError, Queue, type Job as QueuedJob, QueueEvents, UnrecoverableError, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import PQueue from 'p-queue';
import type { Logger } from 'pino';
import { type Clock, messageOf, onAbort, untilAborted } from '../../kube/index.ts';
import { type Job, JobError, type JobHandler, type JobRunner, type ReconcileResult } from './job-runner.ts';
import { maxSlowCalls } from './work-queue.ts';

/**
 * A connection that reconnects for ever. `onProblem` is called with each failure; commands wait until the server is
 * back.
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
  /** Does a job on this manager. It has to keep other managers from working on the same tenant itself. */
  handle: JobHandler;
  /** How many jobs this manager does at the same time. */
  parallel: number;
  clock: Clock;
  logger: Logger;
  /** How long Redis may be silent before the leader does without it. Default 5 s. */
  patienceMs?: number | undefined;
  /** How long a job stays with a manager that has stopped renewing its lock. Default 6 s. */
  lockMs?: number | undefined;
  checkMs?: number;
}

/** Most jobs that wait in the queue; the managers take them as they have room. */
const maxQueuedJobs = 1_000;
const probeMs = 1_000;
/** After which a slow job that found no room is looked at again. */
const putBackMs = 2_000;

/** The same, with how long it took: from the leader a job was away for longer. */
function timed(handle: JobHandler, clock: Clock): JobHandler {
  return async (job, run) => {
    const startedMs = clock.monotonic();
    const result = await handle(job, run);
    return { ...result, tookMs: clock.monotonic() - startedMs };
  };
}

/**
 * Shares jobs through a BullMQ queue in Redis, from which all managers take. Losing Redis loses nothing: while it cannot
 * be used the leader does the jobs itself, and jobs that Redis has forgotten are added again.
 */
export class BullmqRunner implements JobRunner {
  readonly parallel = maxQueuedJobs;
  readonly #o: BullmqRunnerOptions;
  readonly #handle: JobHandler;
  /** Jobs that this manager does without Redis. */
  readonly #local: PQueue;
  /** Those of them that are slow, before they go into the other one. */
  readonly #localSlow: PQueue;
  readonly #ended = new AbortController();
  #producer: JobProducer | undefined;
  #probing: Promise<void> | undefined;
  #lastProblem = '';

  constructor(options: BullmqRunnerOptions) {
    this.#o = options;
    this.#handle = timed(options.handle, options.clock);
    this.#local = new PQueue({ concurrency: options.parallel });
    this.#localSlow = new PQueue({ concurrency: maxSlowCalls(options.parallel) });
  }

  async run(job: Job, signal: AbortSignal): Promise<ReconcileResult> {
    if (this.#probing === undefined) {
      try {
        return await this.#queue().run(job, signal);
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof JobError)) this.#o.logger.warn({ err: error }, 'a job could not be offered');
        this.#fallBack(error);
      }
    }
    return this.runLocally(job, signal);
  }

  /** On this manager, without the queue. */
  runLocally(job: Job, signal: AbortSignal): Promise<ReconcileResult> {
    // Of the queue's own signal only until the job begins: a job that is aborted keeps its place until it has ended.
    const waiting = new AbortController();
    const release = onAbort(signal, () => waiting.abort(signal.reason));
    const begin = (): Promise<ReconcileResult> => {
      release();
      return this.#handle(job, { signal });
    };
    const inOrder = (): Promise<ReconcileResult> => this.#local.add(begin, { signal: waiting.signal });
    return job.isSlow ? this.#localSlow.add(inOrder, { signal: waiting.signal }) : inOrder();
  }

  async work(signal: AbortSignal): Promise<void> {
    const { url, queueName, identity, parallel, clock, logger, lockMs = 6_000 } = this.#o;
    const onProblem = (error: Error): void => this.#noteProblem(error);
    const options = { url, queueName, identity, parallel, clock, logger, lockMs, onProblem };
    await new JobWorker({ ...options, handle: this.#handle }).run(signal);
  }

  async close(): Promise<void> {
    this.#ended.abort();
    await this.#probing;
    await this.#producer?.close();
  }

  #queue(): JobProducer {
    const { url, queueName, clock, patienceMs = 5_000, checkMs = 1_000 } = this.#o;
    const onProblem = (error: Error): void => this.#noteProblem(error);
    this.#producer ??= new JobProducer({ url, queueName, clock, patienceMs, checkMs, onProblem });
    return this.#producer;
  }

  /** Does without Redis until it answers again. */
  #fallBack(error: unknown): void {
    if (this.#probing !== undefined || this.#ended.signal.aborted) return;
    const message = messageOf(error);
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
      // `close` has aborted the wait, which nothing else can end.
    }
  }

  /** Each connection reports each attempt: the same message is logged once. */
  #noteProblem(error: Error): void {
    if (error.message === this.#lastProblem) return;
    this.#lastProblem = error.message;
    // Not the error itself: a command that failed is in it, with a password as its argument.
    this.#o.logger.debug(`a problem with Redis: ${error.message}`);
  }
}

export interface QueuedData extends Job {
  /** Id of the call that added the job: tells its own job from an earlier one that BullMQ took for the same. */
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
  /** How often a job is read when no event comes. */
  checkMs: number;
  onProblem: (error: Error) => void;
}

/** Completed jobs, and failed ones, that are kept for dashboards. */
const keptJobs = { count: 200 };

/** The leader's side of the queue: adds jobs and waits for their results. */
export class JobProducer {
  readonly #o: JobProducerOptions;
  readonly #redis: Redis;
  readonly #queue: Queue<QueuedData, ReconcileResult>;
  readonly #events: QueueEvents;
  /** Callbacks by job id, called when the job has ended. */
  readonly #listeners = new Map<string, Set<() => void>>();

  constructor(options: JobProducerOptions) {
    this.#o = options;
    const { url, queueName, onProblem } = options;
    this.#redis = redisConnection(url, onProblem);
    this.#queue = new Queue(queueName, { connection: this.#redis, skipWaitingForReady: true });
    this.#events = new QueueEvents(queueName, { connection: this.#redis });
    this.#queue.on('error', onProblem);
    this.#events.on('error', onProblem);
    const notify = ({ jobId }: { jobId: string }): void => {
      for (const listener of this.#listeners.get(jobId) ?? []) listener();
    };
    this.#events.on('completed', notify);
    this.#events.on('failed', notify);
  }

  /** Throws `RedisLost`, or for its signal. */
  async run(job: Job, signal: AbortSignal): Promise<ReconcileResult> {
    const data: QueuedData = { ...job, offer: randomUUID() };
    for (;;) {
      const added = await this.#withDeadline(
        () =>
          this.#queue.add(job.kind, data, {
            jobId: `${job.uid}-${job.kind}-${data.offer.slice(0, 8)}-${randomUUID().slice(0, 4)}`,
            // One job per tenant: a second one counts as the one that is there.
            deduplication: { id: job.uid },
            removeOnComplete: keptJobs,
            removeOnFail: keptJobs,
          }),
        signal,
      );
      const ended = await this.#untilEnded(added.id ?? '', job, signal);
      // Redis has forgotten the job, or it is an earlier one, which may have read an older VirtualCluster.
      if (ended === undefined || ended.data.offer !== data.offer) continue;
      return resultOf(ended);
    }
  }

  /** Whether Redis answers in time. */
  async isThere(signal: AbortSignal): Promise<boolean> {
    try {
      await this.#withDeadline(() => this.#redis.ping(), signal);
      return true;
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof Error) this.#o.onProblem(error);
      return false;
    }
  }

  async close(): Promise<void> {
    const closing = Promise.all([this.#events.close(), this.#queue.close()]).catch(() => undefined);
    // Commands to a server that is gone never end.
    await Promise.race([closing, this.#o.clock.sleep(1_000)]);
    this.#redis.disconnect();
  }

  /** The job as it ended; undefined when Redis has it no more. What an earlier one waits for, `wanted` does not wait for. */
  async #untilEnded(
    id: string,
    wanted: Job,
    signal: AbortSignal,
  ): Promise<QueuedJob<QueuedData, ReconcileResult> | undefined> {
    for (;;) {
      const event = this.#nextEvent(id, signal);
      try {
        const found = await this.#withDeadline(() => this.#queue.getJob(id), signal);
        if (found === undefined || found.finishedOn !== undefined) return found;
        if (found.data.isSlow && !wanted.isSlow) await this.#withDeadline(() => hurry(found), signal);
        await event.promise;
      } finally {
        event.end();
      }
    }
  }

  /** Until an event says that the job has ended, or it is time to read it again. */
  #nextEvent(id: string, signal: AbortSignal): { promise: Promise<void>; end: () => void } {
    const over = new AbortController();
    const end = (): void => over.abort();
    const listeners = this.#listeners.get(id) ?? new Set();
    this.#listeners.set(id, listeners.add(end));
    const promise = this.#o.clock.sleep(this.#o.checkMs, AbortSignal.any([signal, over.signal])).catch(() => {
      signal.throwIfAborted();
    });
    promise.catch(() => undefined);
    return {
      promise,
      end: () => {
        end();
        listeners.delete(end);
        if (listeners.size === 0) this.#listeners.delete(id);
      },
    };
  }

  async #withDeadline<T>(command: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const { clock, patienceMs } = this.#o;
    signal.throwIfAborted();
    const waiting = new AbortController();
    const timedOut = clock.sleep(patienceMs, AbortSignal.any([signal, waiting.signal])).then(() => {
      throw new Error(`it has not answered within ${patienceMs / 1000} s`);
    });
    timedOut.catch(() => undefined);
    try {
      return await Promise.race([command(), timedOut]);
    } catch (error) {
      signal.throwIfAborted();
      throw redisLost(error);
    } finally {
      waiting.abort();
    }
  }
}

/** Has a job that was put back as a slow one done as any other. */
async function hurry(job: QueuedJob<QueuedData, ReconcileResult>): Promise<void> {
  try {
    await job.updateData({ ...job.data, isSlow: false });
    if (await job.isDelayed()) await job.promote();
  } catch {
    // A manager has taken it meanwhile, it has ended, or Redis is gone: the next look says which.
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
  /** How long a job stays with a manager that has stopped renewing its lock. */
  lockMs: number;
  logger: Logger;
  onProblem: (error: Error) => void;
}

/** Takes jobs from the queue and does them on this manager. Slow ones have half of its room together. */
class JobWorker {
  readonly #o: JobWorkerOptions;
  /** How many of those that are running are slow. */
  #slow = 0;

  constructor(options: JobWorkerOptions) {
    this.#o = options;
  }

  /** Until aborted. Jobs that are running then are given up, and another manager takes them. */
  async run(signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    const { url, queueName, identity, parallel, lockMs, clock, onProblem } = this.#o;
    const redis: Redis = redisConnection(url, onProblem);
    const worker = new Worker<QueuedData, ReconcileResult>(
      queueName,
      (job, token) => this.#take(job, token, signal),
      {
        connection: redis,
        name: identity,
        concurrency: parallel,
        lockDuration: lockMs,
        // A worker counts as gone after two checks.
        stalledInterval: Math.max(1_000, lockMs / 3),
        // A job outlives any number of workers.
        maxStalledCount: 1_000_000,
        // Blocks no longer than this: a server that vanished without a word is noticed.
        drainDelay: 5,
      },
    );
    worker.on('error', onProblem);
    await untilAborted(signal);
    const closing = worker.close().catch(() => undefined);
    // By then the jobs have ended; what is left is talk with a server that may be gone.
    await Promise.race([closing, clock.sleep(3_000)]);
    await Promise.race([worker.close(true).catch(() => undefined), clock.sleep(500)]);
    redis.disconnect();
  }

  async #take(
    queued: QueuedJob<QueuedData, ReconcileResult>,
    token: string | undefined,
    signal: AbortSignal,
  ): Promise<ReconcileResult> {
    if (!queued.data.isSlow) return this.#work(queued, signal);
    if (this.#slow >= maxSlowCalls(this.#o.parallel)) {
      await queued.moveToDelayed(this.#o.clock.now() + putBackMs, token);
      throw new DelayedError();
    }
    this.#slow += 1;
    try {
      return await this.#work(queued, signal);
    } finally {
      this.#slow -= 1;
    }
  }

  async #work(queued: QueuedJob<QueuedData, ReconcileResult>, signal: AbortSignal): Promise<ReconcileResult> {
    const { logger } = this.#o;
    const { key, uid, kind, failures, isSlow } = queued.data;
    const report = async (progress: QueuedProgress): Promise<void> => {
      await queued.updateProgress(progress).catch(() => undefined);
    };
    let outcome: ReconcileResult;
    try {
      outcome = await this.#o.handle(
        { key, uid, kind, failures, isSlow },
        { signal, onStep: ({ name, doing }) => void report({ step: name, doing }) },
      );
    } catch (error) {
      // Given up: the leader decides what comes next.
      if (isAbort(error) || signal.aborted) return { kind: 'done', againAfterMs: 0 };
      logger.error(
        { err: error, virtualCluster: key },
        `a job for ${key} has ended with an unexpected error`,
      );
      outcome = { kind: 'failed' };
    }
    if (outcome.kind === 'done') return outcome;
    await report({ outcome });
    // The leader decides on pauses and further attempts.
    throw new UnrecoverableError('it has failed and is tried again after a pause: see the VirtualCluster');
  }
}

function isAbort(error: unknown): boolean {
  return error instanceof Error && error.name === 'AbortError';
}

function redisLost(cause: unknown): JobError {
  return new JobError('RedisLost', `Redis cannot be used: ${messageOf(cause)}`, true, { cause });
}
