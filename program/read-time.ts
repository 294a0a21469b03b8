import { type Clock, onAbort, type ReadMeter } from '../kube/index.ts';

/** What reading from a tenant may take at once. */
const freeMs = 100;
/** Part of the time in which it neither worked nor rested that is added to what is free. */
const freeShare = 0.1;
/** Less is owed until it is more: timers are no finer. */
const shortestRestMs = 2;
const longestRestMs = 10_000;
/** How long after its rest one counts among those that take more than what is free. */
const countsForMs = 1_000;

/** Of lists and watches of one tenant, and of answers to other calls. */
export interface TenantReadTime {
  readonly lists: ReadTime;
  readonly answers: ReadTime;
}

interface Rest {
  ms: number;
  /** How long for each millisecond that is owed. */
  perOwed: number;
}

/**
 * Divides half of the thread's time among all tenants from which more is read than is free for each: alone, one rests as
 * long as it has worked, and of several each as much longer.
 */
export class SharedReadTime {
  readonly #clock: Pick<Clock, 'monotonic' | 'sleep'>;
  /** Until when each counts as one that takes more than what is free for it. */
  readonly #over = new Map<object, number>();

  constructor(clock: Pick<Clock, 'monotonic' | 'sleep'>) {
    this.#clock = clock;
  }

  /** Of one more tenant, which counts once. */
  tenant(): TenantReadTime {
    const member = {};
    const restFor = (owedMs: number): Rest => this.#restFor(member, owedMs);
    return { lists: new ReadTime(this.#clock, restFor), answers: new ReadTime(this.#clock, restFor) };
  }

  /** Of one that takes more than what is free, and counts among those as long as it rests. */
  #restFor(member: object, owedMs: number): Rest {
    const nowMs = this.#clock.monotonic();
    this.#over.set(member, nowMs);
    for (const [each, untilMs] of this.#over) if (untilMs < nowMs) this.#over.delete(each);
    const perOwed = 2 * this.#over.size - 1;
    const ms = Math.min(longestRestMs, owedMs * perOwed);
    this.#over.set(member, nowMs + ms + countsForMs);
    return { ms, perOwed };
  }
}

/** How much of the thread's time reading from one tenant takes. */
export class ReadTime implements ReadMeter {
  readonly #clock: Pick<Clock, 'monotonic' | 'sleep'>;
  readonly #restFor: (owedMs: number) => Rest;
  /** Of what is free, taken. */
  #takenMs = 0;
  /** When it last worked or rested. */
  #atMs: number;
  /** Beyond what is free, and not rested for. */
  #owedMs = 0;
  #waiting = 0;
  /** Ends with the last of the turns that were asked for. */
  #turns: Promise<void> = Promise.resolve();

  constructor(clock: Pick<Clock, 'monotonic' | 'sleep'>, restFor: (owedMs: number) => Rest) {
    this.#clock = clock;
    this.#restFor = restFor;
    this.#atMs = clock.monotonic();
  }

  worked(ms: number): void {
    const nowMs = this.#clock.monotonic();
    const idleMs = Math.max(0, nowMs - ms - this.#atMs);
    const takenMs = Math.max(0, this.#takenMs - idleMs * freeShare) + ms;
    this.#atMs = nowMs;
    this.#takenMs = Math.min(takenMs, freeMs);
    this.#owedMs += takenMs - this.#takenMs;
  }

  /** One after the other, each in a turn of the event loop of its own, so that what each then does is known before the next one's rest begins. */
  turn(signal: AbortSignal | undefined): Promise<void> | undefined {
    if (this.#waiting === 0 && this.#owedMs < shortestRestMs) return undefined;
    this.#waiting += 1;
    const turn = this.#turns
      .then(() => this.#rest(signal))
      .finally(() => {
        this.#waiting -= 1;
      });
    this.#turns = turn.then(nextTurn, nextTurn);
    // At once, also behind the turns of others: what waits for it holds memory.
    return new Promise((resolve, reject) => {
      const forget = onAbort(signal, () => reject(signal?.reason));
      turn.then(resolve, reject).finally(forget);
    });
  }

  async #rest(signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted();
    if (this.#owedMs < shortestRestMs) return;
    const { ms, perOwed } = this.#restFor(this.#owedMs);
    const fromMs = this.#clock.monotonic();
    this.#owedMs = 0;
    try {
      await this.#clock.sleep(ms, signal);
    } catch (error) {
      // Whoever waits next rests for what is left of the rest.
      this.#owedMs += Math.max(0, ms - (this.#clock.monotonic() - fromMs)) / perOwed;
      throw error;
    } finally {
      this.#atMs = this.#clock.monotonic();
    }
  }
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
