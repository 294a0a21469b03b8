import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync } from 'node:fs';
import type { ComponentExit } from '../driver.ts';
import { openLog } from './log-file.ts';

export interface SpawnRequest {
  command: string;
  args: readonly string[];
  env: Record<string, string>;
  cwd: string;
  logFile: string;
}

/** A process that was started just now. */
export interface Spawned {
  pid: number;
  /** Settles when it has ended, unless `release` was called before; rejects when nobody will tell. */
  exited: Promise<Omit<ComponentExit, 'at'>>;
  release(): void;
}

/**
 * Starts a program in a session of its own, so that it outlives the manager and its terminal. Rejects when it cannot be
 * executed.
 */
export type Spawn = (request: SpawnRequest) => Promise<Spawned>;

/** As a child of this process. */
export async function spawnChild(request: SpawnRequest): Promise<Spawned> {
  const log = openLog(request.logFile);
  let child: ChildProcess;
  try {
    child = spawn(request.command, request.args, {
      cwd: request.cwd,
      env: request.env,
      detached: true,
      stdio: ['ignore', log, log],
    });
  } finally {
    closeSync(log);
  }
  const { promise, resolve } = Promise.withResolvers<Omit<ComponentExit, 'at'>>();
  child.on('exit', (code, signal) => {
    resolve({ ...(code === null ? {} : { code }), ...(signal === null ? {} : { signal }) });
  });
  child.unref();
  const { pid } = child;
  if (pid === undefined) {
    const failed = Promise.withResolvers<never>();
    child.once('error', failed.reject);
    return failed.promise;
  }
  child.on('error', () => undefined);
  return { pid, exited: promise, release: () => child.removeAllListeners('exit') };
}
