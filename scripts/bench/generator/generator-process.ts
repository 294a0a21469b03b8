import { type ChildProcess, fork } from 'node:child_process';
import type { Answer, Load, Request, RunResult, Target } from './protocol.ts';

/** The load generator in its own process. One request at a time. */
export class GeneratorProcess {
  readonly #child: ChildProcess;
  readonly #ended: Promise<never>;

  constructor() {
    this.#child = fork(new URL('./main.ts', import.meta.url), {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    this.#ended = new Promise((_, reject) => {
      this.#child.once('error', reject);
      this.#child.once('exit', (code, signal) =>
        reject(new Error(`the load generator has ended (${signal ?? `exit code ${code}`})`)),
      );
    });
    this.#ended.catch(() => undefined);
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  async open(targets: readonly Target[], signal: AbortSignal): Promise<void> {
    await this.#ask({ do: 'open', targets: [...targets] }, signal);
  }

  /** Runs all loads at once. Pod names begin with `podPrefix`. */
  async run(
    options: { podPrefix: string; loads: readonly Load[]; timeoutMs: number },
    signal: AbortSignal,
  ): Promise<RunResult> {
    const result = await this.#ask({ do: 'run', ...options, loads: [...options.loads] }, signal);
    if (result === null) throw new Error('the load generator gave no result');
    return result;
  }

  /** Deletes all pods that the targets have, and waits until they are gone. */
  async clear(timeoutMs: number, signal: AbortSignal): Promise<void> {
    await this.#ask({ do: 'clear', timeoutMs }, signal);
  }

  async end(): Promise<void> {
    if (this.#child.connected) this.#child.disconnect();
    await this.#ended.catch(() => undefined);
  }

  async #ask(request: Request, signal: AbortSignal): Promise<RunResult | null> {
    signal.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    const aborted = (): void => reject(signal.reason);
    signal.addEventListener('abort', aborted, { once: true });
    this.#child.once('message', resolve);
    this.#child.send(request);
    try {
      const answer = await Promise.race([promise, this.#ended]);
      if ('error' in answer) throw new Error(`load generator: ${answer.error}`);
      return answer.result;
    } finally {
      this.#child.off('message', resolve);
      signal.removeEventListener('abort', aborted);
    }
  }
}
