import type { Clock } from '../../../kube/index.ts';
import { identify, isAlive, type ProcessIdentity, sendSignal } from '../../os/process-identity.ts';
import type { ComponentExit } from '../driver.ts';
import type { LivenessPoll } from './liveness.ts';
import type { Spawn, SpawnRequest } from './spawn.ts';

const killTimeoutMs = 10_000;
const lookEveryMs = 25;

export interface StartOptions {
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
