import { linkedController } from './abort.ts';
import type { KubeClient } from './client.ts';
import { type Clock, type ClockReading, elapsedMs, readClock, systemClock } from './clock.ts';
import { ignoreNotFound, isAlreadyExists, isConflict } from './errors.ts';
import { resources } from './resources.ts';
import type { KubeObject } from './types.ts';

export interface LeaseOptions {
  client: KubeClient;
  namespace: string;
  name: string;
  /** `holderIdentity`; must differ between all that compete for the lease. */
  identity: string;
  /** What the Lease says of its holder besides; annotations that are not named here stay. */
  annotations?: Readonly<Record<string, string>>;
  /** After how long without a renewal others may take the lease. Default 15 s. */
  leaseDurationMs?: number;
  /** Pause between renewals and between attempts. Default 2 s. */
  renewMs?: number;
  /**
   * After which a call is given up, in real time whatever the clock. Default: the pause between renewals, at least 1 s;
   * to hand the lease over, at least 2 s. More than the duration only makes sense where the clock is not a real one.
   */
  callTimeoutMs?: number;
  clock?: Clock;
  /** Called when a request to the server fails; the election goes on. */
  onProblem?: (error: unknown) => void;
}

export interface Lease extends KubeObject {
  spec?: {
    holderIdentity?: string;
    leaseDurationSeconds?: number;
    acquireTime?: string;
    renewTime?: string;
    leaseTransitions?: number;
    [field: string]: unknown;
  };
}

/**
 * At most one of those who compete for a Lease object leads. Clocks of different machines are never
 * compared: a lease counts as abandoned when it has not changed for its duration on our own monotonic
 * clock, and we stop leading before others may think so of us.
 */
export class LeaseElection {
  readonly #options: LeaseOptions;
  readonly #durationMs: number;
  readonly #renewMs: number;
  readonly #callTimeoutMs: number;
  readonly #clock: Clock;
  /** When our last successful renewal was sent, if nothing is known to have ended what it gave. */
  #renewedAt: ClockReading | undefined;
  /** A claim was sent, whatever came of it, and no other holder has been seen since. */
  #mayHold = false;
  /** The last foreign state that we saw, and when it first looked like that. */
  #observed: { resourceVersion: string | undefined; at: number } | undefined;

  constructor(options: LeaseOptions) {
    this.#options = options;
    this.#durationMs = Math.max(1, Math.round((options.leaseDurationMs ?? 15_000) / 1000)) * 1000;
    this.#renewMs = options.renewMs ?? 2_000;
    this.#callTimeoutMs = options.callTimeoutMs ?? Math.max(this.#renewMs, 1_000);
    this.#clock = options.clock ?? systemClock;
    if (options.identity === '') throw new TypeError('a lease needs an identity');
    if (this.#renewMs >= this.#giveUpMs) {
      throw new RangeError(
        `renewMs (${this.#renewMs}) must be well below leaseDurationMs (${this.#durationMs})`,
      );
    }
  }

  /** Whether no other process can hold the lease at this moment. To be checked before each write that only the leader may make. */
  holdsNow(): boolean {
    return this.#renewedAt !== undefined && elapsedMs(this.#renewedAt, this.#clock) < this.#giveUpMs;
  }

  /**
   * Competes until aborted. While leading, runs `lead`; its signal is aborted when the lease is lost,
   * and the next attempt waits for it to end. When `lead` ends by itself, gives the lease up and ends
   * the same way. Server faults are waited out.
   */
  async run(signal: AbortSignal, lead: (signal: AbortSignal) => Promise<void>): Promise<void> {
    while (!signal.aborted) {
      if (!(await this.#attempt(signal))) {
        await this.#rest(signal);
      } else if (!signal.aborted && (await this.#lead(signal, lead))) {
        return;
      }
    }
    // Won after the stop, or by a claim whose answer did not come.
    if (this.#mayHold) await this.#release();
  }

  /** Runs `lead` while the lease is held. True when it ended by itself; throws what it threw then. */
  async #lead(signal: AbortSignal, lead: (signal: AbortSignal) => Promise<void>): Promise<boolean> {
    const { controller: term, release } = linkedController(signal);
    let endedByItself = false;
    const work = (async () => {
      try {
        await lead(term.signal);
      } finally {
        endedByItself = !term.signal.aborted;
        term.abort();
      }
    })();
    // Awaited below; until then a rejection is not unhandled.
    work.catch(ignore);
    try {
      await this.#keep(term.signal);
      term.abort(new Error('the lease was lost'));
      await work.catch((error: unknown) => {
        if (endedByItself) throw error;
      });
      return endedByItself;
    } finally {
      release();
      await this.#release();
    }
  }

  get #giveUpMs(): number {
    return (this.#durationMs * 2) / 3;
  }

  /** Renews until the term ends or the lease is lost. */
  async #keep(term: AbortSignal): Promise<void> {
    while (!term.aborted) {
      await this.#rest(term);
      if (term.aborted) return;
      const renewed = await this.#attempt(term);
      if (!renewed && !this.holdsNow()) return;
    }
  }

  async #rest(signal: AbortSignal): Promise<void> {
    await this.#clock.sleep(this.#renewMs, signal).catch(ignore);
  }

