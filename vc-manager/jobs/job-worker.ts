import { type Job as QueuedJob, UnrecoverableError, Worker } from 'bullmq';
import type { Redis } from 'ioredis';
import type { Clock } from '../../kube/index.ts';
import type { JobHandler } from './job.ts';
import type { QueuedData, QueuedProgress } from './job-offers.ts';
import type { Outcome } from './outcome.ts';
import { redisConnection } from './redis.ts';

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
    const worker = new Worker<QueuedData, Outcome>(queueName, (job) => this.#work(job, signal), {
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

  async #work(queued: QueuedJob<QueuedData, Outcome>, signal: AbortSignal): Promise<Outcome> {
    const { key, uid, kind, failures } = queued.data;
    const tell = async (progress: QueuedProgress): Promise<void> => {
      await queued.updateProgress(progress).catch(() => undefined);
    };
    let outcome: Outcome;
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
