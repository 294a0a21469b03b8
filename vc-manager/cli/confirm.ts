import { createInterface } from 'node:readline/promises';
import type { Cli } from './context.ts';
import { CliError } from './errors.ts';

export const yesOption = {
  flags: '-y, --yes',
  description: 'do not ask; a script, which has no terminal, needs it',
} as const;

/** Throws `InvalidArgument` where nobody can be asked, before anything is done. `yes`: the answer has been given. */
export function requireTerminal({ stdin, stderr }: Cli, { yes }: { readonly yes?: boolean }): void {
  if (yes === true || (stdin?.isTTY === true && stderr.isTTY === true)) return;
  throw new CliError(
    'InvalidArgument',
    'nothing was done: this asks on a terminal before it goes on, and there is none. Scripts say --yes',
  );
}

/** Asks a person on a terminal. Throws `Interrupted` for every answer but yes, and nothing has been done by then. */
export async function confirm(cli: Cli, flags: { readonly yes?: boolean }, question: string): Promise<void> {
  requireTerminal(cli, flags);
  const { stdin, stderr, signal } = cli;
  if (flags.yes === true || stdin === undefined) return;
  const lines = createInterface({ input: stdin, output: stderr });
  try {
    const answer = await lines.question(`${question} [y/N] `, { signal });
    if (/^(y|yes)$/i.test(answer.trim())) return;
  } catch (error) {
    signal.throwIfAborted();
    // The terminal has ended: nobody has said yes.
    if (!(error instanceof Error)) throw error;
  } finally {
    lines.close();
  }
  throw new CliError('Interrupted', 'nothing was done');
}
