import { spawn } from 'node:child_process';
import { closeSync, mkdirSync, openSync, renameSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../../../program/package-root.ts';
import type { Cli } from '../context.ts';
import { BackgroundFailure, CliError } from '../errors.ts';
import type { Progress, Step } from '../progress.ts';
import { claimStateDirectory } from '../state-directory.ts';
import type { UpSummary } from './summary.ts';

/** What the supervisor in the background sends to the process that started it. */
type SupervisorMessage =
  | { type: 'step'; id: number; title: string; lineMs?: number }
  | { type: 'update'; id: number; message: string }
  | { type: 'done' | 'fail'; id: number; message?: string }
  | { type: 'note'; message: string }
  | { type: 'ready'; summary: UpSummary }
  | { type: 'failed'; message: string; exitCode: number };

const largestLogBytes = 10_000_000;

/**
 * Starts `up` again in a session of its own, shows its progress here, and returns when all is up. Ctrl-C
 * until then stops what was started; afterwards the two processes are independent.
 */
export async function startDetached(
  cli: Cli,
  { stateDir, args, progress }: { stateDir: string; args: readonly string[]; progress: Progress },
): Promise<UpSummary> {
  await claimStateDirectory(stateDir);
  const log = openLog(join(stateDir, 'stack', 'logs'));
  const script = join(packageRoot(), 'bin', 'vc-manager.js');
  const child = spawn(process.execPath, [script, 'up', '--supervised', ...args], {
    detached: true,
    env: { ...cli.env, NO_COLOR: '1' },
    stdio: ['ignore', log.descriptor, log.descriptor, 'ipc'],
  });
  closeSync(log.descriptor);
  cli.onSignal(() => child.kill('SIGTERM'));
  const { promise, resolve, reject } = Promise.withResolvers<UpSummary>();
  const steps = new Map<number, Step>();
  child.on('message', (message) => {
    const ended = relay(message as SupervisorMessage, progress, steps);
    if (ended?.type === 'ready') resolve(ended.summary);
    if (ended?.type === 'failed') reject(new BackgroundFailure(ended.message, ended.exitCode));
  });
  child.on('error', reject);
  child.on('exit', (code, signal) => {
    const how = signal ?? `exit code ${code}`;
    const error =
      code === 0
        ? new CliError('Interrupted', 'stopped before everything was up')
        : new CliError('StartFailed', `the stack could not be started (${how}): see ${log.path}`);
    reject(error);
  });
  try {
    const summary = await promise;
    child.removeAllListeners('exit');
    return summary;
  } finally {
    if (child.connected) child.disconnect();
    child.unref();
  }
}

/** Shows one message; returns it when it ends the wait. */
function relay(
  message: SupervisorMessage,
  progress: Progress,
  steps: Map<number, Step>,
): Extract<SupervisorMessage, { type: 'ready' | 'failed' }> | undefined {
  switch (message.type) {
    case 'step':
      steps.set(message.id, progress.step(message.title, message));
      return undefined;
    case 'update':
      steps.get(message.id)?.update(message.message);
      return undefined;
    case 'done':
    case 'fail':
      steps.get(message.id)?.[message.type](message.message);
      return undefined;
    case 'note':
      progress.note(message.message);
      return undefined;
    case 'ready':
    case 'failed':
      return message;
  }
}

function openLog(directory: string): { path: string; descriptor: number } {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const path = join(directory, 'up.log');
  const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  if (size > largestLogBytes) renameSync(path, `${path}.1`);
  return { path, descriptor: openSync(path, 'a', 0o600) };
}

/** Progress that goes to the log and, while it is connected, to the process that started this one. */
export class RelayedProgress implements Progress {
  readonly #log: Progress;
  readonly #send: (message: SupervisorMessage) => void;
  #lastId = 0;

  constructor(log: Progress, send: (message: SupervisorMessage) => void) {
    this.#log = log;
    this.#send = send;
  }

  step(title: string, options: Parameters<Progress['step']>[1] = {}): Step {
    const id = ++this.#lastId;
    const logged = this.#log.step(title, options);
    this.#send({ type: 'step', id, title, ...options });
    const end = (type: 'done' | 'fail') => (message?: string) => {
      logged[type](message);
      this.#send({ type, id, ...(message === undefined ? {} : { message }) });
    };
    return {
      update: (message) => {
        logged.update(message);
        this.#send({ type: 'update', id, message });
      },
      done: end('done'),
      fail: end('fail'),
    };
  }

  note(message: string): void {
    this.#log.note(message);
    this.#send({ type: 'note', message });
  }

  close(): void {
    this.#log.close();
  }
}

/** Sends to the process that started this one; does nothing when that has ended. */
export function sendToParent(message: SupervisorMessage): void {
  if (process.connected) process.send?.(message, undefined, undefined, () => undefined);
}
