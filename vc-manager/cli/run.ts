import { CommanderError } from 'commander';
import { systemClock } from '../../kube/index.ts';
import type { Cli } from './context.ts';
import { describeFailure } from './describe-failure.ts';
import { CliError } from './errors.ts';
import { exitCodes } from './exit-codes.ts';
import { styler } from './output/style.ts';
import { buildProgram } from './program.ts';

const signals: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM', 'SIGHUP'];

/** Runs one command line (without node and script) and resolves to its exit code. */
export async function runCli(
  args: readonly string[],
  { env, stdout, stderr }: Pick<Cli, 'env' | 'stdout' | 'stderr'>,
): Promise<number> {
  const interruption = new AbortController();
  let listener = (signal: NodeJS.Signals): void =>
    interruption.abort(new CliError('Interrupted', `interrupted by ${signal}`));
  const handle = (signal: NodeJS.Signals): void => listener(signal);
  for (const signal of signals) process.on(signal, handle);
  let exitCode: number = exitCodes.ok;
  const cli: Cli = {
    env,
    stdout,
    stderr,
    clock: systemClock,
    signal: interruption.signal,
    onSignal: (next) => {
      listener = next;
    },
    setExitCode: (code) => {
      exitCode = code;
    },
  };
  const program = await buildProgram(args, cli);
  try {
    await program.parseAsync(args, { from: 'user' });
  } catch (error) {
    if (error instanceof CommanderError) {
      // Help and version end like this too. What was wrong has been written already.
      exitCode = error.exitCode === 0 ? exitCodes.ok : exitCodes.usage;
    } else {
      const failure = describeFailure(error);
      exitCode = failure.exitCode;
      stderr.write(`${styler(stderr)('red', 'error:')} ${failure.message}\n`);
      if (args.includes('--verbose') || env['DEBUG']) {
        stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`);
      }
    }
  } finally {
    for (const signal of signals) process.off(signal, handle);
  }
  return exitCode;
}
