import { rm } from 'node:fs/promises';
import type { Command } from 'commander';
import type { Cli, GlobalFlags } from '../context.ts';
import { takeDown } from '../down/take-down.ts';
import { progressFor } from '../progress/index.ts';
import { isStateDirectory, stateChoice } from '../state/state-directory.ts';

interface Flags extends GlobalFlags {
  purge?: boolean;
  force?: boolean;
}

const help = `
Stops what "up" has started, in whatever terminal or in the background, also when "up" itself was killed. Nothing is
lost: "up" resumes.

Examples:
  vc-manager down
  vc-manager down --purge            remove every trace: tenants, their data, certificates and logs`;

export function configure(command: Command, cli: Cli): void {
  command
    .option('--purge', 'then remove the state directory, with all tenants and their data')
    .option('--force', 'with --purge: also when tenants are left in a super cluster of yours')
    .addHelpText('after', help)
    .action(async (_, chosen: Command) => down(cli, chosen.optsWithGlobals<Flags>()));
}

async function down(cli: Cli, flags: Flags): Promise<void> {
  const { directory: stateDir } = stateChoice(cli.env, flags);
  if (!(await isStateDirectory(stateDir))) {
    cli.stderr.write(`Nothing to stop: there is no local stack in ${stateDir}.\n`);
    return;
  }
  const progress = progressFor(cli);
  try {
    await takeDown(cli, { stateDir, progress, purge: flags.purge === true, force: flags.force === true });
    if (flags.purge) {
      await rm(stateDir, { recursive: true, force: true });
      progress.note(`Removed ${stateDir}.`);
    } else {
      progress.note(`Stopped. The state is kept in ${stateDir}.`);
    }
  } finally {
    progress.close();
  }
}
