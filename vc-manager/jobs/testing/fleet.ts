import { pino } from 'pino';
import { type Clock, systemClock } from '../../../kube/index.ts';
import { BullmqRunner } from '../bullmq-runner.ts';
import {
  InProcessRunner,
  type Job,
  type JobRun,
  type JobRunner,
  type ReconcileResult,
} from '../job-runner.ts';
import { WorkQueue } from '../work-queue.ts';

export const steps = ['choose', 'start', 'furnish'] as const;

/** Where jobs lie: with the manager itself, or in Redis at that URL. */
export type Backend = { redis: string } | 'in-process';

/** What would stand in the super cluster: all that outlives managers and Redis. */
class Truth {
  readonly done = new Map<string, Set<string>>();
  readonly running = new Map<string, Set<AbortController>>();
  /** Who is at work on a tenant; the next one waits for its end, or for its death. */
  readonly turns = new Map<string, Promise<unknown>>();
}

/** Managers that work on made-up tenants, each of three steps. */
export class Fleet {
  /** `manager/key/step` for each step that was begun. */
  readonly journal: string[] = [];
  readonly truth = new Truth();
  /** The tenant of each job that a manager has taken. */
  readonly taken: string[] = [];
  /** What managers have logged about Redis, with its level, time and message. */
  readonly log: string[] = [];
  /** Awaited in each step; may throw. */
  inStep: (key: string, step: string, signal: AbortSignal) => void | Promise<void> = () => {};
  readonly backend: Backend;
  readonly #managers: Manager[] = [];
  readonly #told = new Set<() => void>();

  constructor(backend: Backend) {
    this.backend = backend;
  }

  manager(options: ManagerOptions = {}): Manager {
    const manager = new Manager(this, `m${this.#managers.length + 1}`, options);
    this.#managers.push(manager);
    return manager;
  }

  note(entry: string): void {
    this.journal.push(entry);
    this.tell();
  }

  noteLog(line: string): void {
    this.log.push(line);
    this.tell();
  }

  tell(): void {
    for (const told of this.#told) told();
  }

  /** Looks whenever anything happens here. */
  async until(what: () => boolean): Promise<void> {
    while (!what()) {
      await new Promise<void>((resolve) => {
        const told = (): void => {
          this.#told.delete(told);
          resolve();
        };
        this.#told.add(told);
      });
    }
  }

  isDone(key: string): boolean {
    return this.truth.done.get(key)?.size === steps.length;
  }

  /** Somebody asks for something else: all managers see it. */
  change(key: string): void {
    this.truth.done.delete(key);
    const changed = new DOMException('changed', 'AbortError');
    for (const controller of this.truth.running.get(key) ?? []) controller.abort(changed);
    for (const manager of this.#managers) manager.queue?.interrupt(key);
  }

  async end(): Promise<void> {
    await Promise.all(this.#managers.map((manager) => manager.stop()));
  }
}

interface ManagerOptions {
  parallel?: number;
  /** Of the queue of what is wanted, with its pauses. */
  clock?: Clock;
  url?: string;
  /** Default: so patient that a busy machine is not taken for a Redis that is lost. */
  patienceMs?: number;
  /** After which a job of a manager that is gone goes to another one. Default: as patient as that. */
  lockMs?: number;
}

export class Manager {
  readonly name: string;
  readonly runner: JobRunner;
  queue: WorkQueue | undefined;
  readonly #fleet: Fleet;
  readonly #clock: Clock;
  readonly #life = new AbortController();
  #working: Promise<void> = Promise.resolve();
  #leading: Promise<void> = Promise.resolve();
  #isDead = false;

  constructor(fleet: Fleet, name: string, options: ManagerOptions) {
    const { parallel = 2, clock = systemClock, url, patienceMs = 60_000, lockMs = 60_000 } = options;
    this.name = name;
    this.#fleet = fleet;
    this.#clock = clock;
    const handle = (job: Job, run: JobRun): Promise<ReconcileResult> => this.#handle(job, run);
    const { backend } = fleet;
    this.runner =
      backend === 'in-process'
        ? new InProcessRunner({ handle, parallel })
        : new BullmqRunner({
            url: url ?? backend.redis,
            queueName: 'skerry-test',
            identity: name,
            handle,
            parallel,
            clock: systemClock,
            logger: pino({}, { write: (line) => fleet.noteLog(line) }),
            patienceMs,
            lockMs,
            checkMs: 100,
          });
    if (backend !== 'in-process') this.#working = this.runner.work(this.#life.signal);
  }

  /** Decides from now on what is wanted: these. */
  lead(...keys: string[]): void {
    this.queue = new WorkQueue({
      parallel: this.runner.parallel,
      clock: this.#clock,
      random: () => 0,
      minBackoffMs: 100,
      onError: (_key, error) => {
        throw error;
      },
      handle: (key, signal, before) =>
        this.runner.run({ key, uid: `uid-${key}`, kind: 'provision', ...before }, signal),
    });
    for (const key of keys) this.queue.add(key);
    this.#leading = this.queue.run(this.#life.signal);
  }

  /** Without a word to anybody: it only ends. */
  async kill(): Promise<void> {
    this.#isDead = true;
    await this.stop();
  }

  async stop(): Promise<void> {
    this.#life.abort();
    await this.#working;
    // What the dead do never ends.
    if (!this.#isDead) await this.#leading;
    await this.runner.close();
  }

  async #handle({ key }: Job, { signal, onStep }: JobRun): Promise<ReconcileResult> {
    const { truth } = this.#fleet;
    this.#fleet.taken.push(key);
    this.#fleet.tell();
    const controller = new AbortController();
    const running = truth.running.get(key) ?? new Set();
    truth.running.set(key, running.add(controller));
    const either = AbortSignal.any([signal, controller.signal]);
    const before = truth.turns.get(key);
    const work = (async (): Promise<ReconcileResult> => {
      await before;
      either.throwIfAborted();
      return this.#steps(key, either, onStep);
    })();
    truth.turns.set(
      key,
      work.catch(() => undefined),
    );
    try {
      return await work;
    } catch (error) {
      if (this.#isDead) return await new Promise(() => {});
      throw error;
    } finally {
      running.delete(controller);
      this.#fleet.tell();
    }
  }

  async #steps(key: string, signal: AbortSignal, onStep: JobRun['onStep']): Promise<ReconcileResult> {
    const done = this.#fleet.truth.done.get(key) ?? new Set();
    this.#fleet.truth.done.set(key, done);
    for (const step of steps) {
      if (done.has(step)) continue;
      onStep?.({ name: step, doing: `to ${step}` });
      this.#fleet.note(`${this.name}/${key}/${step}`);
      try {
        await Promise.race([this.#fleet.inStep(key, step, signal), rejectedWith(signal)]);
      } catch (error) {
        signal.throwIfAborted();
        if (error instanceof Error && error.message === 'fails') return { kind: 'failed' };
        throw error;
      }
      signal.throwIfAborted();
      done.add(step);
      this.#fleet.tell();
    }
    return { kind: 'done' };
  }
}

function rejectedWith(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    if (signal.aborted) reject(signal.reason);
    else signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}
