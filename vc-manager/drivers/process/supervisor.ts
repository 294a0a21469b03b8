import type { ComponentEvent, ComponentExit, ComponentObservation, ComponentState } from '../driver.ts';
import { keepsExiting, takenOver } from '../errors.ts';
import { becomesReady, describeExit, exitsUntilFailed, healthyAfterMs, readyInTime } from '../readiness.ts';
import { componentOf } from '../slots.ts';
import {
  ComponentProcess,
  type ComponentProcessOptions,
  type ProcessSpec,
  type RunningProcess,
} from './component-process.ts';
import { keepLogSmall, tail } from './logs.ts';

const firstPauseMs = 500;
const longestPauseMs = 30_000;
const linesInErrors = 12;

interface SupervisorOptions extends ComponentProcessOptions {
  emit: (what: ComponentEvent) => void;
}

/** Keeps one component running. All calls come from one task at a time. */
export class Supervisor {
  readonly #o: SupervisorOptions;
  readonly #where: { id: string; component: string };
  readonly #process: ComponentProcess;
  #dependsOn: readonly string[] = [];
  /** Runs while the component is to be kept alive. */
  #loop: { abort: AbortController; done: Promise<void> } | undefined;
  #state: ComponentState = 'stopped';
  #restarts = 0;
  #lastExit: ComponentExit | undefined;
  /** Why it is not ready yet. */
  #problem = 'it has not started';
  /** What `ensure` waits for; replaced with each loop. */
  #outcome = Promise.withResolvers<void>();

  constructor(options: SupervisorOptions) {
    this.#o = options;
    this.#where = { id: options.id, component: componentOf(options.name) };
    this.#process = new ComponentProcess(options);
  }

  get dependsOn(): readonly string[] {
    return this.#dependsOn;
  }

  /** Makes it run as the target says and waits until it is ready. */
  async ensure(target: ProcessSpec, signal: AbortSignal): Promise<void> {
    await this.#leaveLoop();
    await this.#process.prepare(target, signal);
    this.#dependsOn = target.component.dependsOn;
    this.#restarts = 0;
    this.#outcome = Promise.withResolvers<void>();
    // A waiter gets the error from its own branch; without a waiter it is in `observe`.
    this.#outcome.promise.catch(() => undefined);
    const abort = new AbortController();
    this.#loop = { abort, done: this.#keepRunning(target, abort.signal) };
    const { clock } = this.#o;
    await readyInTime(this.#outcome.promise, {
      ...{ component: target.component, where: this.#where, clock, signal },
      problem: () => this.#problem,
      tail: () => this.#tail(),
    });
  }

  /** Ends it; `timeoutMs` in place of the plan's. It may never have been started from here. */
  async stop(marked: readonly number[], signal: AbortSignal, timeoutMs?: number): Promise<void> {
    await this.#leaveLoop();
    await this.#process.stop(marked, signal, timeoutMs);
    this.#state = 'stopped';
  }

  /** Looks away and lets it be. */
  async release(): Promise<void> {
    await this.#leaveLoop();
    this.#process.release();
  }

  observe(): ComponentObservation {
    const { current } = this.#process;
    return {
      name: this.#where.component,
      state: this.#state,
      pid: current?.identity.pid,
      startedAt: current?.startedAt,
      restarts: this.#restarts,
      lastExit: this.#lastExit,
    };
  }

  async #leaveLoop(): Promise<void> {
    this.#loop?.abort.abort();
    await this.#loop?.done;
    this.#loop = undefined;
  }

  /** Runs until aborted; a process that runs then goes on. */
  async #keepRunning(target: ProcessSpec, signal: AbortSignal): Promise<void> {
    let exits = 0;
    while (!signal.aborted) {
      try {
        if (!(await this.#process.isStillOurs())) return this.#standDown();
        const running = this.#process.current ?? (await this.#start(target));
        const exit = await this.#whileItRuns(target, running, signal);
        if (exit === undefined) return;
        if (exit.at.getTime() - running.startedAt.getTime() >= healthyAfterMs) exits = 0;
        exits++;
        await this.#noteExit(exit, exits);
      } catch (error) {
        // One that cannot even be started counts as one that exits at once.
        if (this.#state === 'starting') exits++;
        this.#state = 'failed';
        this.#outcome.reject(error);
      }
      const pause = Math.min(longestPauseMs, firstPauseMs * 2 ** (exits - 1));
      await this.#o.clock.sleep(pause, signal).catch(() => undefined);
      if (!signal.aborted) this.#restarts++;
    }
  }

  #standDown(): void {
    this.#process.release();
    this.#state = 'stopped';
    this.#outcome.reject(takenOver(this.#where));
  }

  async #start(target: ProcessSpec): Promise<RunningProcess> {
    this.#state = 'starting';
    const started = await this.#process.start(target);
    this.#o.emit('started');
    return started;
  }

  /** Throws when it has happened too often. */
  async #noteExit(exit: ComponentExit, exits: number): Promise<void> {
    this.#lastExit = exit;
    this.#state = exits < exitsUntilFailed ? 'starting' : 'failed';
    this.#problem = `it exited (${describeExit(exit)})`;
    this.#process.release();
    this.#o.emit('exited');
    if (exits < exitsUntilFailed) return;
    throw keepsExiting(this.#where, exits, describeExit(exit), await this.#tail());
  }

  /** Resolves when it has exited, or to undefined when aborted. */
  async #whileItRuns(
    target: ProcessSpec,
    running: RunningProcess,
    signal: AbortSignal,
  ): Promise<ComponentExit | undefined> {
    const over = new AbortController();
    const aborted = new Promise<undefined>((resolve) => {
      signal.addEventListener('abort', () => resolve(undefined), { once: true, signal: over.signal });
      if (signal.aborted) resolve(undefined);
    });
    const { clock } = this.#o;
    const whileRunning = AbortSignal.any([signal, over.signal]);
    const besides = [
      this.#becomeReady(target, running, whileRunning),
      keepLogSmall(this.#log, clock, whileRunning),
    ];
    try {
      return await Promise.race([running.exited, aborted]);
    } finally {
      over.abort();
      await Promise.all(besides);
    }
  }

  async #becomeReady(target: ProcessSpec, running: RunningProcess, signal: AbortSignal): Promise<void> {
    const { clock, place, name } = this.#o;
    const onProblem = (problem: string): void => {
      this.#problem = problem;
    };
    const isReady = await becomesReady({
      ...{ component: target.component, startedAt: running.startedAt, files: place.files(name) },
      ...{ clock, signal, onProblem },
    });
    if (!isReady) return;
    this.#state = 'running';
    this.#outcome.resolve();
    this.#o.emit('ready');
  }

  async #tail(): Promise<string[]> {
    return (await tail(this.#log, linesInErrors)).lines;
  }

  get #log(): string {
    return this.#o.place.log(this.#where.component);
  }
}
