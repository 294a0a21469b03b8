import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream, type WriteStream } from 'node:fs';
import { join } from 'node:path';

const program = join(import.meta.dirname, '..', '..', '..', 'bin', 'vc-manager.js');

/** `vc-manager operator` as a process of its own, which tests end as they like. */
export class KubernetesManager {
  readonly #child: ChildProcess;
  readonly #log: WriteStream;
  readonly #exited: Promise<unknown>;

  constructor(args: readonly string[], logFile: string) {
    this.#log = createWriteStream(logFile, { flags: 'a' });
    this.#child = spawn(process.execPath, [program, 'operator', ...args], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, NODE_OPTIONS: '' },
    });
    this.#child.stdout?.pipe(this.#log, { end: false });
    this.#child.stderr?.pipe(this.#log, { end: false });
    this.#exited = once(this.#child, 'exit');
  }

  async end(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      this.#child.kill(signal);
      await this.#exited;
    }
    this.#log.end();
  }
}
