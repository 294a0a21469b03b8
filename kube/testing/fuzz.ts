import type { Parameters } from 'fast-check';
import { isBroad } from './broad.ts';

/** On a busy machine a property ends here, with fewer runs: the time limit of a test is three times that. */
const timeLimitSeconds = 20;

/**
 * How long a fuzz test goes on: so many runs with a seed of its own in `npm test`, where all of them together take about a
 * minute on a quiet machine, and four times as many in `npm run test:all`; with `npm run fuzz` for that many seconds, and
 * with the seed that was given. A failure prints the seed that leads to it again.
 */
export function fuzzed(numRuns: number): Parameters<unknown> {
  const { SKERRY_FUZZ_SECONDS: seconds, SKERRY_FUZZ_SEED: seed } = process.env;
  return {
    numRuns: seconds ? 2 ** 31 - 1 : isBroad ? 4 * numRuns : numRuns,
    ...(seed ? { seed: Number(seed) } : {}),
    interruptAfterTimeLimit: (seconds ? Number(seconds) : timeLimitSeconds) * 1_000,
    markInterruptAsFailure: false,
  };
}
