import type { Command } from 'commander';
import type { Cli, GlobalFlags } from '../context.ts';
import { exitCodes } from '../exit-codes.ts';
import { collectGarbage } from '../gc/collect-garbage.ts';
import { table } from '../output/table.ts';

interface Flags extends GlobalFlags {
  yes?: boolean;
}

const help = `
Normally nothing is left of a deleted tenant. What is, for example after a finalizer was removed by hand, is listed:
control planes and datastore users on this machine, objects in the super cluster. Nothing is deleted without --yes.

Examples:
  vc-manager gc
  vc-manager gc --yes`;

export function configure(command: Command, cli: Cli): void {
  command
    .option('--yes', 'delete what is listed')
    .addHelpText('after', help)
    .action(async (_, chosen: Command) => gc(cli, chosen.optsWithGlobals<Flags>()));
}

async function gc(cli: Cli, flags: Flags): Promise<void> {
  const leftovers = await collectGarbage(cli, flags, { remove: flags.yes === true });
  if (leftovers.length === 0) {
    cli.stderr.write('Nothing is left over.\n');
    return;
  }
  const rows = leftovers.map(({ kind, name, result }) => [kind, name, result]);
  cli.stdout.write(table(['KIND', 'NAME', 'RESULT'], rows));
  if (!flags.yes) cli.stderr.write('Nothing was deleted: "vc-manager gc --yes" deletes what is listed.\n');
  if (leftovers.some(({ failed }) => failed)) cli.setExitCode(exitCodes.failure);
}
