import type { Command, Option } from 'commander';
import { resources } from '../../../kube/index.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { withSuperCluster } from '../super-cluster.ts';

/** Long enough for a cluster on this machine, short enough for somebody who has pressed the tab key. */
const listTimeoutMs = 2_000;

export function configure(command: Command, cli: Cli): void {
  command
    .argument('[words...]')
    .allowUnknownOption()
    .action(async (words: string[], _, chosen: Command) => {
      const program = chosen.parent ?? chosen;
      const answers = await complete(program, words, {
        tenants: (flags) => listTenantNames(cli, flags),
      });
      cli.stdout.write(
        answers.map(({ word, about }) => (about === '' ? `${word}\n` : `${word}\t${about}\n`)).join(''),
      );
    });
}

/** Of the namespace, or of all; none when the super cluster cannot be asked. */
async function listTenantNames(cli: Cli, flags: GlobalFlags & { namespace?: string }): Promise<string[]> {
  try {
    // A note about which cluster is asked would end up in the middle of the command line.
    const quiet: Cli = { ...cli, stderr: Object.assign(Object.create(cli.stderr), { write: () => true }) };
    return await withSuperCluster(quiet, flags, async (client) => {
      const signal = AbortSignal.timeout(listTimeoutMs);
      const where = flags.namespace === undefined ? {} : { namespace: flags.namespace };
      const { items } = await client.list(resources.virtualClusters, { ...where, signal });
      return items.map(({ metadata }) => metadata.name ?? '');
    });
  } catch {
    return [];
  }
}

export interface Candidate {
  word: string;
  /** One line; may be empty. */
  about: string;
}

export interface CompletionSources {
  tenants: (flags: GlobalFlags & { namespace?: string }) => Promise<string[]>;
}

const takeTenants = new Set(['describe', 'kubeconfig', 'delete', 'logs']);
const jobVerbs: readonly Candidate[] = [
  { word: 'cancel', about: 'stop what is under way' },
  { word: 'retry', about: 'try again at once' },
];
const certificateVerbs: readonly Candidate[] = [
  { word: 'renew', about: 'issue all of a control plane anew' },
];
const tenantComponents = ['kube-apiserver', 'kube-controller-manager'];

/**
 * What can stand in place of the last word. Empty: file names, as far as anybody knows. The program has to be
 * built with all of its commands.
 */
export async function complete(
  program: Command,
  words: readonly string[],
  { tenants }: CompletionSources,
): Promise<Candidate[]> {
  const current = words.at(-1) ?? '';
  const before = words.slice(0, -1);
  const { command, operands, flags, pending } = parseLine(program, before);
  const answers = await candidates();
  return answers.filter(({ word }) => word.startsWith(current));

  async function candidates(): Promise<Candidate[]> {
    if (pending?.long === '--tenant') {
      // Where a command has that option, the namespace is one of the tenant's own.
      const { namespace: _, ...superCluster } = flags;
      return plain(await tenants(superCluster));
    }
    if (pending !== undefined) return plain(pending.argChoices ?? []);
    if (current.startsWith('-')) return options(command);
    if (command === program) return commands(program);
    if (command.name() === 'help') return commands(program);
    if (command.name() === 'completion' && operands.length === 0) return plain(['bash', 'zsh', 'fish']);
    if (command.name() === 'logs' && operands.length === 1) return plain(tenantComponents);
    if (command.name() === 'jobs' && operands.length === 0)
      return [...jobVerbs, ...plain(await tenants(flags))];
    if (command.name() === 'jobs') return verb(jobVerbs, operands);
    if (command.name() === 'certificates') return verb(certificateVerbs, operands);
    if (!takeTenants.has(command.name())) return [];
    if (operands.length > 0 && command.name() !== 'delete') return [];
    return plain((await tenants(flags)).filter((name) => !operands.includes(name)));
  }

  async function verb(
    verbs: readonly Candidate[],
    [first, ...more]: readonly string[],
  ): Promise<Candidate[]> {
    if (first === undefined) return [...verbs];
    if (more.length > 0 || !verbs.some(({ word }) => word === first)) return [];
    return plain(await tenants(flags));
  }
}

interface Line {
  command: Command;
  operands: string[];
  flags: GlobalFlags & { namespace?: string };
  /** An option that waits for its value. */
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

function plain(words: readonly string[]): Candidate[] {
  return words.map((word) => ({ word, about: '' }));
}
