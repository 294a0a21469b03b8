export type { BackoffOptions } from './backoff.ts';
export type { MonotonicClock, WaitingClock } from './clock.ts';
export { QueueError, type QueueErrorCode } from './errors.ts';
export { FairQueue } from './fair-queue.ts';
export {
  type AddOptions,
  type FairQueueOptions,
  type Outcome,
  type Priority,
  type QueueObserver,
  type ShareOf,
  type TenantDepth,
  weightedShare,
} from './options.ts';
export { QueueRunner, type QueueRunnerOptions } from './runner.ts';
