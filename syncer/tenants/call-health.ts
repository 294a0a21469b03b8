import type { CallRecord } from '../../kube/index.ts';

/** Calls of one sort that have failed without one in between that did not. */
interface Streak {
  readonly sinceMs: number;
  lastMs: number;
  count: number;
  why: string;
}

const fewestFailures = 3;
const shortestStreakMs = 30_000;
/** What was not tried for so long says nothing any more. Longer than any back-off of the syncer. */
const forgottenAfterMs = 15 * 60_000;

/**
 * Whether the calls to one tenant succeed, each resource and verb by itself: a server may answer health checks and fail,
 * or lie, in everything else. What is claimed of the tenant must not be older than this.
 */
export class CallHealth {
  readonly #nowMs: () => number;
  readonly #streaks = new Map<string, Streak>();

  /** `nowMs`: monotonic. */
  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** A call has been answered, or not. Lists and watches are judged by those who follow with them. */
  called({ verb, resource, status }: Pick<CallRecord, 'verb' | 'resource' | 'status'>): void {
    if (resource === '' || status === 429 || verb === 'list' || verb === 'watch') return;
    // What a tenant's own admission refuses is its own affair.
    const isRefused = verb === 'get' && (status === 401 || status === 403);
    if (status !== 0 && status < 500 && !isRefused) this.succeeded(`${verb} ${resource}`);
    else this.failed(`${verb} ${resource}`, status === 0 ? 'no answer' : `status ${status}`);
  }

  succeeded(what: string): void {
    this.#streaks.delete(what);
  }

  failed(what: string, why: string): void {
    const nowMs = this.#nowMs();
    const streak = this.#streaks.get(what);
    if (streak === undefined) this.#streaks.set(what, { sinceMs: nowMs, lastMs: nowMs, count: 1, why });
    else Object.assign(streak, { lastMs: nowMs, count: streak.count + 1, why });
  }

  /** What has not succeeded for a while, in words; undefined: all does. */
  problem(): string | undefined {
    const nowMs = this.#nowMs();
    const failing: string[] = [];
    for (const [what, { sinceMs, lastMs, count, why }] of this.#streaks) {
      if (nowMs - lastMs > forgottenAfterMs) this.#streaks.delete(what);
      // A moment in which all of them failed says nothing of the time since.
      else if (count >= fewestFailures && lastMs - sinceMs >= shortestStreakMs)
        failing.push(`${what} (${why})`);
    }
    if (failing.length === 0) return undefined;
    const named = failing.sort().slice(0, 5).join(', ');
    return failing.length > 5 ? `${named} and ${failing.length - 5} more` : named;
  }
}
