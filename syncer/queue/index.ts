export type { BackoffOptions } from './backoff.ts';
export type { MonotonicClock, WaitingClock } from './clock.ts';
export type { QueueErrorCode } from './errors.ts';
export { FairQueue } from './fair-queue.ts';
export type {
  AddOptions,
  FairQueueOptions,
  Outcome,
  Priority,
  QueueObserver,
  ShareOf,
  TenantDepth,
} from './options.ts';
export { QueueRunner, type QueueRunnerOptions } from './runner.ts';
