import type { ComponentExit } from './driver.ts';

/** So many exits in a row, each after less than `healthyAfterMs`, are reported as a failure. */
export const exitsUntilFailed = 5;
export const healthyAfterMs = 60_000;

export function describeExit(exit: ComponentExit): string {
  if (exit.signal !== undefined) return exit.signal;
  return exit.code === undefined ? 'exit status unknown' : `exit code ${exit.code}`;
}
