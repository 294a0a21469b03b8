import { createInterface } from 'node:readline/promises';
import { Argument, Option } from 'commander';
import { duration } from './arguments.ts';
import type { Cli } from './context.ts';
import { CliError } from './errors.ts';

/** A word that the shell offers. */
export interface Candidate {
  word: string;
  /** One line of explanation. */
  about?: string;
}

/** The command line up to the word that is being completed. */
export interface CompletionContext {
  operands: readonly string[];
  /** Value of the command's `--namespace`. */
  namespace: string | undefined;
  /** Names of the tenants in a namespace of the super cluster; without one, in all namespaces. */
  tenants(namespace?: string): Promise<string[]>;
}

type Completer = (context: CompletionContext) => readonly Candidate[] | Promise<readonly Candidate[]>;

/** Has the shell offer for an argument or an option's value what `complete` returns, in place of its choices. */
export function withCompletion<Target extends Argument | Option>(
  target: Target,
  complete: Completer,
): Target {
  return Object.assign(target, { complete });
}

export async function candidatesFor(
  target: Argument | Option,
  context: CompletionContext,
): Promise<readonly Candidate[]> {
  const { complete } = target as { complete?: Completer };
  return complete === undefined ? wordsOnly(target.argChoices ?? []) : complete(context);
}

/** Tenants that were not named before, of the namespace that was. */
export async function offerTenants(context: CompletionContext): Promise<Candidate[]> {
  const names = await context.tenants(context.namespace);
  return wordsOnly(names.filter((name) => !context.operands.includes(name)));
}

export function wordsOnly(words: readonly string[]): Candidate[] {
  return words.map((word) => ({ word }));
}

export function tenantArgument(flags: string, description = 'of the tenant'): Argument {
  return withCompletion(new Argument(flags, description), offerTenants);
}

/** `--timeout` of commands that have `--wait`. */
export function waitTimeoutOption(): Option {
  return new Option('--timeout <duration>', 'how long --wait waits')
    .argParser(duration)
    .default(300_000, '5m');
}

/** `-o`, where a table for people is the default. */
export function outputOption(description = 'how to print them'): Option {
  return new Option('-o, --output <format>', description).choices(['table', 'json', 'yaml']).default('table');
}

export const yesOption = {
  flags: '-y, --yes',
  description: 'do not ask; a script, which has no terminal, needs it',
} as const;

/** Whether somebody can be asked. */
export function hasTerminal({ stdin, stderr }: Pick<Cli, 'stdin' | 'stderr'>): boolean {
  return stdin?.isTTY === true && stderr.isTTY === true;
}

/** Throws `InvalidArgument` without a terminal to ask on, before anything is done. `yes`: the answer was given. */
export function requireTerminal(cli: Cli, { yes }: { readonly yes?: boolean }): void {
  if (yes === true || hasTerminal(cli)) return;
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
    // The terminal has ended without an answer.
    if (!(error instanceof Error)) throw error;
  } finally {
    lines.close();
  }
  throw new CliError('Interrupted', 'nothing was done');
}
