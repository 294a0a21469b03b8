import { randomUUID } from 'node:crypto';
import { Queue, type Job as QueuedJob, QueueEvents } from 'bullmq';
import type { Redis } from 'ioredis';
import type { Clock } from '../../kube/index.ts';
import { redisLost } from './errors.ts';
import type { Job } from './job.ts';
import type { Outcome } from './outcome.ts';
import { redisConnection } from './redis.ts';

export interface QueuedData extends Job {
  /** Which offer it is: of two that are one job in the queue, the one that was first. */
  offer: string;
}

export interface QueuedProgress {
  step?: string;
  doing?: string;
  outcome?: Outcome;
}

export interface JobOffersOptions {
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
const kept = { count: 200 };

/** The leader's side of the queue: jobs go in, outcomes come back. */
export class JobOffers {
  readonly #o: JobOffersOptions;
  readonly #redis: Redis;
  readonly #queue: Queue<QueuedData, Outcome>;
  readonly #events: QueueEvents;
  readonly #listening = new Map<string, Set<() => void>>();

  constructor(options: JobOffersOptions) {
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
  async carryOut(job: Job, signal: AbortSignal): Promise<Outcome> {
    const data: QueuedData = { ...job, offer: randomUUID() };
    for (;;) {
      const added = await this.#ask(
        () =>
          this.#queue.add(job.kind, data, {
            jobId: `${job.uid}-${job.kind}-${data.offer.slice(0, 8)}-${randomUUID().slice(0, 4)}`,
            // One tenant, one job: a second offer is the one that is there.
            deduplication: { id: job.uid },
            removeOnComplete: kept,
            removeOnFail: kept,
          }),
        signal,
      );
      const ended = await this.#untilEnded(added.id ?? '', signal);
      // Redis has forgotten it, or it was what somebody had offered before: it may have looked at something older.
      if (ended === undefined || ended.data.offer !== data.offer) continue;
      return outcomeOf(ended);
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
  async #untilEnded(id: string, signal: AbortSignal): Promise<QueuedJob<QueuedData, Outcome> | undefined> {
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

function outcomeOf(job: QueuedJob<QueuedData, Outcome>): Outcome {
  if (job.returnvalue !== null && job.returnvalue !== undefined) return job.returnvalue;
  const { outcome } = (typeof job.progress === 'object' ? job.progress : {}) as QueuedProgress;
  return outcome ?? { kind: 'failed' };
}
