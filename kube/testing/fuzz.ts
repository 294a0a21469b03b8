import type { Parameters } from 'fast-check';

/**
 * How long a fuzz test goes on: some runs with a seed of its own in `npm test`; with `npm run fuzz` for that many
 * seconds, and with the seed that was given. A failure prints the seed that leads to it again.
 */
export function fuzzed(numRuns: number): Parameters<unknown> {
  const { SKERRY_FUZZ_SECONDS: seconds, SKERRY_FUZZ_SEED: seed } = process.env;
  return {
    numRuns,
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
