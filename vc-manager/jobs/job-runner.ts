import type { JobKind } from '../../api/job-status.ts';
import { CodedError, messageOf } from '../../kube/index.ts';

type JobErrorCode = 'TenantBusy' | 'InvalidRedis' | 'RedisLost';

export class JobError extends CodedError<JobErrorCode> {
  override readonly name = 'JobError';
}

/** Result of one reconcile of a VirtualCluster. */
export type ReconcileResult = (Done | Failed) & {
  /** Of the work alone, where it has waited for a manager before. */
  tookMs?: number;
};

/** Nothing more to do, or to reconcile again after `againAfterMs`. Ends the back-off, unless it `keepsFailures`. */
interface Done {
  kind: 'done';
  againAfterMs?: number;
  /** What has failed before was not tried again. */
  keepsFailures?: true;
}

/** Reconcile again after a pause that grows with every failure, up to `maxBackoffMs`; at least `retryAfterMs`. */
interface Failed {
  kind: 'failed';
  retryAfterMs?: number | undefined;
  maxBackoffMs?: number | undefined;
}

/** One reconcile of a VirtualCluster. All that it needs beyond this it reads from the VirtualCluster. */
export interface Job {
  /** `namespace/name`. */
  key: string;
  uid: string;
  /** `look`: no long operation is expected; the reconcile checks that all is well, and repairs it. */
  kind: JobKind | 'look';
  /** Failures in a row before. */
  failures: number;
  /** The last one took long: it shares half of a manager's room with others that did. */
  isSlow: boolean;
}

export interface JobRun {
  signal: AbortSignal;
  onStep?: (step: { name: string; doing: string }) => void;
}

/** Does a job on this manager. Rejects only for its signal. */
export type JobHandler = (job: Job, run: JobRun) => Promise<ReconcileResult>;

/**
 * Decides which manager does a job, and nothing else: the desired state stands in the VirtualClusters, and the leader
 * runs jobs for them until they have it.
 */
export interface JobRunner {
  /** How many calls of `run` may be open at the same time. */
  readonly parallel: number;
  /**
   * Has one of the managers do the job once, and resolves to the result. Rejects only for its signal. Another manager
   * ends the job when it sees the change of the VirtualCluster for which the signal was aborted.
   */
  run(job: Job, signal: AbortSignal): Promise<ReconcileResult>;
  /** Does jobs of other managers until aborted; settles when the running ones have ended. */
  work(signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}

/** The leader does all jobs itself. */
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

/** Throws `InvalidRedis`. */
export function checkRedisUrl(url: string): string {
  const shown = url.replace(/(:\/\/[^:@/]*:).*@/, '$1***@');
  let parsed: URL;
  try {
    parsed = new URL(url);
  } catch (error) {
    throw invalidRedis(shown, messageOf(error));
  }
  if (parsed.protocol !== 'redis:' && parsed.protocol !== 'rediss:')
    throw invalidRedis(shown, `it begins with ${parsed.protocol}//`);
  if (parsed.hostname === '') throw invalidRedis(shown, 'it names no host');
  if (!/^(\/\d*)?$/.test(parsed.pathname))
    throw invalidRedis(shown, 'what follows the host is no database number');
  return url;
}

function invalidRedis(url: string, why: string): JobError {
  return new JobError(
    'InvalidRedis',
    `"${url}" is not the URL of a Redis server: ${why}. It looks like redis://HOST:6379/0, or rediss:// with TLS; ` +
      'a user name and a password go before the host, as in redis://user:password@HOST.',
    false,
  );
}
