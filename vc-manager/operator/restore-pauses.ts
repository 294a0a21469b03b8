import type { Clock } from '../../kube/index.ts';

/** After an attempt that failed, until the next one. */
interface Pause {
  readonly attempt: string;
  /** Why, and when it is tried again. */
  readonly message: string;
  /** Monotonic. */
  readonly untilMs: number;
  readonly pauseMs: number;
}

const firstPauseMs = 10_000;
const longestPauseMs = 30 * 60_000;

/**
 * Pauses between attempts at restores that cannot be begun: each attempt reads a whole file. `attempt` is the same for
 * those of one request; another one begins at once, with a short pause after it.
 */
export class RestorePauses {
  /** By UID of the VirtualCluster. */
  readonly #pauses = new Map<string, Pause>();
  readonly #clock: Clock;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Undefined when it may be tried now. */
  find(uid: string, attempt: string): { message: string; againAfterMs: number } | undefined {
    const pause = this.#pauses.get(uid);
    const againAfterMs = (pause?.untilMs ?? 0) - this.#clock.monotonic();
    if (pause?.attempt !== attempt || againAfterMs <= 0) return undefined;
    return { message: pause.message, againAfterMs };
  }

  /**
   * Begins a pause twice as long as the one before. `there`: the UIDs of all VirtualClusters; what is remembered of
   * others is forgotten.
   */
  begin(
    uid: string,
    { attempt, why, there }: { attempt: string; why: string; there: Iterable<string> },
  ): { message: string; againAfterMs: number } {
    const known = new Set(there);
    for (const each of this.#pauses.keys()) if (!known.has(each)) this.#pauses.delete(each);
    const before = this.#pauses.get(uid);
    const pauseMs = before?.attempt === attempt ? Math.min(2 * before.pauseMs, longestPauseMs) : firstPauseMs;
    const again = new Date(this.#clock.now() + pauseMs).toISOString().replace(/\.\d+Z$/, 'Z');
    const message = `${why} The whole file is read at each attempt: the next one is at ${again}; "vc-manager jobs retry" tries it at once.`;
    this.#pauses.set(uid, { attempt, message, pauseMs, untilMs: this.#clock.monotonic() + pauseMs });
    return { message, againAfterMs: pauseMs };
  }

  end(uid: string): void {
    this.#pauses.delete(uid);
  }
}
