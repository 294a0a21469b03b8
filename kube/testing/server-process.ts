import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';

interface Start extends SpawnOptions {
  args: readonly string[];
  /** Whether it serves; asked again and again until it does. */
  isUp: () => Promise<boolean>;
}

/** A server program of a test, which may be started again after it was killed. */
export class ServerProcess {
  readonly #program: string;
  #child: ChildProcess | undefined;

  constructor(program: string) {
    this.#program = program;
  }

  /** Resolves when it serves. Throws when it cannot be started, or ends before. */
  async start({ args, isUp, ...options }: Start): Promise<void> {
    const child = spawn(this.#program, args, options);
    await once(child, 'spawn');
    this.#child = child;
    while (child.exitCode === null && child.signalCode === null) {
      if (await isUp()) return;
      await delay(20);
    }
    throw new Error(`${this.#program} has ended with ${child.exitCode ?? child.signalCode}`);
  }

  /** As when its machine fails. */
  async kill(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  }

  /** It stands still from now on: it takes what it is sent, and answers nothing. */
  pause(): void {
    this.#child?.kill('SIGSTOP');
  }

  resume(): void {
    this.#child?.kill('SIGCONT');
  }
}
