import type { Clock, Lease } from '../../kube/index.ts';
import { replicaOf } from './records.ts';

/**
 * - `alive`: seen to change its Lease, and that not too long ago.
 * - `unknown`: its Lease is there, or gone, and too little time has passed to tell.
 * - `dead`: its Lease has not changed for its duration.
 */
export type MemberState = 'alive' | 'unknown' | 'dead';

interface Member {
  /** Of its Lease; `undefined`: it has none. */
  readonly version: string | undefined;
  /** When its Lease first looked like this to us, on our monotonic clock. */
  readonly sinceMs: number;
  readonly isProven: boolean;
  readonly durationMs: number;
}

/** The other replicas, judged by changes of their Leases on our own clock alone. */
export class Members {
  readonly #clock: Clock;
  readonly #durationMs: number;
  readonly #members = new Map<string, Member>();

  constructor(clock: Clock, durationMs: number) {
    this.#clock = clock;
    this.#durationMs = durationMs;
  }

  /** A Lease as the server shows it. `isNew`: it was seen being made. Returns whether something has changed. */
  saw(lease: Lease, isNew = false): boolean {
    const name = replicaOf(lease.metadata.name ?? '');
    const version = lease.metadata.resourceVersion;
    const before = this.#members.get(name);
    if (before !== undefined && before.version === version) return false;
    const wasAlive = this.stateOf(name) === 'alive';
    const seconds = lease.spec?.leaseDurationSeconds;
    this.#members.set(name, {
      version,
      sinceMs: this.#clock.monotonic(),
      isProven: isNew || before !== undefined,
      durationMs: seconds === undefined ? this.#durationMs : seconds * 1000,
    });
    return !wasAlive;
  }

  /** It has no Lease. Until that has lasted, it may be about to make a new one. */
  sawNone(name: string): void {
    const before = this.#members.get(name);
    if (before !== undefined && before.version === undefined) return;
    const durationMs = before?.durationMs ?? this.#durationMs;
    this.#members.set(name, {
      version: undefined,
      sinceMs: this.#clock.monotonic(),
      isProven: false,
      durationMs,
    });
  }

  /** Nobody speaks of it any more. */
  forget(name: string): void {
    this.#members.delete(name);
  }

  /** `unknown` for one that was never heard of, from now on with a time limit. */
  stateOf(name: string): MemberState {
    const member = this.#members.get(name);
    if (member === undefined) {
      this.sawNone(name);
      return 'unknown';
    }
    if (this.#clock.monotonic() - member.sinceMs > member.durationMs) return 'dead';
    return member.isProven && member.version !== undefined ? 'alive' : 'unknown';
  }

  alive(): string[] {
    return [...this.#members.keys()].filter((name) => this.stateOf(name) === 'alive');
  }

  /** Those that are alive, and those with a Lease that may be. */
  possible(): string[] {
    return [...this.#members]
      .filter(([name, { version }]) => version !== undefined && this.stateOf(name) !== 'dead')
      .map(([name]) => name);
  }

  /** Those that have been dead for this long beyond their duration, and have left a Lease. */
  deadFor(ms: number): string[] {
    const now = this.#clock.monotonic();
    return [...this.#members]
      .filter(
        ([, { version, sinceMs, durationMs }]) => version !== undefined && now - sinceMs > durationMs + ms,
      )
      .map(([name]) => name);
  }

  /** In how many milliseconds the next one may be dead, if nothing is heard of it. */
  get nextDeathInMs(): number {
    const now = this.#clock.monotonic();
    let nextMs = Number.POSITIVE_INFINITY;
    for (const { sinceMs, durationMs } of this.#members.values()) {
      const inMs = sinceMs + durationMs - now;
      if (inMs >= 0) nextMs = Math.min(nextMs, inMs + 1);
    }
    return nextMs;
  }
}
