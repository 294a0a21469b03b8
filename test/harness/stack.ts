import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { execa } from 'execa';
import type { RunResult } from './cluster.ts';
import { identify, isAlive, kill, type ProcessIdentity, processesOf } from './processes.ts';

/** The stack that all suites share, as global-setup.ts hands it on. Plain data: it crosses a process border. */
export interface StackInfo {
  readonly stateDir: string;
  /** Admin's, for the super cluster. */
  readonly superKubeconfig: string;
  readonly kubectl: string;
}

declare module 'vitest' {
  interface ProvidedContext {
    stack: StackInfo;
  }
}

const script = fileURLToPath(new URL('../../bin/vc-manager.js', import.meta.url));

export interface CliOptions {
  env?: Record<string, string>;
  /** Default: later than the five minutes after which a command that waits says what did not come. */
  timeoutMs?: number;
}

/** Runs `vc-manager` as a user would, about the stack of a state directory. Never throws for an exit code. */
export async function runCli(
  stateDir: string,
  args: readonly string[],
  { env = {}, timeoutMs = 330_000 }: CliOptions = {},
): Promise<RunResult> {
  const result = await execa(process.execPath, [script, ...args], {
    reject: false,
    timeout: timeoutMs,
    stdin: 'ignore',
    env: { ...process.env, KUBECONFIG: '', NO_COLOR: '1', NODE_OPTIONS: '', SKERRY_STATE: stateDir, ...env },
    extendEnv: false,
  });
  const { stdout, stderr, exitCode = -1 } = result;
  return { stdout, stderr: result.timedOut ? `${stderr}\n(killed after ${timeoutMs} ms)` : stderr, exitCode };
}

/** As `runCli`; throws what it said when it fails. */
export async function cliOutput(stateDir: string, ...args: string[]): Promise<string> {
  const { stdout, stderr, exitCode } = await runCli(stateDir, args);
  if (exitCode !== 0) throw new Error(`vc-manager ${args.join(' ')} ended with ${exitCode}: ${stderr}`);
  return stdout;
}

const prefix = 'skerry-e2e-';

/** A directory of this test run; the next run finds it by the owner that it names, should this one be killed. */
export function makeRunDirectory(): string {
  const directory = mkdtempSync(join(realpathSync(tmpdir()), prefix));
  writeFileSync(join(directory, 'owner.json'), JSON.stringify(identify(process.pid)));
  return directory;
}

export function stateDirOf(runDirectory: string): string {
  return join(runDirectory, 'state');
}

/** Stops what runs in the directory and removes it. Resolves to what `vc-manager down --purge` had left. */
export async function removeRun(runDirectory: string): Promise<string[]> {
  const stateDir = stateDirOf(runDirectory);
  const left: string[] = [];
  if (existsSync(stateDir)) {
    const { exitCode, stderr } = await runCli(stateDir, ['down', '--purge', '--state-dir', stateDir]);
    if (exitCode !== 0) left.push(`"down --purge" ended with ${exitCode}: ${stderr}`);
    if (existsSync(stateDir))
      left.push(`the state directory ${stateDir}: ${readdirSync(stateDir).join(' ')}`);
  }
  for (const [pid, what] of processesOf(stateDir)) left.push(`process ${pid}: ${what}`);
  // Beside the stack's, those of suites that were cut off.
  for (const pid of processesOf(runDirectory).keys()) {
    const process = identify(pid);
    if (process !== undefined) await kill(process);
  }
  rmSync(runDirectory, { recursive: true, force: true });
  return left;
}

/** Cleans up after runs whose process is no more; those of others that run beside us are left alone. */
export async function removeLeftovers(): Promise<void> {
  const root = realpathSync(tmpdir());
  for (const entry of readdirSync(root).filter((name) => name.startsWith(prefix))) {
    const directory = join(root, entry);
    const owner = readOwner(directory);
    if (owner !== undefined && !isAlive(owner)) await removeRun(directory);
  }
}

function readOwner(directory: string): ProcessIdentity | undefined {
  try {
    return JSON.parse(readFileSync(join(directory, 'owner.json'), 'utf8')) as ProcessIdentity;
  } catch {
    return undefined;
  }
}
