import type { Clock } from '../../../kube/index.ts';
import type { ComponentEvent, ComponentExit } from '../driver.ts';
import { keepsExiting, notReady } from '../errors.ts';
import { describeExit, exitsUntilFailed, healthyAfterMs } from '../exits.ts';
import { untilReady } from '../until-ready.ts';
import type { EngineEvent } from './engine-events.ts';
import type { Target } from './target.ts';

const defaultReadyTimeoutMs = 60_000;

export interface ComponentWatchOptions {
  id: string;
  component: string;
  clock: Clock;
  emit: (what: ComponentEvent) => void;
  /** The last lines of its log, for errors. */
  tail: () => Promise<string[]>;
}

/** Knows of one component what the engine does not: whether it is ready, and that it exits again and again. */
export class ComponentWatch {
  readonly #o: ComponentWatchOptions;
  readonly #where: { id: string; component: string };
  #target: Target | undefined;
  #state: 'starting' | 'running' | 'failed' = 'starting';
  #lastExit: ComponentExit | undefined;
  #problem = 'it has not started';
  /** Exits in a row. */
  #exits = 0;
  /** What happened before is about an earlier container, or was asked for. */
  #since = 0;
  #startedAt: Date | undefined;
  /** The start has been told before the engine's own event of it came. */
  #toldStart = false;
  #readiness: AbortController | undefined;
  #outcome = Promise.withResolvers<void>();
  /** The engine's count at the time when the component was last found well or started. */
  restartsBefore = 0;

  constructor(options: ComponentWatchOptions) {
    this.#o = options;
    this.#where = { id: options.id, component: options.component };
  }

  get state(): 'starting' | 'running' | 'failed' {
    return this.#state;
  }

  get lastExit(): ComponentExit | undefined {
    return this.#lastExit;
  }

  /** It runs already. */
  adopt(target: Target, startedAt: Date): void {
    this.#begin(target);
    this.#awaitReadiness(startedAt);
  }

  /** It is about to be started; from now on its events count. */
  expectStart(target: Target): void {
    this.#begin(target);
    this.#startedAt = undefined;
  }

  /** The engine has started it; its own word of that may still be on the way. */
  hasStarted(): void {
    if (this.#startedAt !== undefined) return;
    this.#toldStart = true;
    this.#started(new Date(this.#o.clock.now()));
  }

  /** What the engine tells of it. */
  onEvent({ what, at, exitCode }: EngineEvent): void {
    if (this.#target === undefined || at.getTime() < this.#since) return;
    if (what === 'started') {
      if (this.#toldStart) this.#toldStart = false;
      else this.#started(at);
      return;
    }
    const exit = { at, ...(exitCode === undefined ? {} : { code: exitCode }) };
    void this.#exited(exit);
  }

  /** Until it is ready; rejects when it keeps exiting or is not ready in time. */
  async ready(signal: AbortSignal): Promise<void> {
    const timeoutMs = this.#target?.component.probe?.timeoutMs ?? defaultReadyTimeoutMs;
    const waiting = new AbortController();
    const late = this.#o.clock
      .sleep(timeoutMs, AbortSignal.any([signal, waiting.signal]))
      .then(async () =>
        Promise.reject(notReady(this.#where, timeoutMs, this.#problem, await this.#o.tail())),
      );
    try {
      await Promise.race([this.#outcome.promise, late]);
    } finally {
      waiting.abort();
      late.catch(() => undefined);
    }
  }

  /** Looks away. */
  end(): void {
    this.#readiness?.abort();
    this.#target = undefined;
  }

  #begin(target: Target): void {
    this.#target = target;
    this.#since = this.#o.clock.now();
    this.#exits = 0;
    this.#state = 'starting';
    this.#problem = 'it has not started';
    this.#toldStart = false;
    this.#outcome = Promise.withResolvers<void>();
    // Whoever waits gets the error from its own branch; without a waiter it is in `observe`.
    this.#outcome.promise.catch(() => undefined);
    this.#readiness?.abort();
  }

  #started(at: Date): void {
    this.#o.emit('started');
    this.#awaitReadiness(at);
  }

  async #exited(exit: ComponentExit): Promise<void> {
    this.#readiness?.abort();
    this.#lastExit = exit;
    this.#problem = `it exited (${describeExit(exit)})`;
    const ranMs = this.#startedAt === undefined ? 0 : exit.at.getTime() - this.#startedAt.getTime();
    if (ranMs >= healthyAfterMs) this.#exits = 0;
    this.#exits++;
    this.#state = this.#exits < exitsUntilFailed ? 'starting' : 'failed';
    this.#o.emit('exited');
    if (this.#exits < exitsUntilFailed) return;
    const { reject } = this.#outcome;
    const exits = this.#exits;
    reject(keepsExiting(this.#where, exits, describeExit(exit), await this.#o.tail().catch(() => [])));
  }

  #awaitReadiness(startedAt: Date): void {
    this.#startedAt = startedAt;
    this.#readiness?.abort();
    const readiness = new AbortController();
    this.#readiness = readiness;
    void this.#becomeReady(startedAt, readiness.signal);
  }

  async #becomeReady(startedAt: Date, signal: AbortSignal): Promise<void> {
    const target = this.#target;
    if (target === undefined) return;
    const { clock } = this.#o;
    const { component, files } = target;
    const read = async (path: string): Promise<string> => {
      const file = files.find((each) => each.path === path);
      if (file === undefined) throw new Error(`${component.name} has no file ${path}`);
      return file.content;
    };
    const onProblem = (problem: string): void => {
      this.#problem = problem;
    };
    try {
      await untilReady({ component, startedAt, files: read, clock, signal, onProblem });
    } catch {
      return;
    }
    if (signal.aborted) return;
    this.#state = 'running';
    this.#outcome.resolve();
    this.#o.emit('ready');
  }
}
