import { type Clock, Wakeup } from '../../kube/index.ts';
import { crashesUntilJoinsLast } from '../watchdog/watchdog.ts';

type JoinClock = Pick<Clock, 'monotonic' | 'sleep'>;

/** How many tenants join together of which a replica died once; of those of which more died, a quarter each time. */
const firstGroup = 16;
/** Joins that take longer delay no other: their API servers do not answer, perhaps. */
const patienceMs = 60_000;
const longestDelayMs = 10 * 60_000;

/** How many of those with so many attempts may join at once. */
function groupSize(attempts: number): number {
  return Math.max(1, Math.floor(firstGroup / 4 ** (attempts - 1)));
}

/** How long one waits before its turn: not much, until it has proven to be the one. */
function delayMs(attempts: number): number {
  return attempts < crashesUntilJoinsLast
    ? 1_000 * attempts
    : Math.min(30_000 * 2 ** (attempts - crashesUntilJoinsLast), longestDelayMs);
}

interface Turn {
  readonly attempts: number;
}

/**
 * In which order tenants join. Those whose last joins ended with the death of a replica come after all others, in
 * groups that are the smaller the more replicas have died: what one tenant does to a replica must not be done to
 * each that takes its place, and the others of a group are found to be innocent.
 */
export class JoinOrder {
  readonly #clock: JoinClock;
  readonly #turns = new Set<Turn>();
  /** One for each that waits. */
  readonly #wakeups = new Set<Wakeup>();

  constructor(clock: JoinClock) {
    this.#clock = clock;
  }

  /**
   * Resolves when a tenant may join, with what ends its turn; may be called twice. Rejects with the signal's reason.
   * `attempts`: how many joins before this one were begun in a row and neither succeeded nor were ended in order.
   */
  async turn(attempts: number, signal: AbortSignal): Promise<() => void> {
    const turn: Turn = { attempts };
    if (attempts > 0) {
      await this.#clock.sleep(delayMs(attempts), signal);
      await this.#takeWhenFree(turn, signal);
    } else {
      this.#turns.add(turn);
    }
    return () => {
      if (!this.#turns.delete(turn)) return;
      for (const wakeup of this.#wakeups) wakeup.signal();
    };
  }

  async #takeWhenFree(turn: Turn, signal: AbortSignal): Promise<void> {
    const wakeup = new Wakeup();
    this.#wakeups.add(wakeup);
    const until = this.#clock.monotonic() + patienceMs;
    try {
      while (!this.#isFree(turn.attempts, this.#clock.monotonic() >= until)) {
        await wakeup.waitFor(patienceMs, this.#clock, signal);
      }
      this.#turns.add(turn);
    } finally {
      this.#wakeups.delete(wakeup);
    }
  }

  #isFree(attempts: number, isImpatient: boolean): boolean {
    const suspects = [...this.#turns].filter((turn) => turn.attempts > 0);
    if (suspects.length < this.#turns.size && !isImpatient) return false;
    const sizes = [attempts, ...suspects.map((turn) => turn.attempts)].map(groupSize);
    return suspects.length < Math.min(...sizes);
  }
}
