import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { type Clock, parseQuantity } from '../../../kube/index.ts';
import type { ComponentPlan, PlanFile } from '../../control-plane/plan.ts';
import type { Cgroups } from '../../os/cgroups.ts';
import { identify, isAlive, type ProcessIdentity, sendSignal, sessionOf } from '../../os/process-identity.ts';
import { lowerPriority, withTimerSlack } from '../../os/process-scheduling.ts';
import { type ComponentExit, componentHash } from '../driver.ts';
import { cannotStart, cannotWrite, DriverError, portInUse, willNotStop } from '../errors.ts';
import { isPortFree, portHolder } from '../ports.ts';
import { componentOf } from '../slots.ts';
import {
  type ComponentPaths,
  type RunRecord,
  readRecord,
  removeRecord,
  writeFiles,
  writeRecordSync,
} from './component-files.ts';
import { openLog, rotateLog } from './logs.ts';

/** Variable by which a process of ours is found even when its record is lost. */
export const markVariable = 'SKERRY_COMPONENT';

/** What is to run. */
export interface ProcessSpec {
  component: ComponentPlan;
  /** A change of it makes a restart necessary. */
  hash: string;
  command: string;
  args: string[];
  env: Record<string, string>;
  files: PlanFile[];
  /** Processes that carry this component's mark. */
  marked: readonly number[];
  /** Group to run with, by which its connections are judged. */
  group: number | undefined;
}

const inherited = ['PATH', 'HOME', 'USER', 'TMPDIR', 'TZ', 'LANG'];

/** What has to run for a component of a plan: command line and environment with every placeholder filled in. */
export function processSpec(
  component: ComponentPlan,
  command: string,
  place: ComponentPaths,
  options: { environment: NodeJS.ProcessEnv; marked: readonly number[]; group: number | undefined },
): ProcessSpec {
  const fill = (text: string) =>
    text
      .replaceAll('${files}', place.files(component.name))
      .replaceAll('${data}', place.data(component.name));
  const env: Record<string, string> = {};
  for (const name of inherited) {
    const value = options.environment[name];
    if (value !== undefined) env[name] = value;
  }
  for (const [name, value] of Object.entries(component.env)) env[name] = fill(value);
  env[markVariable] = place.mark(component.name);
  return {
    component,
    hash: componentHash(component),
    command,
    args: component.args.map(fill),
    env,
    files: component.files.map((file) => ({ ...file, content: fill(file.content) })),
    marked: options.marked,
    group: options.group,
  };
}

interface SpawnRequest {
  command: string;
  args: readonly string[];
  env: Record<string, string>;
  cwd: string;
  logFile: string;
  /** To run with instead of this process's; only root may. */
  gid?: number | undefined;
  /** By how much its timers may be late. */
  timerSlackMs?: number;
  /** `<id>-<component>`, and what the plan limits it to. */
  confinement?: { name: string; limits: Record<string, string> };
}

/** A process that was started just now. */
export interface Spawned {
  pid: number;
  /** Settles when it has ended, unless `release` was called before; rejects when that cannot be known. */
  exited: Promise<Omit<ComponentExit, 'at'>>;
  release(): void;
}

/**
 * Starts a program in a session of its own, so that it outlives the manager and its terminal. Rejects when it cannot be
 * executed.
 */
export type Spawn = (request: SpawnRequest) => Promise<Spawned>;

/** As a child of this process. */
export async function spawnChild(request: SpawnRequest): Promise<Spawned> {
  const log = openLog(request.logFile);
  let child: ChildProcess;
  try {
    const { timerSlackMs = 0 } = request;
    const start = (): ChildProcess =>
      spawn(request.command, request.args, {
        cwd: request.cwd,
        env: request.env,
        detached: true,
        stdio: ['ignore', log, log],
        gid: request.gid,
      });
    child = timerSlackMs > 0 ? withTimerSlack(timerSlackMs, start) : start();
  } finally {
    closeSync(log);
  }
  const { promise, resolve } = Promise.withResolvers<Omit<ComponentExit, 'at'>>();
  child.on('exit', (code, signal) => {
    resolve({ ...(code === null ? {} : { code }), ...(signal === null ? {} : { signal }) });
  });
  child.unref();
  const { pid } = child;
  if (pid === undefined) {
    const failed = Promise.withResolvers<never>();
    child.once('error', failed.reject);
    return failed.promise;
  }
  child.on('error', () => undefined);
  return { pid, exited: promise, release: () => child.removeAllListeners('exit') };
}

