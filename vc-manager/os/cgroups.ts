import { mkdirSync, readdirSync, readFileSync, rmdirSync, statSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';

export interface CgroupLimits {
  /** Beyond it the kernel kills a process of the group. */
  memoryBytes?: number | undefined;
  /** CPUs' worth of time; may be fractional. */
  cpus?: number | undefined;
  /** CPU share while other processes want CPU time; 1: as any other process. */
  share?: number | undefined;
}

/** Linux control groups that this process may make. */
export interface Cgroups {
  readonly version: 1 | 2;
  /** Makes the group where it is missing, sets its limits, and moves a process into it with all of its threads. */
  place(name: string, pid: number, limits: CgroupLimits): void;
  /** Of groups that are there, whose names begin so; undefined where that cannot be read now. */
  names(prefix: string): string[] | undefined;
  /** Of a group; empty where it is gone. */
  processes(name: string): number[];
  /** As in `CgroupLimits`. Nothing happens where the group is gone. */
  setShare(name: string, share: number): void;
  /** Removes groups without processes whose names begin so. Returns the names of those that are left. */
  remove(prefix: string): string[];
  /**
   * Removes groups without processes: those whose names begin so, and those of other stacks that have been there for a
   * minute, as a stack that was killed, and is gone, leaves them. Younger ones are about to be used.
   */
  removeEmpty(ownPrefix: string): void;
}

interface CgroupsOptions {
  /** Where file systems of control groups are mounted. */
  root?: string;
  /** Which groups this process is in, as /proc/self/cgroup. */
  self?: string;
}

const periodMicroseconds = 100_000;
const namePrefix = 'skerry-';
const namePattern = /^skerry-[a-z0-9-]{1,200}$/;
/** From when it is made to when a process is in it, a group takes milliseconds. */
const othersAreLeftMs = 60_000;
/** A process that removes empty groups goes through all of them once. */
const maxAttempts = 20;

/**
 * Undefined where there are none, or they may not be changed: root may, and with version 2 a user to whom a part of the tree
 * was given (`Delegate=yes` of systemd), from within it.
 */
export function findCgroups({
  root = '/sys/fs/cgroup',
  self = '/proc/self/cgroup',
}: CgroupsOptions = {}): Cgroups | undefined {
  try {
    if (isDirectory(join(root, 'memory'))) return probed(new V1(root, readFileSync(self, 'utf8')));
    try {
      return probed(new V2(root));
    } catch {
      return probed(new V2(delegatedBase(root, readFileSync(self, 'utf8'))));
    }
  } catch {
    return undefined;
  }
}

/** Throws where it may not make groups. */
function probed<T extends Groups>(groups: T): T {
  groups.probe();
  return groups;
}

abstract class Groups {
  /** Directories in which a group has a directory each. */
  abstract readonly parents: readonly string[];
  protected abstract limit(name: string, limits: CgroupLimits): void;
  /** The file, and what it says of a share. */
  protected abstract shareOf(name: string, share: number): { file: string; value: number };

  names(prefix: string): string[] | undefined {
    try {
      return namesIn(this.#processorParent, prefix);
    } catch {
      return undefined;
    }
  }

  processes(name: string): number[] {
    try {
      const text = readFileSync(join(this.#processorParent, name, 'cgroup.procs'), 'utf8');
      return text.split('\n').filter(Boolean).map(Number);
    } catch {
      return [];
    }
  }

  setShare(name: string, share: number): void {
    const { file, value } = this.shareOf(name, share);
    try {
      writeFileSync(file, String(value));
    } catch {
      // The group is gone.
    }
  }

  /** In which groups have shares of the processors. */
  get #processorParent(): string {
    return this.parents.at(-1) as string;
  }

  place(name: string, pid: number, limits: CgroupLimits): void {
    if (!namePattern.test(name)) throw new TypeError(`${name} is no name of a control group`);
    for (let attempt = 1; ; attempt++) {
      try {
        for (const parent of this.parents) makeDirectory(join(parent, name));
        this.limit(name, limits);
        for (const parent of this.parents) writeFileSync(join(parent, name, 'cgroup.procs'), String(pid));
        return;
      } catch (error) {
        // Until the process is in it, it is empty: another one may have removed it.
        if (!isGone(error) || attempt === maxAttempts) throw error;
      }
    }
  }

  remove(prefix: string): string[] {
    return this.#remove(prefix, () => true);
  }

  removeEmpty(ownPrefix: string): void {
    const latest = Date.now() - othersAreLeftMs;
    this.#remove(namePrefix, (path, name) => {
      if (name.startsWith(ownPrefix)) return true;
      // Of a group's directory it is when it was made, or looked at for the first time.
      const madeMs = statSync(path, { throwIfNoEntry: false })?.mtimeMs;
      return madeMs !== undefined && madeMs <= latest;
    });
  }

  #remove(prefix: string, isToGo: (path: string, name: string) => boolean): string[] {
    const left = new Set<string>();
    for (const parent of this.parents) {
      for (const name of namesIn(parent, prefix)) {
        const path = join(parent, name);
        if (!isToGo(path, name)) continue;
        try {
          rmdirSync(path);
        } catch (error) {
          if (!isGone(error)) left.add(name);
        }
      }
    }
    return [...left].sort();
  }

  probe(): void {
    const name = `${namePrefix}probe-${process.pid}`;
    for (const parent of this.parents) makeDirectory(join(parent, name));
    this.remove(name);
  }
}

