import { type ChildProcess, fork } from 'node:child_process';
import type { Reply, RequestName, Requests } from './protocol.ts';

// A larger young generation makes collecting many short-lived objects cheaper.
const execArgv = [...process.execArgv, '--max-semi-space-size=32'];

/** The load generator in its own process. One request at a time. */
export class GeneratorProcess {
  readonly #child: ChildProcess;
  readonly #ended: Promise<never>;

  constructor() {
    this.#child = fork(new URL('./main.ts', import.meta.url), {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      execArgv,
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

  async request<Name extends RequestName>(
    name: Name,
    request: Requests[Name]['request'],
    signal: AbortSignal,
  ): Promise<Requests[Name]['response']> {
    signal.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<Reply>();
    const aborted = (): void => reject(signal.reason);
    signal.addEventListener('abort', aborted, { once: true });
    this.#child.once('message', resolve);
    this.#child.send({ do: name, ...request });
    try {
      const reply = await Promise.race([promise, this.#ended]);
      if ('error' in reply) throw new Error(`load generator: ${reply.error}`);
      return reply.result;
    } finally {
      this.#child.off('message', resolve);
      signal.removeEventListener('abort', aborted);
    }
  }

  async end(): Promise<void> {
    if (this.#child.connected) this.#child.disconnect();
    await this.#ended.catch(() => undefined);
  }
}