interface Confinement {
  /** How much programs give way to others, 0 to 19. */
  niceness: number;
  timerSlackMs: number;
  /** Where this process may make control groups; their names begin with `prefix`. */
  groups?: { made: Cgroups; prefix: string } | undefined;
}

/** Starts programs that give way to others and, where there are control groups, have the limits of their plan. */
export function confined(spawn: Spawn, { niceness, timerSlackMs, groups }: Confinement): Spawn {
  return async ({ confinement, ...request }) => {
    const spawned = await spawn({ ...request, timerSlackMs });
    if (niceness !== 0) lowerPriority(spawned.pid, niceness);
    if (groups !== undefined && confinement !== undefined) {
      const { memory, cpu } = confinement.limits;
      try {
        groups.made.place(`${groups.prefix}${confinement.name}`, spawned.pid, {
          memoryBytes: amount(memory),
          cpus: amount(cpu),
          share: shareOf(niceness),
        });
      } catch {
        // It has ended, or another process takes the groups away.
      }
    }
    return spawned;
  };
}

/** Of a quantity; undefined where there is none. */
function amount(quantity: string | undefined): number | undefined {
  return quantity === undefined ? undefined : parseQuantity(quantity);
}

/** What the kernel's scheduler gives for a niceness: a quarter less for each step. */
export function shareOf(niceness: number): number {
  return 1.25 ** -niceness;
}

/**
 * Notices the end of processes that are not our children, for which no event exists: looks at all of
 * them about once a second, on one timer that runs only while there is something to look at and does
 * not keep the program alive.
 */
export class LivenessPoll {
  readonly #intervalMs: number;
  readonly #watched = new Map<ProcessIdentity, () => void>();
  #timer: NodeJS.Timeout | undefined;
  #looking = false;

  constructor(intervalMs = 1000) {
    this.#intervalMs = intervalMs;
  }

  /** Calls `gone` once, when the process has ended. Returns how to stop looking. */
  add(identity: ProcessIdentity, gone: () => void): () => void {
    this.#watched.set(identity, gone);
    this.#timer ??= setInterval(() => void this.#look(), this.#intervalMs).unref();
    return () => this.#forget(identity);
  }

