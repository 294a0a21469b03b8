import type { ControlGroups } from './control-groups.ts';
import { processorSeconds } from './process-identity.ts';

/** Up to here a group has its full share. Processors' worth of time. */
const lightUse = 0.1;
/** What is left to a group that uses 32 times as much, or more. */
const leastOfShare = 1 / 32;
/** After this time of idling, use counts half; use that goes on at more than `muchUse` counts half after `risingMs`. */
const halfLifeMs = 3_000;
const risingMs = 500;
const muchUse = 0.5;
/** What a program uses when it starts, which a user waits for, does not count. */
const startMs = 30_000;
const lookEveryMs = 500;
/** Looking takes at most this part of the time. */
const partOfTime = 0.02;

interface ProcessorSharesOptions {
  groups: ControlGroups;
  /** Of the names of groups that are looked at. */
  prefix: string;
  /** What a group has that has used little lately; 1: as any other process. */
  full: number;
  now?: () => number;
  /** Processor time that a process has used so far; undefined: it is gone. Seconds. */
  usedBy?: (pid: number) => number | undefined;
}

interface ProcessUse {
  readonly sinceMs: number;
  readonly seconds: number;
}

interface GroupUse {
  readonly byProcess: Map<number, ProcessUse>;
  /** Processors' worth of time, lately. */
  readonly lately: number;
  /** The same, since the look before. */
  readonly inUse: number;
  readonly share: number;
}

/**
 * While processes wait for processors, control groups that have used less of them lately go first: who answers a few
 * requests does not wait behind a tenant that keeps its API server busy all the time. The share of a group falls with what it
 * uses, and is whole again some seconds after it has stopped.
 */
export class ProcessorShares {
  readonly #options: Required<ProcessorSharesOptions>;
  readonly #uses = new Map<string, GroupUse>();
  #lastMs: number;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: ProcessorSharesOptions) {
    this.#options = { now: () => performance.now(), usedBy: processorSeconds, ...options };
    this.#lastMs = this.#options.now();
  }

  /** Looks twice a second, or less often when there is much to look at, until closed. Does not keep the program alive. */
  start(): void {
    if (this.#timer === undefined) this.#lookAfter(lookEveryMs);
  }

  /** Gives all groups their full share back. */
  close(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    for (const name of this.#uses.keys()) this.#options.groups.setShare(name, this.#options.full);
    this.#uses.clear();
  }

  /** Sets the shares by what was used since it looked last. */
  look(): void {
    const { groups, prefix, full, now } = this.#options;
    const names = groups.names(prefix);
    const nowMs = now();
    const passedMs = nowMs - this.#lastMs;
    if (names === undefined || passedMs <= 0) return;
    this.#lastMs = nowMs;
    const there = new Set(names);
    for (const name of this.#uses.keys()) if (!there.has(name)) this.#uses.delete(name);
    for (const name of names) {
      const before = this.#uses.get(name);
      const { byProcess, usedSeconds, isAnew } = this.#usedIn(name, before?.byProcess, nowMs);
      const inUse = usedSeconds / (passedMs / 1_000);
      const earlier = before?.lately ?? 0;
      const goesOn = Math.min(inUse, before?.inUse ?? 0) > muchUse;
      const kept = 0.5 ** (passedMs / (goesOn && inUse > earlier ? risingMs : halfLifeMs));
      const lately = isAnew ? 0 : earlier * kept + inUse * (1 - kept);
      const share = full * partByUse(lately);
      if (share !== before?.share) groups.setShare(name, share);
      this.#uses.set(name, { byProcess, lately, inUse, share });
    }
  }

  #lookAfter(ms: number): void {
    this.#timer = setTimeout(() => {
      const beganMs = performance.now();
      this.look();
      const tookMs = performance.now() - beganMs;
      this.#lookAfter(Math.max(lookEveryMs, tookMs / partOfTime));
    }, ms).unref();
  }

  /**
   * Time that counts: of processes that were there before, and have started long enough ago. `isAnew`: none of them was
   * there before.
   */
  #usedIn(
    name: string,
    before: ReadonlyMap<number, ProcessUse> | undefined,
    nowMs: number,
  ): { byProcess: Map<number, ProcessUse>; usedSeconds: number; isAnew: boolean } {
    const { groups, usedBy } = this.#options;
    const byProcess = new Map<number, ProcessUse>();
    let usedSeconds = 0;
    let isAnew = true;
    for (const pid of groups.processes(name)) {
      const seconds = usedBy(pid);
      if (seconds === undefined) continue;
      if (before?.has(pid) === true) isAnew = false;
      const { sinceMs, seconds: earlier } = before?.get(pid) ?? { sinceMs: nowMs, seconds };
      byProcess.set(pid, { sinceMs, seconds });
      if (nowMs - sinceMs > startMs) usedSeconds += Math.max(0, seconds - earlier);
    }
    return { byProcess, usedSeconds, isAnew };
  }
}

/** Part of its full share that a group has. `lately`: processors' worth of time. */
function partByUse(lately: number): number {
  return Math.max(leastOfShare, Math.min(1, lightUse / Math.max(lately, Number.MIN_VALUE)));
}
