export type { BullmqRunner } from './bullmq-runner.ts';
export { InProcessRunner } from './in-process-runner.ts';
export type { Job, JobHandler, JobRun } from './job.ts';
export type { JobRunner } from './job-runner.ts';
export { loadBullmq } from './load-bullmq.ts';
export type { Outcome } from './outcome.ts';
export {
  atStep,
  beginJob,
  cancelJob,
  changeCurrent,
  failAttempt,
  isSameJob,
  refuseCancel,
  replaceJob,
  succeedJob,
} from './record.ts';
export { checkRedisUrl } from './redis-url.ts';
export { type Fence, TenantLock } from './tenant-lock.ts';
export { WorkQueue } from './work-queue.ts';
