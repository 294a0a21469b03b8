/** Numbers in [0, 1) that are the same for the same seeds: mulberry32, after the seeds were mixed. */
export function seededRandom(...seeds: number[]): () => number {
  let state = 0x9e3779b9;
  for (const seed of seeds) state = Math.imul(state ^ Math.trunc(seed), 0x85ebca6b) ^ (state >>> 13);
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
