import { z } from 'zod';
import type { Clock } from '../../../kube/index.ts';
import type { ComponentEvent, ComponentExit, ComponentListener } from '../driver.ts';
import { keepsExiting } from '../errors.ts';
import { becomesReady, describeExit, exitsUntilFailed, healthyAfterMs, readyInTime } from '../readiness.ts';
import { componentOf } from '../slots.ts';
import { type ContainerSpec, labels } from './compose-file.ts';
import type { Docker } from './docker.ts';

const schema = z.object({
  Action: z.string(),
  timeNano: z.number(),
  Actor: z.object({ ID: z.string(), Attributes: z.record(z.string(), z.string()) }),
});

const reconnectPauseMs = 1_000;

export interface EngineEvent {
  id: string;
  /** Its slot. */
  component: string;
  /** `died`: it ended without a stop request. */
  what: 'started' | 'died';
  at: Date;
  exitCode?: number | undefined;
}

/**
 * Tells what happens to the containers of components, in order, each event once, also over times in which the engine
 * does not answer. An end that was requested of the engine is not reported.
 */
export async function followEngine(
  docker: Pick<Docker, 'lines'>,
  options: { clock: Clock; signal: AbortSignal; tell: (event: EngineEvent) => void },
): Promise<void> {
  const { clock, signal, tell } = options;
  let since = (clock.now() / 1000).toFixed(3);
  let last = 0;
  /** What came before is known from the connection before. */
  let told = 0;
  /** Containers that were told to end and have not been started since. */
  const asked = new Set<string>();
  while (!signal.aborted) {
    const args = ['events', '--format', '{{json .}}', '--since', since, '--filter', 'type=container'];
    try {
      for await (const line of docker.lines([...args, '--filter', `label=${labels.component}`], signal)) {
        const event = parse(line);
        // A new connection asks for the last moment again.
        if (event === undefined || event.timeNano <= told) continue;
        last = event.timeNano;
        const news = understand(event, asked);
        if (news !== undefined) tell(news);
      }
    } catch (error) {
      if (!signal.aborted && (error as { code?: unknown }).code !== 'EngineUnavailable') throw error;
    }
    told = last;
    if (last > 0) since = (Math.floor(last / 1e6) / 1000).toFixed(3);
    // There is no event for an engine that comes back.
    await clock.sleep(reconnectPauseMs, signal).catch(() => undefined);
  }
}

function understand(
  { Action, timeNano, Actor }: z.infer<typeof schema>,
  asked: Set<string>,
): EngineEvent | undefined {
  const { [labels.id]: id, [labels.component]: component, exitCode, signal } = Actor.Attributes;
  if (id === undefined || component === undefined) return undefined;
  const at = new Date(timeNano / 1e6);
  switch (Action) {
    case 'kill':
      // Other signals are messages.
      if (signal === '15' || signal === '9') asked.add(Actor.ID);
      return undefined;
    case 'start':
      asked.delete(Actor.ID);
      return { id, component, what: 'started', at };
    case 'die':
      if (asked.has(Actor.ID)) return undefined;
      return {
        id,
        component,
        what: 'died',
        at,
        exitCode: exitCode === undefined ? undefined : Number(exitCode),
      };
    case 'destroy':
      asked.delete(Actor.ID);
      return undefined;
    default:
      return undefined;
  }
}

function parse(line: string): z.infer<typeof schema> | undefined {
  try {
    return schema.parse(JSON.parse(line));
  } catch {
    // What the command says when it cannot connect.
    return undefined;
  }
}

interface ComponentWatchOptions {
  id: string;
  /** Its slot. */
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
  #target: ContainerSpec | undefined;
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
  /** The container and the share of processors that the engine has refused to it, which has been told. */
  refusedShare: string | undefined;

  constructor(options: ComponentWatchOptions) {
    this.#o = options;
    this.#where = { id: options.id, component: componentOf(options.component) };
  }

  get state(): 'starting' | 'running' | 'failed' {
    return this.#state;
  }

  get lastExit(): ComponentExit | undefined {
    return this.#lastExit;
  }

  /** It runs already. */
  adopt(target: ContainerSpec, startedAt: Date): void {
    this.#begin(target);
    this.#awaitReadiness(startedAt);
  }

  /** It is about to be started; from now on its events count. */
  expectStart(target: ContainerSpec): void {
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
    const exit = { at, code: exitCode };
    void this.#exited(exit);
  }

  /** Until it is ready; rejects when it keeps exiting or is not ready in time. */
  ready(signal: AbortSignal): Promise<void> {
    const { clock, tail } = this.#o;
    return readyInTime(this.#outcome.promise, {
      ...{ component: this.#target?.component, where: this.#where, clock, signal, tail },
      problem: () => this.#problem,
    });
  }

  /** Looks away. */
  end(): void {
    this.#readiness?.abort();
    this.#target = undefined;
  }

  #begin(target: ContainerSpec): void {
    this.#target = target;
    this.#since = this.#o.clock.now();
    this.#exits = 0;
    this.#state = 'starting';
    this.#problem = 'it has not started';
    this.#toldStart = false;
    this.#outcome = Promise.withResolvers<void>();
    // A waiter gets the error from its own branch; without a waiter it is in `observe`.
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
    if (!(await becomesReady({ component, startedAt, files: read, clock, signal, onProblem }))) return;
    this.#state = 'running';
    this.#outcome.resolve();
    this.#o.emit('ready');
  }
}

interface WatchesOptions {
  clock: Clock;
  emit: ComponentListener;
  tail: (id: string, component: string) => Promise<string[]>;
}

/** One watch for each component that a driver has made sure of; other containers of the engine are ignored. */
export class Watches {
  readonly #o: WatchesOptions;
  readonly #byId = new Map<string, Map<string, ComponentWatch>>();

  constructor(options: WatchesOptions) {
    this.#o = options;
  }

  find(id: string, component: string): ComponentWatch | undefined {
    return this.#byId.get(id)?.get(component);
  }

  /** Makes it where there is none. */
  get(id: string, component: string): ComponentWatch {
    const watches = this.#byId.get(id) ?? new Map<string, ComponentWatch>();
    this.#byId.set(id, watches);
    let watch = watches.get(component);
    if (watch === undefined) {
      const { clock, emit, tail } = this.#o;
      watch = new ComponentWatch({
        id,
        component,
        clock,
        emit: (what) => emit(id, componentOf(component), what),
        tail: () => tail(id, component),
      });
      watches.set(component, watch);
    }
    return watch;
  }

  onEvent(event: EngineEvent): void {
    this.find(event.id, event.component)?.onEvent(event);
  }

  /** Looks away from one, and forgets what it knew. */
  end(id: string, component: string): void {
    const watches = this.#byId.get(id);
    watches?.get(component)?.end();
    watches?.delete(component);
    if (watches?.size === 0) this.#byId.delete(id);
  }

  close(): void {
    for (const watches of this.#byId.values()) for (const watch of watches.values()) watch.end();
    this.#byId.clear();
  }
}