  /** One try to take or renew the lease; false when another process holds it or the server cannot be asked. */
  async #attempt(signal: AbortSignal): Promise<boolean> {
    const startedAt = readClock(this.#clock);
    const timeoutMs = this.#callTimeoutMs;
    // Not given up with the signal: what is written has to be given back.
    const options = { timeoutMs };
    try {
      const ref = { namespace: this.#options.namespace, name: this.#options.name };
      const found = this.#options.client.get<Lease>(resources.leases, ref, { signal, timeoutMs });
      const lease = await ignoreNotFound(found);
      if (lease === undefined) {
        this.#mayHold = true;
        await this.#options.client.create<Lease>(resources.leases, this.#claim({ metadata: ref }), options);
        this.#renewedAt = startedAt;
        return true;
      }
      if (!this.#free(lease)) {
        // Another process holds it: an earlier renewal of ours counts no more.
        this.#renewedAt = undefined;
        this.#mayHold = false;
        return false;
      }
      this.#mayHold = true;
      await this.#options.client.update<Lease>(resources.leases, this.#claim(lease), options);
      this.#renewedAt = startedAt;
      return true;
    } catch (error) {
      // Another candidate was faster, which is no problem to report.
      if (!signal.aborted && !isConflict(error) && !isAlreadyExists(error)) this.#options.onProblem?.(error);
      return false;
    }
  }

  /** Whether the lease is ours, without a holder, or unchanged for as long as its holder asked for. */
  #free(lease: Lease): boolean {
    const holder = lease.spec?.holderIdentity;
    if (!holder || holder === this.#options.identity) return true;
    const now = this.#clock.monotonic();
    if (this.#observed?.resourceVersion !== lease.metadata.resourceVersion) {
      this.#observed = { resourceVersion: lease.metadata.resourceVersion, at: now };
      return false;
    }
    return now - (this.#observed?.at ?? now) > (lease.spec?.leaseDurationSeconds ?? 0) * 1000;
  }

  #claim(lease: Lease): Lease {
    const now = microTime(this.#clock.now());
    const mine = lease.spec?.holderIdentity === this.#options.identity;
    return {
      ...lease,
      ...(this.#options.annotations === undefined
        ? {}
        : {
            metadata: {
              ...lease.metadata,
              annotations: { ...lease.metadata.annotations, ...this.#options.annotations },
            },
          }),
      spec: {
        ...lease.spec,
        holderIdentity: this.#options.identity,
        leaseDurationSeconds: this.#durationMs / 1000,
        renewTime: now,
        acquireTime: mine ? (lease.spec?.acquireTime ?? now) : now,
        leaseTransitions: (lease.spec?.leaseTransitions ?? 0) + (mine || !lease.spec ? 0 : 1),
      },
    };
  }

  /** Lets the next one in at once instead of after the lease's duration. Best effort. */
  async #release(): Promise<void> {
    this.#renewedAt = undefined;
    this.#mayHold = false;
    try {
      const ref = { namespace: this.#options.namespace, name: this.#options.name };
      const options = { timeoutMs: Math.max(this.#callTimeoutMs, 2_000) };
      const lease = await this.#options.client.get<Lease>(resources.leases, ref, options);
      if (lease.spec?.holderIdentity !== this.#options.identity) return;
      const spec = { ...lease.spec, holderIdentity: '', leaseDurationSeconds: 1 };
      await this.#options.client.update<Lease>(resources.leases, { ...lease, spec }, options);
    } catch {
      // It expires by itself.
    }
  }
}

/** RFC 3339 with six digits: the server parses MicroTime strictly. */
export function microTime(ms: number): string {
  return new Date(ms).toISOString().replace('Z', '000Z');
}

function ignore(): void {}
