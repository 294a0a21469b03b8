import type { Reporter, Vitest } from 'vitest/node';

/**
 * When the suites of a project end, and none is begun any more (SKERRY_TEST_DEADLINE, seconds since the epoch); unit tests
 * run to their end however late it is. Milliseconds.
 */
export function deadlineMs(
  project: string | undefined,
  env: Readonly<Record<string, string | undefined>>,
): number {
  const seconds = env['SKERRY_TEST_DEADLINE'];
  return seconds && project !== 'unit' ? Number(seconds) * 1_000 : Number.POSITIVE_INFINITY;
}

/** A reporter of vitest that ends the run of a project at the deadline: tests that run are ended, those after them are not begun. */
export default class DeadlineReporter implements Reporter {
  #vitest: Vitest | undefined;

  onInit(vitest: Vitest): void {
    this.#vitest = vitest;
  }

  /** No sooner: vitest forgets what is cancelled before a run, and goes on from here to the run without a pause. */
  onTestRunStart(): void {
    const vitest = this.#vitest;
    const end = (): void => void vitest?.cancelCurrentRun('keyboard-input');
    const leftMs = deadlineMs(vitest?.config.project[0], process.env) - Date.now();
    if (Number.isFinite(leftMs)) setTimeout(end, Math.max(0, leftMs)).unref();
  }
}
