import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Vitest } from 'vitest/node';
import DeadlineReporter from './test-deadline.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date', 'setTimeout', 'clearTimeout'], now: 1_000_000 });
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllEnvs();
});

/** When a run of a project was ended whose deadline is in so many seconds; seconds from its start. */
function endsOf(project: string, deadlineInSeconds?: number): number[] {
  const startMs = Date.now();
  vi.stubEnv(
    'SKERRY_TEST_DEADLINE',
    deadlineInSeconds === undefined ? '' : String(startMs / 1_000 + deadlineInSeconds),
  );
  const ends: number[] = [];
  const cancelCurrentRun = async (): Promise<void> => void ends.push((Date.now() - startMs) / 1_000);
  const reporter = new DeadlineReporter();
  reporter.onInit({ config: { project: [project] }, cancelCurrentRun } as unknown as Vitest);
  // What is cancelled before the run has begun is not.
  vi.advanceTimersByTime(10_000);
  expect(ends).toEqual([]);
  reporter.onTestRunStart();
  vi.advanceTimersByTime(3_600_000);
  return ends;
}

it('ends a run at the deadline, or as soon as it has begun when that is past', () => {
  expect(endsOf('e2e', 90)).toEqual([90]);
  expect(endsOf('real-node', -90)).toEqual([10]);
});

it('ends neither unit tests nor a run without a deadline', () => {
  expect(endsOf('unit', 90)).toEqual([]);
  expect(endsOf('e2e')).toEqual([]);
});
