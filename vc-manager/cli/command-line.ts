import { Argument, Option } from 'commander';
import { duration } from './arguments.ts';

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
