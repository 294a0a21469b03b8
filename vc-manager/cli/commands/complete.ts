import type { Command, Option } from 'commander';
import type { VirtualCluster } from '../../../api/virtual-cluster.ts';
import { isUnclaimed } from '../../../api/warm-pool.ts';
import { resources } from '../../../kube/index.ts';
import { type Candidate, type CompletionContext, candidatesFor } from '../command-line.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { withSuperCluster } from '../super-cluster.ts';

/** Long enough for a cluster on this machine, short enough for a user who has pressed the tab key. */
const listTimeoutMs = 2_000;

export function configure(command: Command, cli: Cli): void {
  command
    .argument('[words...]')
    .allowUnknownOption()
    .action(async (words: string[], _, chosen: Command) => {
      const program = chosen.parent ?? chosen;
      const candidates = await complete(program, words, (superCluster, namespace) =>
        listTenantNames(cli, superCluster, namespace),
      );
      cli.stdout.write(
        candidates.map(({ word, about }) => (about ? `${word}\t${about}\n` : `${word}\n`)).join(''),
      );
    });
}

/** Of the namespace, or of all; empty when the super cluster does not answer in time. */
async function listTenantNames(
  cli: Cli,
  superCluster: GlobalFlags,
  namespace: string | undefined,
): Promise<string[]> {
  try {
    // A note on stderr would appear in the middle of the command line.
    const quiet: Cli = { ...cli, stderr: Object.assign(Object.create(cli.stderr), { write: () => true }) };
    return await withSuperCluster(quiet, superCluster, async (client) => {
      const signal = AbortSignal.timeout(listTimeoutMs);
      const { items } = await client.list<VirtualCluster>(resources.virtualClusters, { namespace, signal });
      return items.filter((vc) => !isUnclaimed(vc)).map(({ metadata }) => metadata.name ?? '');
    });
  } catch {
    return [];
  }
}

type ListTenants = (superCluster: GlobalFlags, namespace: string | undefined) => Promise<string[]>;

/**
 * What can stand in place of the last word. Empty: the shell completes file names. `program` has to be built with the
 * commands that `words` name.
 */
export async function complete(
  program: Command,
  words: readonly string[],
  listTenants: ListTenants,
): Promise<Candidate[]> {
  const current = words.at(-1) ?? '';
  const line = parseLine(program, words.slice(0, -1));
  const offered = await offerFor(program, line, current, listTenants);
  return offered.filter(({ word }) => word.startsWith(current));
}

async function offerFor(
  program: Command,
  { command, operands, flags, pending }: Line,
  current: string,
  listTenants: ListTenants,
): Promise<readonly Candidate[]> {
  const { namespace, ...superCluster } = flags;
  const context: CompletionContext = { operands, namespace, tenants: (of) => listTenants(superCluster, of) };
  if (pending !== undefined) return candidatesFor(pending, context);
  if (current.startsWith('-')) return options(command);
  if (command === program) return commands(program);
  const last = command.registeredArguments.at(-1);
  const argument = command.registeredArguments[operands.length] ?? (last?.variadic ? last : undefined);
  return argument === undefined ? [] : candidatesFor(argument, context);
}

interface Line {
  command: Command;
  operands: string[];
  flags: GlobalFlags & { namespace?: string };
  /** The option whose value is the next word. */
  pending: Option | undefined;
}

function parseLine(program: Command, words: readonly string[]): Line {
  const line: Line = { command: program, operands: [], flags: {}, pending: undefined };
  const values: Record<string, string> = {};
  for (const word of words) {
    if (line.pending !== undefined) {
      values[line.pending.attributeName()] = word;
      line.pending = undefined;
    } else if (word.startsWith('-')) {
      const [name, value] = word.split('=', 2);
      const option = line.command.options.find(({ short, long }) => name === short || name === long);
      if (option === undefined || !(option.required || option.optional)) continue;
      if (value === undefined) line.pending = option;
      else values[option.attributeName()] = value;
    } else if (line.command === program) {
      const found = program.commands.find((each) => each.name() === word || each.aliases().includes(word));
      if (found !== undefined) line.command = found;
    } else {
      line.operands.push(word);
    }
  }
  line.flags = values;
  return line;
}

function commands(program: Command): Candidate[] {
  return program
    .createHelp()
    .visibleCommands(program)
    .map((command) => ({ word: command.name(), about: command.summary() }));
}

function options(command: Command): Candidate[] {
  return command
    .createHelp()
    .visibleOptions(command)
    .map(({ long, short, description }) => ({ word: long ?? short ?? '', about: description }));
}
