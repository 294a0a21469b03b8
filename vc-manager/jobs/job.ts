import type { JobKind } from '../../api/job-status.ts';
import type { Outcome } from './outcome.ts';

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
export type JobHandler = (job: Job, run: JobRun) => Promise<Outcome>;
