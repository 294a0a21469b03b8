import type { Job } from './job.ts';
import type { Outcome } from './outcome.ts';

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
  carryOut(job: Job, signal: AbortSignal): Promise<Outcome>;
  /** Takes part in the work until aborted, and ends when what it does has ended. */
  work(signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}
