import { seeded } from '../harness/churn.ts';

/** What is done to a process: ended by the kernel, stopped by a signal, or all its packets lost. */
export type FaultKind = 'kill' | 'pause' | 'cut';

export interface Fault {
  /** A component of the stack, or `<tenant>/<component>`. */
  readonly part: string;
  readonly kind: FaultKind;
  /** How long a pause or a cut lasts; a kill is over at once. */
  readonly forMs: number;
}

export interface Step {
  /** At the same time. */
  readonly faults: readonly Fault[];
  /** Quiet before the next step. */
  readonly thenMs: number;
}

const longestFaultMs = 15_000;
const longestQuietMs = 4_000;

/** An endless row of faults; the same seed, parts and kinds give the same row. */
export function* schedule(
  seed: number,
  parts: readonly string[],
  kinds: readonly FaultKind[],
): Generator<Step, never> {
  const random = seeded(seed);
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] as T;
  /** Every part has its turn before any has a second one. */
  let left: string[] = [];
  const next = (): string => {
    if (left.length === 0) left = shuffled(parts, random);
    return left.pop() as string;
  };
  for (;;) {
    const together = random() < 0.3 ? 2 : 1;
    const names = new Set(Array.from({ length: together }, next));
    const faults = [...names].map((part) => {
      const kind = pick(kinds);
      // Short ones are the most frequent: they meet work that is under way.
      return { part, kind, forMs: kind === 'kill' ? 0 : Math.round(200 + random() ** 2 * longestFaultMs) };
    });
    yield { faults, thenMs: Math.round(random() ** 2 * longestQuietMs) };
  }
}

function shuffled(parts: readonly string[], random: () => number): string[] {
  return parts
    .map((part) => ({ part, at: random() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ part }) => part);
}
