import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { identify, type ProcessIdentity } from '../../harness/processes.ts';

/** Whether somebody listens on a Unix socket. */
export function acceptsConnections(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ path });
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}

/** By it the processes of nodes are found whatever else is lost: the node's directory. */
export const markVariable = 'SKERRY_REAL_NODE';

/**
 * Dies with this process, however that ends: the kernel kills it. So nothing of a node outlives a harness that
 * was killed.
 */
const bound = ['setpriv', '--pdeathsig', 'KILL'] as const;

interface NodeProcessOptions {
  name: string;
  command: readonly string[];
  logFile: string;
  mark: string;
  env?: Readonly<Record<string, string>>;
  /** A line by which it says on its standard output that it has begun. */
  announces?: string;
}

/** A program of a node, with its output in a file. */
export class NodeProcess {
  readonly name: string;
  readonly logFile: string;
  readonly #child: ChildProcess;
  /** Resolves to how it ended. */
  readonly ended: Promise<string>;
  /** Resolves when it has announced itself; rejects when it ends before that. */
  readonly announced: Promise<void>;
  #hasEnded = false;

  constructor({ name, command, logFile, mark, env = {}, announces }: NodeProcessOptions) {
    this.name = name;
    this.logFile = logFile;
    const log = openSync(logFile, 'a', 0o600);
    const [program, ...args] = [...bound, ...command] as [string, ...string[]];
    this.#child = spawn(program, args, {
      stdio: ['ignore', announces === undefined ? log : 'pipe', log],
      env: { ...process.env, ...env, [markVariable]: mark },
    });
    closeSync(log);
    this.ended = new Promise((resolve) => {
      this.#child.once('error', (error) => resolve(error.message));
      this.#child.once('exit', (code, signal) => resolve(signal ?? `exit code ${code}`));
    });
    this.announced = new Promise((resolve, reject) => {
      this.#child.stdout?.on('data', (chunk: Buffer) => {
        if (announces !== undefined && chunk.toString().includes(announces)) resolve();
      });
      void this.ended.then((how) => {
        this.#hasEnded = true;
        reject(new Error(`${name} ended (${how}): ${this.lastWords()}`));
      });
    });
    this.announced.catch(() => undefined);
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  identity(): ProcessIdentity | undefined {
    return identify(this.pid);
  }

  /** The end of its log, for a message. */
  lastWords(lines = 8): string {
    const text = readFileSync(this.logFile, 'utf8').trimEnd().split('\n');
    return text.slice(-lines).join('\n');
  }

  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    if (this.#hasEnded) return;
    this.#child.kill(signal);
    if (this.#child.exitCode === null && this.#child.signalCode === null) await once(this.#child, 'exit');
  }
}
