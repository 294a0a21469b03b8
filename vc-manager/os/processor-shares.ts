import { readFileSync } from 'node:fs';
import type { ControlGroups } from './control-groups.ts';

/** Up to here a group has its full share. Processors' worth of time. */
const lightUse = 0.1;
/** What is left to a group that uses more than 32 times as much. */
const leastOfShare = 1 / 32;
/** After this time of idling, use counts half. */
const halfLifeMs = 3_000;
const lookEveryMs = 500;
/** Unit of times in /proc, on every Linux (`USER_HZ`). */
const ticksPerSecond = 100;

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

interface Use {
  /** Seconds, by process. */
  byProcess: Map<number, number>;
  /** Processors' worth of time, lately. */
  lately: number;
  share: number | undefined;
}

/**
 * While processes wait for processors, control groups that have used less of them lately go first: who answers a few
 * requests does not wait behind a tenant that keeps its API server busy all the time. The share of a group falls with what it
 * uses, and is whole again some seconds after it has stopped.
 */
export class ProcessorShares {
  readonly #options: Required<ProcessorSharesOptions>;
  readonly #uses = new Map<string, Use>();
  #lastMs: number;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: ProcessorSharesOptions) {
    this.#options = { now: () => performance.now(), usedBy: processorSeconds, ...options };
    this.#lastMs = this.#options.now();
  }

  /** Looks twice a second until closed. Does not keep the program alive. */
  start(): void {
    this.#timer ??= setInterval(() => this.look(), lookEveryMs).unref();
  }

  close(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** Sets the shares by what was used since it looked last. */
  look(): void {
    const { groups, prefix, full, now } = this.#options;
    const nowMs = now();
    const passedMs = nowMs - this.#lastMs;
    if (passedMs <= 0) return;
    this.#lastMs = nowMs;
    const kept = 0.5 ** (passedMs / halfLifeMs);
    const names = new Set(groups.names(prefix));
    for (const name of this.#uses.keys()) if (!names.has(name)) this.#uses.delete(name);
    for (const name of names) {
      const before = this.#uses.get(name);
      const byProcess = this.#usedIn(name);
      let used = 0;
      for (const [pid, seconds] of byProcess) used += seconds - (before?.byProcess.get(pid) ?? 0);
      // What a group has used before it was seen for the first time is not known to be of late.
      const inUse = before === undefined ? 0 : Math.max(0, used) / (passedMs / 1_000);
      const lately = (before?.lately ?? 0) * kept + inUse * (1 - kept);
      const share = full * shareByUse(lately);
      if (share !== before?.share) groups.setShare(name, share);
      this.#uses.set(name, { byProcess, lately, share });
    }
  }

  #usedIn(name: string): Map<number, number> {
    const used = new Map<number, number>();
    for (const pid of this.#options.groups.processes(name)) {
      const seconds = this.#options.usedBy(pid);
      if (seconds !== undefined) used.set(pid, seconds);
    }
    return used;
  }
}

/** Part of its full share that a group has. `lately`: processors' worth of time. */
function shareByUse(lately: number): number {
  return Math.max(leastOfShare, Math.min(1, lightUse / Math.max(lately, Number.MIN_VALUE)));
}

/** Of all threads, in user mode and in the kernel (proc(5), `utime` and `stime`). Linux only. */
function processorSeconds(pid: number): number | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // From the third field on: the second is the program's name in parentheses and may itself contain some.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
  } catch {
    return undefined;
  }
}
