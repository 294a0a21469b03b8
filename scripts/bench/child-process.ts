import { type ChildProcess, type ForkOptions, fork } from 'node:child_process';
import { once } from 'node:events';
import type { AttackReply, AttackRequest } from './attacker/main.ts';
import type { Reply, RequestName, Requests } from './generator/protocol.ts';

/** A program of the benchmarks in a process of its own, until `end`. */
class BenchProcess {
  protected readonly child: ChildProcess;
  readonly #failed = Promise.withResolvers<never>();

  /** `what`: how messages call it. */
  constructor(what: string, program: string, options: ForkOptions = {}) {
    this.child = fork(new URL(program, import.meta.url), {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      ...options,
    });
    this.failed.catch(() => undefined);
    this.child.once('error', (error) => this.fail(error));
    this.child.once('exit', (code, signal) =>
      this.fail(new Error(`${what} has ended (${signal ?? `exit code ${code}`})`)),
    );
  }

  /** Rejects when it has ended, or cannot go on. */
  get failed(): Promise<never> {
    return this.#failed.promise;
  }

  protected fail(error: Error): void {
    this.#failed.reject(error);
  }

  async end(): Promise<void> {
    if (this.child.connected) this.child.disconnect();
    await this.failed.catch(() => undefined);
  }
}

/** A tenant's flood, from when it has begun. */
export class AttackerProcess extends BenchProcess {
  private constructor() {
    super('the flood', './attacker/main.ts', { serialization: 'advanced' });
    this.child.on('message', (reply: AttackReply) => {
      if (reply !== 'ready') this.fail(new Error(`flood: ${reply.error}`));
    });
  }

  static async start(request: AttackRequest): Promise<AttackerProcess> {
    const attacker = new AttackerProcess();
    const ready = once(attacker.child, 'message');
    attacker.child.send(request);
    await Promise.race([ready, attacker.failed]);
    return attacker;
  }
}

// A larger young generation makes collecting many short-lived objects cheaper.
const execArgv = [...process.execArgv, '--max-semi-space-size=32'];

/** The load generator. One request at a time. */
export class GeneratorProcess extends BenchProcess {
  constructor() {
    super('the load generator', './generator/main.ts', { execArgv });
  }

  get pid(): number {
    return this.child.pid ?? 0;
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
    this.child.once('message', resolve);
    this.child.send({ do: name, ...request });
    try {
      const reply = await Promise.race([promise, this.failed]);
      if ('error' in reply) throw new Error(`load generator: ${reply.error}`);
      return reply.result;
    } finally {
      this.child.off('message', resolve);
      signal.removeEventListener('abort', aborted);
    }
  }
}
