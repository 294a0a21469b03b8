import { readFile as readText } from 'node:fs/promises';
import { Agent as HttpAgent, request as httpRequest } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { join } from 'node:path';
import type { Clock } from '../../kube/index.ts';
import type { ComponentPlan, PlanProbe } from '../control-plane/plan.ts';
import type { ComponentExit } from './driver.ts';
import { notReady } from './errors.ts';

/** So many exits in a row, each after less than `healthyAfterMs`, are reported as a failure. */
export const exitsUntilFailed = 5;
export const healthyAfterMs = 60_000;

export function describeExit(exit: ComponentExit): string {
  if (exit.signal !== undefined) return exit.signal;
  return exit.code === undefined ? 'exit status unknown' : `exit code ${exit.code}`;
}

const attemptTimeoutMs = 5000;

/** Content of a component's file by the path that the plan gives it; rejects when there is none. */
type ReadFile = (path: string) => Promise<string>;

/** Asks one component how it is, over and over on one connection: a handshake costs both sides more than the question. */
export class Probe {
  readonly #probe: PlanProbe;
  readonly #agent: HttpAgent | HttpsAgent;
  /** Why files of it could not be read. */
  readonly #unread: readonly string[];

  private constructor(probe: PlanProbe, agent: HttpAgent | HttpsAgent, unread: readonly string[]) {
    this.#probe = probe;
    this.#agent = agent;
    this.#unread = unread;
  }

  /**
   * `files` is their directory, or how they are read. Never rejects: files that cannot be read are as if the plan did
   * not name them, and the answer to `ask` says so.
   */
  static async open(probe: PlanProbe, files: string | ReadFile): Promise<Probe> {
    const readFile: ReadFile =
      typeof files === 'string' ? (name) => readText(join(files, name), 'utf8') : files;
    const unread: string[] = [];
    const read = async (name: string | undefined): Promise<string | undefined> =>
      name === undefined
        ? undefined
        : readFile(name).catch((error: Error) => {
            unread.push(error.message);
            return undefined;
          });
    const [ca, cert, key] = await Promise.all([
      read(probe.caFile),
      read(probe.certFile),
      read(probe.keyFile),
    ]);
    const keepAlive = { keepAlive: true, maxSockets: 1 };
    const agent =
      probe.scheme === 'https' ? new HttpsAgent({ ...keepAlive, ca, cert, key }) : new HttpAgent(keepAlive);
    return new Probe(probe, agent, unread);
  }

  /**
   * Asks once. Resolves to undefined when the answer was a success, else to why not, in a few words.
   * Never rejects, except when aborted.
   */
  async ask(signal: AbortSignal): Promise<string | undefined> {
    const problem = await this.#ask(signal);
    return problem === undefined ? undefined : [problem, ...this.#unread].join('; ');
  }

  async #ask(signal: AbortSignal): Promise<string | undefined> {
    const { path } = this.#probe;
    try {
      const status = await this.#get(signal);
      return status >= 200 && status < 300 ? undefined : `${path} answered ${status}`;
    } catch (error) {
      signal.throwIfAborted();
      const { code, message } = error as NodeJS.ErrnoException;
      return code === 'ECONNREFUSED' ? 'it does not listen yet' : message || (code ?? 'no answer');
    }
  }

  close(): void {
    this.#agent.destroy();
  }

  #get(signal: AbortSignal): Promise<number> {
    const { scheme, host, port, path } = this.#probe;
    return new Promise((resolve, reject) => {
      const target = { host, port, path, signal, timeout: attemptTimeoutMs, agent: this.#agent };
      const request = scheme === 'https' ? httpsRequest(target) : httpRequest(target);
      request.on('timeout', () =>
        request.destroy(new Error(`no answer within ${attemptTimeoutMs / 1000} s`)),
      );
      request.on('error', reject);
      request.on('response', (response) => {
        response.resume();
        response.on('error', reject);
        response.on('end', () => resolve(response.statusCode ?? 0));
      });
      request.end();
    });
  }
}

const defaultReadyTimeoutMs = 60_000;

interface ReadyInTimeOptions {
  component: Pick<ComponentPlan, 'probe'> | undefined;
  where: { id: string; component: string };
  clock: Clock;
  signal: AbortSignal;
  /** Why it is not ready yet. */
  problem: () => string;
  /** The last lines of its log. */
  tail: () => Promise<string[]>;
}

/** Settles as `outcome` does; rejects with `NotReady` when that takes longer than the probe allows. */
export async function readyInTime(outcome: Promise<void>, options: ReadyInTimeOptions): Promise<void> {
  const { component, where, clock, signal, problem, tail } = options;
  const timeoutMs = component?.probe?.timeoutMs ?? defaultReadyTimeoutMs;
  const waiting = new AbortController();
  const late = clock
    .sleep(timeoutMs, AbortSignal.any([signal, waiting.signal]))
    .then(async () => Promise.reject(notReady(where, timeoutMs, problem(), await tail())));
  try {
    await Promise.race([outcome, late]);
  } finally {
    waiting.abort();
    late.catch(() => undefined);
  }
}

/** How long a component without a probe must stay up to count as ready. */
const minReadyMs = 500;

interface UntilReadyOptions {
  component: Pick<ComponentPlan, 'probe'>;
  startedAt: Date;
  /** The directory of its files, or how those that the probe names are read. */
  files: string | ReadFile;
  clock: Clock;
  signal: AbortSignal;
  /** Told each time it is not ready yet, in a few words. */
  onProblem: (problem: string) => void;
}

/** Resolves to true when the component is ready, however long that takes; to false when it cannot be probed, or when aborted. */
export async function becomesReady(options: UntilReadyOptions): Promise<boolean> {
  try {
    await untilReady(options);
  } catch (error) {
    if (!options.signal.aborted) options.onProblem(`it cannot be asked how it is: ${String(error)}`);
    return false;
  }
  return !options.signal.aborted;
}

async function untilReady(options: UntilReadyOptions): Promise<void> {
  const { component, startedAt, clock, signal } = options;
  if (component.probe === undefined) {
    const age = clock.now() - startedAt.getTime();
    if (age < minReadyMs) await clock.sleep(minReadyMs - Math.max(0, age), signal);
    return;
  }
  const start = clock.monotonic();
  const prober = await Probe.open(component.probe, options.files);
  try {
    for (;;) {
      const problem = await prober.ask(signal);
      if (problem === undefined) return;
      options.onProblem(problem);
      await clock.sleep(pauseMs(clock.monotonic() - start), signal);
    }
  } finally {
    prober.close();
  }
}

/** What has just been started is probed often; what has not come up for long, less often. */
function pauseMs(waitedMs: number): number {
  if (waitedMs < 10_000) return 50;
  return waitedMs < 30_000 ? 250 : 1_000;
}
