import type { Reporter, Vitest } from 'vitest/node';

/** When suites that have not begun are left out (SKERRY_TEST_DEADLINE, seconds since the epoch). Milliseconds. */
export function deadlineMs(env: Readonly<Record<string, string | undefined>>): number {
  const seconds = env['SKERRY_TEST_DEADLINE'];
  return seconds ? Number(seconds) * 1_000 : Number.POSITIVE_INFINITY;
}

/** A reporter of vitest that ends a run at the deadline: tests that run are ended, those after them are not begun. */
export default class DeadlineReporter implements Reporter {
  onInit(vitest: Vitest): void {
    const end = (): void => void vitest.cancelCurrentRun('keyboard-input');
    const leftMs = deadlineMs(process.env) - Date.now();
    if (Number.isFinite(leftMs)) setTimeout(end, Math.max(0, leftMs)).unref();
  }
}
