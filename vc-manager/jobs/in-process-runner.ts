import type { Job, JobHandler } from './job.ts';
import type { JobRunner } from './job-runner.ts';
import type { Outcome } from './outcome.ts';

/** The manager that leads does everything itself. */
export class InProcessRunner implements JobRunner {
  readonly parallel: number;
  readonly #handle: JobHandler;

  constructor({ handle, parallel }: { handle: JobHandler; parallel: number }) {
    this.parallel = parallel;
    this.#handle = handle;
  }

  carryOut(job: Job, signal: AbortSignal): Promise<Outcome> {
    return this.#handle(job, { signal });
  }

  async work(): Promise<void> {}

  async close(): Promise<void> {}
}
