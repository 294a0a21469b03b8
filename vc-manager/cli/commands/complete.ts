import type { Command } from 'commander';
import { resources } from '../../../kube/index.ts';
import { complete } from '../completion/complete.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { withSuperCluster } from '../super-cluster.ts';

/** Long enough for a cluster on this machine, short enough for somebody who has pressed the tab key. */
const patienceMs = 2_000;

export function configure(command: Command, cli: Cli): void {
  command
    .argument('[words...]')
    .allowUnknownOption()
    .action(async (words: string[], _, chosen: Command) => {
      const program = chosen.parent ?? chosen;
      const answers = await complete(program, words, {
        tenants: (flags) => tenantNames(cli, flags),
      });
      cli.stdout.write(
        answers.map(({ word, about }) => (about === '' ? `${word}\n` : `${word}\t${about}\n`)).join(''),
      );
    });
}

/** Of the namespace, or of all; none when the super cluster cannot be asked. */
async function tenantNames(cli: Cli, flags: GlobalFlags & { namespace?: string }): Promise<string[]> {
  try {
    // A note about which cluster is asked would end up in the middle of the command line.
    const quiet: Cli = { ...cli, stderr: Object.assign(Object.create(cli.stderr), { write: () => true }) };
    return await withSuperCluster(quiet, flags, async (client) => {
      const signal = AbortSignal.timeout(patienceMs);
      const where = flags.namespace === undefined ? {} : { namespace: flags.namespace };
      const { items } = await client.list(resources.virtualClusters, { ...where, signal });
      return items.map(({ metadata }) => metadata.name ?? '');
    });
  } catch {
    return [];
  }
}
