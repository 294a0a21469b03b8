import { type Clock, Wakeup } from '../../kube/index.ts';
import type { ReconcileResult } from './job-runner.ts';

interface WorkQueueOptions {
  /** How many keys are worked on at once. */
  parallel: number;
  clock: Clock;
  random: () => number;
  /** Rejects only for its signal, which is aborted when the key has to be handled from the beginning. */
  handle: (key: string, signal: AbortSignal, before: PreviousCalls) => Promise<ReconcileResult>;
  /** Called with whatever else `handle` rejects with; the key counts as failed. */
  onError: (key: string, error: unknown) => void;
  minBackoffMs?: number;
  /** Longest pause after a failure, but for what the failure itself asks for. Default 30 s. */
  maxBackoffMs?: number;
}

/** What a call is told about the earlier calls for its key. */
export interface PreviousCalls {
  /** In a row. */
  failures: number;
  /** Whether the last one took long, and no user waits for this one. */
  isSlow: boolean;
}

/** Keys whose calls take longer share half of the concurrency. */
const slowMs = 10_000;

/** How many of `parallel` calls may be for keys whose calls take long. */
export function maxSlowCalls(parallel: number): number {
  return Math.max(1, Math.floor(parallel / 2));
}

const interrupted = new DOMException('the key has to be handled from the beginning', 'AbortError');

/**
 * A work queue of keys: each is handled by at most one call at a time, several keys at once, in the order in which they
 * were added, and again when a key was added while it was handled. A key is in at most one of waiting, running and
 * later; `again` and `retry` are subsets of running. Keys whose last call took more than ten seconds have half of the
 * room together, so that a few of them hold up no other.
 */
export class WorkQueue {
  readonly #options: WorkQueueOptions;
  readonly #waiting = new Set<string>();
  readonly #running = new Map<string, AbortController>();
  readonly #again = new Set<string>();
  /** If the call that is running fails, it may have begun before what it missed was there. */
  readonly #retry = new Set<string>();
  /** Keys whose last failure was followed by no pause for that. */
  readonly #hurried = new Set<string>();
  /** Key to the monotonic time at which it waits again. */
  readonly #later = new Map<string, number>();
  /** Failures in a row. */
  readonly #failures = new Map<string, number>();
  /** Keys whose last call took long, and that are known yet. */
  readonly #slow = new Set<string>();
  /** A user waits for what comes after the call that is running. */
  readonly #awaited = new Set<string>();
  readonly #wakeup = new Wakeup();

  constructor(options: WorkQueueOptions) {
    if (!Number.isInteger(options.parallel) || options.parallel < 1) {
      throw new RangeError(`parallel has to be a whole number above 0, not ${options.parallel}`);
    }
    this.#options = options;
  }

  get size(): number {
    return this.#waiting.size + this.#running.size + this.#later.size;
  }