/** Each controller has a file system of its own. */
class V1 extends Groups implements Cgroups {
  readonly version = 1;
  readonly parents: readonly string[];
  readonly #memory: string;
  readonly #cpu: string;

  constructor(root: string, self: string) {
    super();
    // Below the group of this process, whose limits so hold for all of its groups.
    const own = (controller: string): string => {
      const line = self.split('\n').find((each) => each.split(':')[1]?.split(',').includes(controller));
      const directory = join(root, controller, line?.split(':').slice(2).join(':') ?? '');
      return isDirectory(directory) ? directory : join(root, controller);
    };
    this.#memory = own('memory');
    this.#cpu = own('cpu');
    this.parents = [this.#memory, this.#cpu];
  }

  protected limit(name: string, { memoryBytes, cpus, share }: CgroupLimits): void {
    const memory = memoryBytes === undefined ? '-1' : String(Math.floor(memoryBytes));
    const quota = cpus === undefined ? -1 : Math.round(cpus * periodMicroseconds);
    writeFileSync(join(this.#memory, name, 'memory.limit_in_bytes'), memory);
    writeFileSync(join(this.#cpu, name, 'cpu.cfs_period_us'), String(periodMicroseconds));
    writeFileSync(join(this.#cpu, name, 'cpu.cfs_quota_us'), String(quota));
    this.setShare(name, share ?? 1);
  }

  protected shareOf(name: string, share: number): { file: string; value: number } {
    return { file: join(this.#cpu, name, 'cpu.shares'), value: Math.max(2, Math.round(share * 1024)) };
  }
}

/** One tree for all controllers. The groups have one parent: together they count as one service of the machine. */
class V2 extends Groups implements Cgroups {
  readonly version = 2;
  readonly parents: readonly string[];
  readonly #parent: string;

  /** `base`: a group without processes of its own. */
  constructor(base: string) {
    super();
    this.#parent = join(base, 'skerry');
    this.parents = [this.#parent];
    assertControllers(base);
    if (!hasControllers(join(base, 'cgroup.subtree_control')))
      writeFileSync(join(base, 'cgroup.subtree_control'), '+cpu +memory');
    makeDirectory(this.#parent);
    writeFileSync(join(this.#parent, 'cgroup.subtree_control'), '+cpu +memory');
  }

  protected limit(name: string, { memoryBytes, cpus, share }: CgroupLimits): void {
    const set = (file: string, value: string): void => writeFileSync(join(this.#parent, name, file), value);
    const quota = cpus === undefined ? 'max' : String(Math.round(cpus * periodMicroseconds));
    set('memory.max', memoryBytes === undefined ? 'max' : String(Math.floor(memoryBytes)));
    set('cpu.max', `${quota} ${periodMicroseconds}`);
    this.setShare(name, share ?? 1);
  }

  protected shareOf(name: string, share: number): { file: string; value: number } {
    const value = Math.min(10_000, Math.max(1, Math.round(share * 100)));
    return { file: join(this.#parent, name, 'cpu.weight'), value };
  }
}

/** Where the processes go that were in a group that was given to this user: one with groups below it may have none. */
const leaf = 'skerry-main';
/** Of units that were made for a command, as by `systemd-run`: to a terminal's own belong processes of others. */
const ownUnit = /^(run-|skerry|vc-)[^/]*\.(scope|service)$/;

/** The group of this process, after its processes have moved to one below it. Throws where it is not this user's. */
function delegatedBase(root: string, self: string): string {
  const path =
    self
      .split('\n')
      .find((line) => line.startsWith('0::'))
      ?.slice('0::'.length) ?? '/';
  const own = join(root, path);
  // Another process of this program was here first.
  const base = basename(own) === leaf ? dirname(own) : own;
  if (!ownUnit.test(basename(base))) throw new Error('it is not a unit of this program alone');
  assertControllers(base);
  makeDirectory(join(base, leaf));
  moveProcesses(join(base, 'cgroup.procs'), join(base, leaf, 'cgroup.procs'));
  return base;
}

/** Until none is there that was not tried: a process may have started another one before it was moved itself. */
function moveProcesses(from: string, to: string): void {
  const tried = new Set<string>();
  for (let attempt = 1; attempt <= maxAttempts; attempt++) {
    const others = readFileSync(from, 'utf8')
      .split('\n')
      .filter((pid) => pid !== '' && !tried.has(pid));
    if (others.length === 0) return;
    for (const pid of others) {
      tried.add(pid);
      try {
        writeFileSync(to, pid);
      } catch (error) {
        // It has ended.
        if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
      }
    }
  }
}

function assertControllers(base: string): void {
  if (!hasControllers(join(base, 'cgroup.controllers'))) throw new Error('not all controllers are here');
}

function hasControllers(file: string): boolean {
  const words = readFileSync(file, 'utf8').trim().split(/\s+/);
  return words.includes('cpu') && words.includes('memory');
}

/** Groups of a parent that is gone are gone, too. */
function namesIn(parent: string, prefix: string): string[] {
  const all = isDirectory(parent) ? readdirSync(parent) : [];
  return all.filter((name) => name.startsWith(prefix) && namePattern.test(name));
}

/** The second one is that of a file that was opened before its group was removed. */
function isGone(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === 'ENOENT' || code === 'ENODEV';
}

/** In a directory that is there: one that is missing is a controller that is not mounted. */
function makeDirectory(path: string): void {
  if (!isDirectory(path)) mkdirSync(path);
}

function isDirectory(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}
