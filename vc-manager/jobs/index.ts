export type { BullmqRunner } from './bullmq-runner.ts';
export type { Job, JobHandler, JobRun, JobRunner, ReconcileResult as Outcome } from './job-runner.ts';
export { InProcessRunner } from './job-runner.ts';
export {
  beginJob,
  cancelJob,
  changeCurrent,
  failAttempt,
  isSameJob,
  refuseCancel,
  replaceJob,
  startStep as atStep,
  succeedJob,
} from './job-status.ts';
export { checkRedisUrl, loadBullmq } from './redis.ts';
export { type Fence, TenantLock } from './tenant-lock.ts';
export { WorkQueue } from './work-queue.ts';