  /** The key is handled as soon as there is room, or again after the call that is running. */
  add(key: string): void {
    if (this.#running.has(key)) this.#again.add(key);
    else {
      this.#later.delete(key);
      this.#waiting.add(key);
    }
    this.#wakeup.signal();
  }

  /** Whether a key that is added now is handled at once. */
  get hasRoom(): boolean {
    return this.#waiting.size + this.#running.size < this.#options.parallel;
  }

  /** Like `add`, but leaves the pause after a failure as it is. */
  addUnlessPaused(key: string): void {
    if (!(this.#failures.has(key) && this.#later.has(key))) this.add(key);
  }

  /**
   * Ends the pause after a failure, or leaves out that of the call that is running should it fail: not twice in a row, as
   * the call itself may have led here. Does nothing for a key that has not failed.
   */
  retryNow(key: string): void {
    if (this.#running.has(key)) this.#retry.add(key);
    else if (this.#failures.has(key) && this.#later.has(key)) this.add(key);
  }

  /**
   * Like `add`, but aborts the call that is running for the key, and forgets its failures. `isAwaited`: a user waits for
   * it, and the next call has room however long the last one took.
   */
  interrupt(key: string, { isAwaited = false } = {}): void {
    this.#failures.delete(key);
    if (isAwaited) {
      this.#slow.delete(key);
      if (this.#running.has(key)) this.#awaited.add(key);
    }
    this.add(key);
    this.#running.get(key)?.abort(interrupted);
  }

  /** Works until aborted, then waits for the running calls to end. */
  async run(signal: AbortSignal): Promise<void> {
    const work = new Set<Promise<void>>();
    while (!signal.aborted) {
      this.#release();
      for (let key = this.#next(); key !== undefined; key = this.#next()) {
        this.#waiting.delete(key);
        const task = this.#process(key, signal).finally(() => work.delete(task));
        work.add(task);
      }
      await this.#rest(signal);
    }
    for (const controller of this.#running.values()) controller.abort(signal.reason);
    await Promise.all(work);
  }

  /** The key that has waited longest of those for which there is room. */
  #next(): string | undefined {
    const { parallel } = this.#options;
    if (this.#running.size >= parallel) return undefined;
    let slow = 0;
    for (const key of this.#running.keys()) if (this.#slow.has(key)) slow += 1;
    const hasRoomForSlow = slow < maxSlowCalls(parallel);
    for (const key of this.#waiting) if (hasRoomForSlow || !this.#slow.has(key)) return key;
    return undefined;
  }

  async #process(key: string, signal: AbortSignal): Promise<void> {
    const controller = new AbortController();
    this.#running.set(key, controller);
    const failures = this.#failures.get(key) ?? 0;
    const startedMs = this.#options.clock.monotonic();
    let outcome: ReconcileResult | undefined;
    try {
      outcome = await this.#options.handle(key, controller.signal, { failures, isSlow: this.#slow.has(key) });
    } catch (error) {
      if (!controller.signal.aborted) {
        this.#options.onError(key, error);
        outcome = { kind: 'failed' };
      }
    } finally {
      this.#running.delete(key);
    }
    this.#note(key, outcome, outcome?.tookMs ?? this.#options.clock.monotonic() - startedMs);
    const again = this.#again.delete(key);
    const wasHurried = this.#hurried.delete(key);
    const mayHurry = this.#retry.delete(key) && !wasHurried;
    if (signal.aborted) return;
    if (controller.signal.aborted || outcome === undefined) {
      this.#waiting.add(key);
    } else if (outcome.kind === 'failed') {
      // Also when the key was added meanwhile: the event may be a consequence of the failure.
      this.#failures.set(key, failures + 1);
      const pauseMs = Math.max(this.#backoffMs(failures, outcome.maxBackoffMs), outcome.retryAfterMs ?? 0);
      // What a server asks for holds whatever is ready.
      if (mayHurry && outcome.retryAfterMs === undefined) {
        this.#hurried.add(key);
        this.#waiting.add(key);
      } else this.#defer(key, pauseMs);
    } else {
      if (outcome.keepsFailures !== true) this.#failures.delete(key);
      if (again) this.#waiting.add(key);
      else if (outcome.againAfterMs !== undefined) this.#defer(key, outcome.againAfterMs);
    }
    this.#wakeup.signal();
  }

  /** What is not handled again is forgotten: another key may have its name. */
  #note(key: string, outcome: ReconcileResult | undefined, tookMs: number): void {
    const isOver = outcome?.kind === 'done' && outcome.againAfterMs === undefined;
    const isAwaited = this.#awaited.delete(key);
    if (tookMs > slowMs && !isOver && !isAwaited) this.#slow.add(key);
    else this.#slow.delete(key);
  }

  #backoffMs(failures: number, maxMs?: number): number {
    const { minBackoffMs = 500, maxBackoffMs = 30_000, random } = this.#options;
    return Math.min(maxMs ?? maxBackoffMs, minBackoffMs * 2 ** Math.min(failures, 20) * (1 + random() / 2));
  }

  #defer(key: string, ms: number): void {
    this.#later.set(key, this.#options.clock.monotonic() + ms);
  }

  #release(): void {
    const now = this.#options.clock.monotonic();
    for (const [key, due] of this.#later) {
      if (due > now) continue;
      this.#later.delete(key);
      this.#waiting.add(key);
    }
  }

  /** Until something was added or ended, or the next key is due. */
  async #rest(signal: AbortSignal): Promise<void> {
    if (this.#next() !== undefined) return;
    const { clock } = this.#options;
    const due = Math.min(...this.#later.values());
    // Timers of Node.js overflow beyond 2^31 ms.
    const ms = Math.min(Math.max(0, due - clock.monotonic()), 60_000);
    await this.#wakeup.waitFor(ms, clock, signal).catch(() => {});
  }
}