  close(): void {
    this.#watched.clear();
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  async #look(): Promise<void> {
    if (this.#looking) return;
    this.#looking = true;
    try {
      for (const [identity, gone] of [...this.#watched]) {
        if (await isAlive(identity)) continue;
        if (!this.#watched.has(identity)) continue;
        this.#forget(identity);
        gone();
      }
    } finally {
      this.#looking = false;
    }
  }

  #forget(identity: ProcessIdentity): void {
    this.#watched.delete(identity);
    if (this.#watched.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}

const killTimeoutMs = 10_000;
const lookEveryMs = 25;

interface StartOptions {
  clock: Clock;
  liveness: LivenessPoll;
  spawn: Spawn;
}

/** A process that we have started, or taken over from an earlier manager. */
export class RunningProcess {
  readonly identity: ProcessIdentity;
  readonly startedAt: Date;
  /** Settles when the process has ended, unless `release` was called before. */
  readonly exited: Promise<ComponentExit>;
  readonly #clock: Clock;
  readonly #release: () => void;

  private constructor(
    identity: ProcessIdentity,
    startedAt: Date,
    clock: Clock,
    exited: Promise<ComponentExit>,
    release: () => void,
  ) {
    this.identity = identity;
    this.startedAt = startedAt;
    this.exited = exited;
    this.#clock = clock;
    this.#release = release;
  }

  /** Starts a program. `record` is called as soon as there is a process. Rejects when it cannot be executed. */
  static async start(
    request: SpawnRequest,
    { clock, liveness, spawn }: StartOptions,
    record: (identity: ProcessIdentity, startedAt: Date) => void,
  ): Promise<RunningProcess> {
    const spawned = await spawn(request);
    const { pid } = spawned;
    // A program that has ended already is a zombie without identity; its exit event is on the way.
    const identity = (await identify(pid)) ?? { pid, startTime: '' };
    const startedAt = new Date(clock.now());
    record(identity, startedAt);
    const { promise, resolve } = Promise.withResolvers<ComponentExit>();
    let isReleased = false;
    let stopLooking: (() => void) | undefined;
    spawned.exited.then(
      (exit) => resolve({ at: new Date(clock.now()), ...exit }),
      () => {
        if (!isReleased) stopLooking = liveness.add(identity, () => resolve({ at: new Date(clock.now()) }));
      },
    );
    return new RunningProcess(identity, startedAt, clock, promise, () => {
      isReleased = true;
      stopLooking?.();
      spawned.release();
    });
  }

  /** Takes over a process that is not our child; undefined if it has ended. */
  static async adopt(
    identity: ProcessIdentity,
    startedAt: Date,
    clock: Clock,
    liveness: LivenessPoll,
  ): Promise<RunningProcess | undefined> {
    if (!(await isAlive(identity))) return undefined;
    const { promise, resolve } = Promise.withResolvers<ComponentExit>();
    const release = liveness.add(identity, () => resolve({ at: new Date(clock.now()) }));
    return new RunningProcess(identity, startedAt, clock, promise, release);
  }

  isAlive(): Promise<boolean> {
    return isAlive(this.identity);
  }

  /** Asks it to end, kills it and its session if it has not within `timeoutMs`. False: not even then. */
  async stop(timeoutMs: number, signal: AbortSignal): Promise<boolean> {
    if (!(await sendSignal(this.identity, 'SIGTERM'))) return true;
    if (await this.#endsWithin(timeoutMs, signal)) return true;
    if (!(await sendSignal(this.identity, 'SIGKILL', { group: true }))) return true;
    return this.#endsWithin(killTimeoutMs, signal);
  }

  /** Stops looking at it and lets it be. */
  release(): void {
    this.#release();
  }

  async #endsWithin(timeoutMs: number, signal: AbortSignal): Promise<boolean> {
    const deadline = this.#clock.monotonic() + timeoutMs;
    while (await this.isAlive()) {
      if (this.#clock.monotonic() >= deadline) return false;
      await this.#clock.sleep(lookEveryMs, signal);
    }
    return true;
  }
}

export interface ComponentProcessOptions {
  id: string;
  /** Its slot. */
  name: string;
  place: ComponentPaths;
  clock: Clock;
  liveness: LivenessPoll;
  spawn: Spawn;
}

const defaultStopTimeoutMs = 10_000;

/** The one process of a component, and the record of it on disk: starts, adopts and ends it. */
export class ComponentProcess {
  readonly #o: ComponentProcessOptions;
  readonly #where: { id: string; component: string };
  /** Ours to look after; undefined when none is known to run. */
  #current: RunningProcess | undefined;
  /** Of the last process that was started or adopted here; its record stays when it dies. */
  #pid: number | undefined;

  constructor(options: ComponentProcessOptions) {
    this.#o = options;
    this.#where = { id: options.id, component: componentOf(options.name) };
  }

  get current(): RunningProcess | undefined {
    return this.#current;
  }

  /** Afterwards either the wanted process runs and is known, or none does; its files are as planned. */
  async prepare(target: ProcessSpec, signal: AbortSignal): Promise<void> {
    const { stopTimeoutMs } = target.component;
    const record = await this.#readRecord();
    this.#current ??= await this.#adopt(record);
    const current = this.#current;
    if (current !== undefined) {
      const isOfCurrent = record?.pid === current.identity.pid && record.stopping !== true;
      const isConfined = target.group === undefined || record?.group === target.group;
      const same = isOfCurrent && record.argsHash === target.hash && isConfined;
      if (!same || !(await current.isAlive())) {
        await this.#end(record?.stopTimeoutMs ?? stopTimeoutMs, signal);
      }
    }
    this.#pid = this.#current?.identity.pid;
    await this.#endStrays(target.marked, stopTimeoutMs, signal);
    await this.#write(target);
  }

  async start(target: ProcessSpec): Promise<RunningProcess> {
    const { place, name } = this.#o;
    for (const { port, host } of target.component.ports) {
      if (!(await isPortFree(port, host ?? '0.0.0.0'))) {
        throw portInUse(this.#where, port, await portHolder(port));
      }
    }
    const { command, args, env, group } = target;
    const request = {
      command,
      args,
      env,
      gid: group,
      cwd: place.data(name),
      logFile: place.log(this.#where.component),
      confinement: { name: `${this.#where.id}-${name}`, limits: target.component.resources?.limits ?? {} },
    };
    try {
      await rotateLog(request.logFile);
      this.#current = await RunningProcess.start(request, this.#o, (identity, startedAt) => {
        writeRecordSync(place.run, name, {
          ...identity,
          argsHash: target.hash,
          startedAt: startedAt.toISOString(),
          ports: target.component.ports.map((port) => ({ name: port.name, port: port.port })),
          dependsOn: target.component.dependsOn,
          stopTimeoutMs: target.component.stopTimeoutMs,
          group,
        });
      });
      this.#pid = this.#current.identity.pid;
      return this.#current;
    } catch (error) {
      throw error instanceof DriverError ? error : cannotStart(this.#where, command, error);
    }
  }

  /**
   * False when another driver has stopped or restarted what was started here: its record is gone, says
   * so, or names another process.
   */
  async isStillOurs(): Promise<boolean> {
    if (this.#pid === undefined) return true;
    const record = await this.#readRecord();
    return record?.pid === this.#pid && record.stopping !== true;
  }

  /** Ends it and every process with its mark; it may never have been started from here. */
  async stop(marked: readonly number[], signal: AbortSignal, timeoutMs?: number): Promise<void> {
    const record = await this.#readRecord();
    this.#current ??= await this.#adopt(record);
    const patienceMs = timeoutMs ?? record?.stopTimeoutMs ?? defaultStopTimeoutMs;
    await this.#end(patienceMs, signal);
    await this.#endStrays(marked, patienceMs, signal);
    await removeRecord(this.#o.place.run, this.#o.name);
  }

  /** Looks away, and lets it be if it runs. */
  release(): void {
    this.#current?.release();
    this.#current = undefined;
  }

  #readRecord(): Promise<RunRecord | undefined> {
    return readRecord(this.#o.place.run, this.#o.name);
  }

  async #adopt(record: RunRecord | undefined): Promise<RunningProcess | undefined> {
    const { clock, liveness } = this.#o;
    if (record === undefined) return undefined;
    const { pid, startTime } = record;
    return RunningProcess.adopt({ pid, startTime }, new Date(record.startedAt), clock, liveness);
  }

  async #end(timeoutMs: number, signal: AbortSignal): Promise<void> {
    const current = this.#current;
    if (current === undefined) return;
    const record = await this.#readRecord();
    if (record?.pid === current.identity.pid) {
      writeRecordSync(this.#o.place.run, this.#o.name, { ...record, stopping: true });
    }
    if (!(await current.stop(timeoutMs, signal))) throw willNotStop(this.#where, current.identity.pid);
    this.release();
  }

  // Started, but the manager died before it could write the record; or left behind by the component.
  async #endStrays(marked: readonly number[], timeoutMs: number, signal: AbortSignal): Promise<void> {
    const { clock, liveness } = this.#o;
    for (const pid of marked) {
      // What a living component has itself started is its own affair.
      const current = this.#current?.identity.pid;
      if (pid === process.pid || (current !== undefined && sessionOf(pid) === current)) continue;
      const identity = await identify(pid);
      const stray =
        identity && (await RunningProcess.adopt(identity, new Date(clock.now()), clock, liveness));
      if (stray === undefined) continue;
      const ended = await stray.stop(timeoutMs, signal).finally(() => stray.release());
      if (!ended) throw willNotStop(this.#where, pid);
    }
  }

  async #write(target: ProcessSpec): Promise<void> {
    const { place, name } = this.#o;
    try {
      for (const directory of [place.run, place.logs, place.data(name)]) {
        await mkdir(directory, { recursive: true, mode: 0o700 });
      }
      await writeFiles(place.files(name), target.files);
    } catch (error) {
      throw cannotWrite(this.#where, (error as NodeJS.ErrnoException).path ?? place.directory, error);
    }
  }
}
