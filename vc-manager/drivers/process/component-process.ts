import { mkdir } from 'node:fs/promises';
import type { Clock } from '../../../kube/index.ts';
import { identify, sessionOf } from '../../os/process-identity.ts';
import { cannotStart, cannotWrite, DriverError, portInUse, willNotStop } from '../errors.ts';
import { isPortFree, portHolder } from '../ports.ts';
import { writeFiles } from './component-files.ts';
import type { LivenessPoll } from './liveness.ts';
import { rotateLog } from './log-file.ts';
import type { Place } from './place.ts';
import { type RunRecord, readRecord, removeRecord, writeRecordSync } from './run-record.ts';
import { RunningProcess } from './running-process.ts';
import type { Spawn } from './spawn.ts';
import type { Target } from './target.ts';

export interface ComponentProcessOptions {
  id: string;
  name: string;
  place: Place;
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
    this.#where = { id: options.id, component: options.name };
  }

  get current(): RunningProcess | undefined {
    return this.#current;
  }

  /** Afterwards either the wanted process runs and is known, or none does; its files are as planned. */
  async prepare(target: Target, signal: AbortSignal): Promise<void> {
    const { stopTimeoutMs } = target.component;
    const record = await this.#readRecord();
    this.#current ??= await this.#adopt(record);
    const current = this.#current;
    if (current !== undefined) {
      const isOfCurrent = record?.pid === current.identity.pid && record.stopping !== true;
      const same = isOfCurrent && record.argsHash === target.hash;
      if (!same || !(await current.isAlive())) {
        await this.#end(record?.stopTimeoutMs ?? stopTimeoutMs, signal);
      }
    }
    this.#pid = this.#current?.identity.pid;
    await this.#endStrays(target.marked, stopTimeoutMs, signal);
    await this.#write(target);
  }

  async start(target: Target): Promise<RunningProcess> {
    const { place, name } = this.#o;
    for (const { port, host } of target.component.ports) {
      if (!(await isPortFree(port, host ?? '0.0.0.0'))) {
        throw portInUse(this.#where, port, await portHolder(port));
      }
    }
    const { command, args, env } = target;
    const request = { command, args, env, cwd: place.data(name), logFile: place.log(name) };
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

  async #write(target: Target): Promise<void> {
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
