import { createInterface } from 'node:readline/promises';
import type { Cli } from './context.ts';
import { CliError } from './errors.ts';

/**
 * Asks a person on a terminal; a script, which has none, is not asked. Throws `Interrupted` for every answer but yes, and
 * nothing has been done by then.
 */
export async function confirm({ stdin, stderr, signal }: Cli, question: string): Promise<void> {
  if (stdin?.isTTY !== true || stderr.isTTY !== true) return;
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
