import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import type { AttackReply, AttackRequest } from './main.ts';

/** A tenant's flood in a process of its own, from when it has begun until `end`. */
export class AttackerProcess {
  readonly #child: ChildProcess;
  /** Rejects when the flood cannot go on. */
  readonly failed: Promise<never>;

  private constructor(child: ChildProcess) {
    this.#child = child;
    this.failed = new Promise((_, reject) => {
      child.once('error', reject);
      child.once('exit', (code, signal) =>
        reject(new Error(`the flood has ended (${signal ?? `exit code ${code}`})`)),
      );
      child.on('message', (reply: AttackReply) => {
        if (reply !== 'ready') reject(new Error(`flood: ${reply.error}`));
      });
    });
    this.failed.catch(() => undefined);
  }

  static async start(request: AttackRequest): Promise<AttackerProcess> {
    const child = fork(new URL('./main.ts', import.meta.url), {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      serialization: 'advanced',
    });
    const attacker = new AttackerProcess(child);
    const ready = once(child, 'message');
    child.send(request);
    await Promise.race([ready, attacker.failed]);
    return attacker;
  }

  async end(): Promise<void> {
    if (this.#child.connected) this.#child.disconnect();
    await this.failed.catch(() => undefined);
  }
}
