import { readFileSync } from 'node:fs';
import { availableParallelism, cpus } from 'node:os';
import type { Cgroups } from './cgroups.ts';
import { cpuSeconds } from './process-identity.ts';

/** Up to here a group of the median weight has its full share. CPUs' worth of time. */
const lightUse = 0.1;
/**
 * No group that uses little has less than this part of the full share, however small its weight is, and none less than this
 * part of that, however much it uses.
 */
const leastOfShare = 1 / 32;
/** What a group of more than the median weight may have, of what any other process has: all still give way to those. */
const mostOfShare = 1 / 2;
/** After this time of idling, use counts half; use that goes on at more than `muchUse` counts half after `risingMs`. */
const halfLifeMs = 3_000;
const risingMs = 500;
const muchUse = 0.5;
/** What a program uses when it starts, which a user waits for, does not count. */
const startMs = 30_000;
const lookEveryMs = 500;
/** While less than `busyPart` of the processors' time is used, few wait for them, and it looks only this often. */
const quietLookEveryMs = 5_000;
const busyPart = 0.7;
/** Looking takes at most this part of the time. */
const partOfTime = 0.02;

interface CpuSharesOptions {
  groups: Cgroups;
  /** Of the names of groups that are looked at. */
  prefix: string;
  /** What a group of the median weight has that has used little lately; 1: as any other process. */
  full: number;
  /** Of a group, in proportion to the weights of the others that are there; 1 by default. */
  weightOf?: (name: string) => number;
  now?: () => number;
  /** Processor time that a process has used so far; undefined: it is gone. Seconds. */
  usedBy?: (pid: number) => number | undefined;
  /** Part of the time of this process's processors that was used since the call before; 1 where it is not known. */
  partInUse?: () => number;
}

interface ProcessUse {
  readonly sinceMs: number;
  readonly seconds: number;
}

interface GroupUse {
  readonly byProcess: Map<number, ProcessUse>;
  /** CPUs' worth of time, lately. */
  readonly lately: number;
  /** The same, since the look before. */
  readonly inUse: number;
  /** What it has while it uses little. */
  readonly full: number;
  readonly share: number;
}

/**
 * While processes wait for processors, control groups that have used less of them lately go first: who answers a few
 * requests does not wait behind a tenant that keeps its API server busy all the time. The share of a group falls with what it
 * uses, and is whole again some seconds after it has stopped. Full share and light use are in proportion to the weight, so
 * that groups which all want more than they get come to use processors in that proportion, as far as the bounds above allow.
 */
export class CpuShares {
  readonly #options: Required<CpuSharesOptions>;
  readonly #uses = new Map<string, GroupUse>();
  #lastMs: number;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: CpuSharesOptions) {
    this.#options = {
      now: () => performance.now(),
      usedBy: cpuSeconds,
      weightOf: () => 1,
      partInUse: processorUse(),
      ...options,
    };
    this.#lastMs = this.#options.now();
  }

  /**
   * Looks twice a second while processors are busy, less often when there is much to look at or few wait for them, until
   * closed. Does not keep the program alive.
   */
  start(): void {
    if (this.#timer === undefined) this.#lookAfter(lookEveryMs);
  }

  /** Gives all groups their full share back. */
  close(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    for (const [name, { full }] of this.#uses) this.#options.groups.setShare(name, full);
    this.#uses.clear();
  }

  /** Sets the shares by weight, and by what was used since it looked last. */
  look(): void {
    const { groups, prefix, weightOf, now } = this.#options;
    const names = groups.names(prefix);
    const nowMs = now();
    const passedMs = nowMs - this.#lastMs;
    if (names === undefined || passedMs <= 0) return;
    this.#lastMs = nowMs;
    const there = new Set(names);
    for (const name of this.#uses.keys()) if (!there.has(name)) this.#uses.delete(name);
    const inUse = names.filter((name) => (this.#uses.get(name)?.lately ?? 0) > lightUse);
    const scale = new WeightScale(names.map(weightOf), inUse.map(weightOf), this.#options.full);
    for (const name of names) {
      const before = this.#uses.get(name);
      const { byProcess, usedSeconds, isAnew } = this.#usedIn(name, before?.byProcess, nowMs);
      const uses = usedSeconds / (passedMs / 1_000);
      const earlier = before?.lately ?? 0;
      const goesOn = Math.min(uses, before?.inUse ?? 0) > muchUse;
      const kept = 0.5 ** (passedMs / (goesOn && uses > earlier ? risingMs : halfLifeMs));
      const lately = isAnew ? 0 : earlier * kept + uses * (1 - kept);
      const weight = weightOf(name);
      const full = scale.share(weight, 0);
      const share = scale.share(weight, lately);
      if (share !== before?.share) groups.setShare(name, share);
      this.#uses.set(name, { byProcess, lately, inUse: uses, full, share });
    }
  }

  #lookAfter(ms: number): void {
    this.#timer = setTimeout(() => {
      const { now, partInUse } = this.#options;
      const beganMs = now();
      const isBusy = partInUse() >= busyPart;
      if (isBusy || beganMs - this.#lastMs >= quietLookEveryMs) this.look();
      const tookMs = now() - beganMs;
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

/** See `partInUse`; by proc_stat(5). */
function processorUse(): () => number {
  let before: { all: number; idle: number } | undefined;
  // The times are those of the machine, of which this process, and so its groups, may have a part only.
  const machines = cpus().length / availableParallelism();
  return () => {
    try {
      const [line = ''] = readFileSync('/proc/stat', 'utf8').split('\n', 1);
      // Times of guests, from the ninth on, are in those of users, too.
      const times = line.split(/\s+/).slice(1, 9).map(Number);
      const [, , , idle = 0, waiting = 0] = times;
      const now = { all: times.reduce((sum, each) => sum + each, 0), idle: idle + waiting };
      const passed = now.all - (before?.all ?? now.all);
      const unused = now.idle - (before?.idle ?? now.idle);
      before = now;
      return passed > 0 ? Math.min(1, (1 - unused / passed) * machines) : 1;
    } catch {
      return 1;
    }
  };
}

/** What weights mean beside each other: where all are equal, each group has the share that is given as the full one. */
class WeightScale {
  readonly #full: number;
  readonly #most: number;
  readonly #median: number;
  /** For each unit of weight. */
  readonly #unit: number;

  /** `inUse`: the weights of groups that use processors. One that does not takes nothing from others, whatever its weight. */
  constructor(weights: readonly number[], inUse: readonly number[], full: number) {
    this.#full = full;
    this.#most = Math.max(full, mostOfShare);
    this.#median = [...weights].sort((a, b) => a - b)[(weights.length - 1) >> 1] ?? 1;
    // Where the heaviest would have too much, all have less, so that the proportion stays.
    this.#unit = Math.min(full / this.#median, this.#most / Math.max(1, ...inUse));
  }

  /** `lately`: processors' worth of time. */
  share(weight: number, lately: number): number {
    const light = (lightUse * weight) / this.#median;
    const part = Math.min(1, light / Math.max(lately, Number.MIN_VALUE));
    const unused = Math.max(this.#full * leastOfShare, this.#unit * weight);
    return Math.min(this.#most, unused * Math.max(leastOfShare, part));
  }
}
