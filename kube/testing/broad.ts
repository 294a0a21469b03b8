import { it } from 'vitest';

/** Whether what is broad rather than deep runs too, as in `npm run test:all`; docs/testing.md lists it, with what proves its rules otherwise. */
export const isBroad = Boolean(process.env['SKERRY_TEST_ALL']);

/** Defines a test that is broad rather than deep; where it is skipped, its name says so. */
export function itInTestAll(name: string, test: () => unknown, timeoutMs?: number): void {
  if (isBroad) it(name, test, timeoutMs);
  else it.skip(`${name} (npm run test:all)`, test, timeoutMs);
}
