import { mkdtemp, readFile, readlink, realpath, rm, writeFile } from 'node:fs/promises';
import { constants, homedir, tmpdir } from 'node:os';
import { delimiter, dirname, join, resolve } from 'node:path';
import type { Command } from 'commander';
import { execa } from 'execa';
import { messageOf } from '../../kube/index.ts';
import { replaceFile } from '../os/files.ts';
import type { Cli } from './context.ts';
import { CliError } from './errors.ts';

/**
 * Changes the file that kubectl itself would write to, in one step: the first of $KUBECONFIG, or ~/.kube/config. Returns
 * its path. `change` gets the text, empty when there is no file; what it throws leaves the file as it is.
 */
export async function changeKubeconfigFile(
  env: Cli['env'],
  change: (existing: string) => string,
): Promise<string> {
  const named = (env['KUBECONFIG'] ?? '').split(delimiter).find((each) => each !== '');
  const file = named ?? join(env['HOME'] ?? homedir(), '.kube', 'config');
  try {
    const existing = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return '';
      throw error;
    });
    const changed = change(existing);
    // A link stays one.
    await replaceFile(await linkTarget(file), changed);
    return file;
  } catch (cause) {
    if (cause instanceof CliError) throw cause;
    throw new CliError('StateUnusable', `${file} could not be changed (${messageOf(cause)})`, { cause });
  }
}

/** Where a link leads, also when nothing is there yet; else the path itself. */
async function linkTarget(path: string): Promise<string> {
  const real = await realpath(path).catch(() => undefined);
  if (real !== undefined) return real;
  const link = await readlink(path).catch(() => undefined);
  return link === undefined ? path : linkTarget(resolve(await realpath(dirname(path)), link));
}

/** For people who leave out the tenant or "--" before another program's arguments. */
export function afterDashes(example: string): string {
  return `What follows the tenant and "--" is for the other program: vc-manager ${example}`;
}

/** Adds `hint` to a `NotFound` of `work`, which looks for the tenant, if the command line has `args` but no "--". */
export async function withDashesHint<T>(
  { command, args, hint }: { command: Command; args: readonly string[]; hint: string },
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    // Not in commander's types.
    const { rawArgs = [] } = (command.parent ?? {}) as { rawArgs?: readonly string[] };
    if (!(error instanceof CliError) || error.code !== 'NotFound') throw error;
    if (args.length === 0 || rawArgs.includes('--')) throw error;
    throw new CliError('NotFound', `${error.message}. ${hint}`, { cause: error });
  }
}

/**
 * Runs a command with $KUBECONFIG for one tenant, as if the shell had started it, and ends with its exit code. The
 * kubeconfig lies in a directory that only this user may enter, and goes with the command.
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
    cli.setExitCode(exitCode ?? (signal === undefined ? 1 : 128 + constants.signals[signal]));
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
