export function requireAtLeast(name: string, value: number, least: number): number {
  if (!(Number.isFinite(value) && value >= least)) {
    throw new RangeError(`${name} is ${value}; give a number of at least ${least}`);
  }
  return value;
}

export interface WindowSizeOptions {
  /** Never fewer. Default 16: as many as are on the way there and back anyway. */
  floor?: number;
  /** Never more. Default 256. */
  ceiling?: number;
  /** Until something was measured. Default 32. */
  initial?: number;
  /** How long the scheduler may take for a pod before the window shrinks. Default 100. */
  targetMs?: number;
  /** How often the latency of a window that is nearly empty is measured anew while it is always full. Default 30,000. */
  probeEveryMs?: number;
}

/** What the scheduler has said of one pod: placed it, or could not. */
interface Verdict {
  /** From when the pod was there until the verdict was seen. */
  latencyMs: number;
  /** Pods in the window when it came in, itself included. */
  inUse: number;
  /** Whether others wait for a slot in the window. */
  limited: boolean;
  /** It has said nothing: `latencyMs` is for how long. */
  silent?: boolean;
}

const maxOfARound = 64;
const leastOfARound = 8;
/** Enough for a median that one slow pod does not move. */
const baseCount = 5;
const longestProbeMs = 1_000;

/**
 * How many pods may be with the scheduler at once, from how long it takes for them (as congestion control does it).
 *
 * A round is about one window full of verdicts on pods that came in since the size last changed; its median counts. Above the target the window shrinks in
 * proportion, at most to a quarter. Below half the target it doubles, up to the target it grows by one; but only while
 * a pod waits for a slot. Where the scheduler needs more than half the target even with next to nothing in the
 * window, because everything is slow, the target is twice what it needs then: less would make nothing faster.
 */
export class WindowSize {
  readonly #floor: number;
  readonly #ceiling: number;
  /** So few pods do not wait for each other. */
  readonly #quiet: number;
  readonly #targetMs: number;
  readonly #probeEveryMs: number;
  #size: number;
  /** Of pods that have come in since the size last changed: those before them say what another size does. */
  #round: number[] = [];
  #changedAt = Number.NEGATIVE_INFINITY;
  #limited = false;
  /** Latency with next to nothing in the window, once known. */
  #baseMs: number | undefined;
  #base: number[] = [];
  #baseAt: number | undefined;
  #probingSince: number | undefined;

  constructor(options: WindowSizeOptions = {}) {
    this.#floor = requireAtLeast('floor', options.floor ?? 16, 1);
    this.#quiet = Math.max(1, Math.floor(this.#floor / 4));
    this.#ceiling = requireAtLeast('ceiling', options.ceiling ?? 256, this.#floor);
    this.#size = requireAtLeast('initial', options.initial ?? Math.max(32, this.#floor), this.#floor);
    this.#targetMs = requireAtLeast('targetMs', options.targetMs ?? 100, 1);
    this.#probeEveryMs = requireAtLeast('probeEveryMs', options.probeEveryMs ?? 30_000, 1);
  }

  get size(): number {
    return this.#probingSince === undefined ? this.#size : this.#quiet;
  }

  /** What a pod should take at most. */
  get targetMs(): number {
    return Math.max(this.#targetMs, 2 * (this.#baseMs ?? 0));
  }

  add({ latencyMs, inUse, limited, silent = false }: Verdict, now: number): void {
    this.#baseAt ??= now;
    if (inUse <= this.#quiet && !silent) this.#learnBase(latencyMs, now);
    this.#probe(limited, now);
    if (this.#probingSince !== undefined) return;
    if (now - latencyMs < this.#changedAt) return;
    this.#round.push(latencyMs);
    this.#limited ||= limited;
    if (this.#round.length >= Math.min(maxOfARound, Math.max(leastOfARound, this.#size))) this.#endRound(now);
  }

  #endRound(now: number): void {
    const before = this.#size;
    const latencyMs = median(this.#round);
    const target = this.targetMs;
    if (latencyMs > target) this.#size *= Math.max(0.25, target / latencyMs);
    else if (this.#limited) this.#size = latencyMs <= target / 2 ? this.#size * 2 : this.#size + 1;
    this.#size = Math.floor(Math.min(this.#ceiling, Math.max(this.#floor, this.#size)));
    if (this.#size !== before) this.#changedAt = now;
    this.#round = [];
    this.#limited = false;
  }

  #learnBase(latencyMs: number, now: number): void {
    this.#base.push(latencyMs);
    if (this.#base.length < baseCount) return;
    this.#baseMs = median(this.#base);
    this.#base = [];
    this.#baseAt = now;
    if (this.#probingSince === undefined) return;
    this.#probingSince = undefined;
    this.#changedAt = now;
  }

  /** A window that is never small shows no base: from time to time it is made small for a moment. */
  #probe(limited: boolean, now: number): void {
    if (this.#probingSince !== undefined) {
      if (now - this.#probingSince < longestProbeMs) return;
      this.#probingSince = undefined;
      this.#baseAt = now;
      // It did not get small in time, and what was known before is of another time.
      this.#baseMs = undefined;
    } else if (limited && now - (this.#baseAt ?? now) >= this.#probeEveryMs) {
      this.#probingSince = now;
      this.#base = [];
    }
  }
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] as number;
}
