import type { Parameters } from 'fast-check';
import { isBroad } from './broad.ts';

/** Part of the runs that is enough where other tests wait: a fuzz test has a new seed each time. */
const share = 0.25;

/**
 * How long a fuzz test goes on: so many runs with a seed of its own in `npm run test:all`, and a quarter of them in
 * `npm test`; with `npm run fuzz` for that many seconds, and with the seed that was given. A failure prints the seed that
 * leads to it again.
 */
export function fuzzed(numRuns: number): Parameters<unknown> {
  const { SKERRY_FUZZ_SECONDS: seconds, SKERRY_FUZZ_SEED: seed } = process.env;
  return {
    numRuns: isBroad ? numRuns : Math.ceil(numRuns * share),
    ...(seed ? { seed: Number(seed) } : {}),
    ...(seconds
      ? {
          numRuns: 2 ** 31 - 1,
          interruptAfterTimeLimit: Number(seconds) * 1_000,
          markInterruptAsFailure: false,
        }
      : {}),
  };
}
