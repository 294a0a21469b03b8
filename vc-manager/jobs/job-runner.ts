import type { JobKind } from '../../api/job-status.ts';
import { CodedError } from '../../kube/index.ts';

export type JobErrorCode = 'TenantBusy' | 'InvalidRedis' | 'RedisLost';

export class JobError extends CodedError<JobErrorCode> {
  override readonly name = 'JobError';
}

export function tenantBusy(key: string): JobError {
  return new JobError('TenantBusy', `another manager is still at work on ${key}; it is tried again`, true);
}

export function invalidRedis(url: string, why: string): JobError {
  return new JobError(
    'InvalidRedis',
    `"${url}" is not the URL of a Redis server: ${why}. It looks like redis://HOST:6379/0, or rediss:// with TLS; ` +
      'a user name and a password go before the host, as in redis://user:password@HOST.',
    false,
  );
}

export function redisLost(cause: unknown): JobError {
  const why = cause instanceof Error ? cause.message : String(cause);
  return new JobError('RedisLost', `Redis cannot be used: ${why}`, true, { cause });
}

/** What came of working on a VirtualCluster. */
export type ReconcileResult =
  /** Nothing more to do, or to look at it again after a while. Ends the back-off. */
  | { kind: 'done'; againAfterMs?: number }
  /** Try again after a pause that grows with every failure; at least `retryAfterMs`. */
  | { kind: 'failed'; retryAfterMs?: number };

/** What is wanted for one VirtualCluster. Everything else about it stands in that. */
export interface Job {
  /** `namespace/name`. */
  key: string;
  uid: string;
  /** `look`: nothing long is expected; whether all is well is looked at, and mended. */
  kind: JobKind | 'look';
  /** Failures in a row before. */
  failures: number;
}

export interface JobRun {
  signal: AbortSignal;
  onStep?: (step: { name: string; doing: string }) => void;
}

/** Does a job on this manager. Rejects only for its signal. */
export type JobHandler = (job: Job, run: JobRun) => Promise<ReconcileResult>;

/**
 * Decides which manager does a job, and nothing else: what is wanted stands in the VirtualClusters, and the manager
 * that leads offers it again until it is so.
 */
export interface JobRunner {
  /** How many jobs may be offered at the same time. */
  readonly parallel: number;
  /**
   * Has it done, once, by one of the managers, and says what came of it. Rejects only for its signal; what another
   * manager does then ends when that sees the change that the signal is about.
   */
  run(job: Job, signal: AbortSignal): Promise<ReconcileResult>;
  /** Takes part in the work until aborted, and ends when what it does has ended. */
  work(signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}

/** The manager that leads does everything itself. */
export class InProcessRunner implements JobRunner {
  readonly parallel: number;
  readonly #handle: JobHandler;

  constructor({ handle, parallel }: { handle: JobHandler; parallel: number }) {
    this.parallel = parallel;
    this.#handle = handle;
  }

  run(job: Job, signal: AbortSignal): Promise<ReconcileResult> {
    return this.#handle(job, { signal });
  }

  async work(): Promise<void> {}

  async close(): Promise<void> {}
}
