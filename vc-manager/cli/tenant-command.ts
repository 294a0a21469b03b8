import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Command } from 'commander';
import { execa } from 'execa';
import type { Cli } from './context.ts';
import { CliError } from './errors.ts';

/** Where the words of another program stand, for those who leave the tenant or "--" out. */
export function afterDashes(example: string): string {
  return `What follows the tenant and "--" is for the other program: vc-manager ${example}`;
}

/** Runs `work`, which looks for the tenant. Where there is no such tenant, and no "--" in the command line, `NotFound` has the hint. */
export async function orSayWhereWordsStand<T>(
  { command, words, hint }: { command: Command; words: readonly string[]; hint: string },
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    // What commander was given is not among its types.
    const { rawArgs = [] } = (command.parent ?? {}) as { rawArgs?: readonly string[] };
    if (!(error instanceof CliError) || error.code !== 'NotFound') throw error;
    if (words.length === 0 || rawArgs.includes('--')) throw error;
    throw new CliError('NotFound', `${error.message}. ${hint}`, { cause: error });
  }
}

/**
 * Runs a command with $KUBECONFIG for one tenant, as if the shell had started it, and ends with its exit code. The
 * kubeconfig lies in a directory that nobody else may enter, and goes with the command.
 */
export async function runWithKubeconfig(
  cli: Cli,
  kubeconfig: string,
  [command = '', ...args]: readonly string[],
): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), 'skerry-kubeconfig-'));
  try {
    const file = join(directory, 'kubeconfig');
    await writeFile(file, kubeconfig, { mode: 0o600 });
    // Tests capture what a terminal shows.
    const isOurs = cli.stdout === process.stdout;
    const child = execa(command, args, {
      env: { ...cli.env, KUBECONFIG: file },
      extendEnv: false,
      stdin: 'inherit',
      stdout: isOurs ? 'inherit' : 'pipe',
      stderr: isOurs ? 'inherit' : 'pipe',
      buffer: false,
      reject: false,
    });
    // A terminal sends its signals to the command, too, which decides what comes of them.
    cli.onSignal((signal) => {
      if (process.stdin.isTTY !== true) child.kill(signal);
    });
    child.stdout?.pipe(cli.stdout, { end: false });
    child.stderr?.pipe(cli.stderr, { end: false });
    const { exitCode, signal, code } = await child;
    if (code === 'ENOENT' || code === 'EACCES')
      throw new CliError(
        'NotFound',
        `"${command}" cannot be run (${code}): is it installed, and in the PATH?`,
      );
    cli.setExitCode(exitCode ?? (signal === undefined ? 1 : 130));
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
