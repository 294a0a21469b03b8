import { fileURLToPath } from 'node:url';
import { execa } from 'execa';
import type { RunResult } from './cluster.ts';

const script = fileURLToPath(new URL('../../bin/vc-manager.js', import.meta.url));

export interface CliOptions {
  env?: Record<string, string>;
  timeoutMs?: number;
}

/** Runs `vc-manager` as a user would, about the stack of a state directory. Never throws for an exit code. */
export async function runCli(
  stateDir: string,
  args: readonly string[],
  { env = {}, timeoutMs = 290_000 }: CliOptions = {},
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
