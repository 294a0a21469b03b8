import type { Command } from 'commander';
import { Binaries, defaultCacheDirectory, defaultVersions } from '../../binaries/index.ts';
import { tenantArgument } from '../command-line.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { CliError } from '../errors.ts';
import { runWithKubeconfig } from '../kubeconfig-file.ts';
import { namedTenantKubeconfig } from '../tenant-kubeconfig.ts';

interface Flags extends GlobalFlags {
  namespace: string;
  personal?: boolean;
}

const help = `
Your own kubectl, or the one that Skerry has fetched, with the kubeconfig of a tenant. What follows "--" is for kubectl.

Examples:
  vc-manager kubectl team-blue -- get pods -A
  vc-manager kubectl team-blue -n teams -- logs -f deploy/web`;

export function configure(command: Command, cli: Cli): void {
  command
    .addArgument(tenantArgument('<name>'))
    .argument('[args...]', 'what kubectl is to do, after "--"')
    .option('-n, --namespace <namespace>', 'namespace of the VirtualCluster', 'default')
    .option('--personal', 'in your own name in the super cluster, as "vc-manager kubeconfig --personal"')
    .addHelpText('after', help)
    .action(async (name: string, args: string[], _, chosen: Command) =>
      kubectl(cli, name, args, chosen.optsWithGlobals<Flags>()),
    );
}

async function kubectl(cli: Cli, name: string, args: readonly string[], flags: Flags): Promise<void> {
  const kubeconfig = await namedTenantKubeconfig(cli, name, flags);
  await runWithKubeconfig(cli, kubeconfig, [await findKubectl(cli), ...args]);
}

async function findKubectl({ env, clock }: Cli): Promise<string> {
  const binaries = new Binaries({ cacheDir: defaultCacheDirectory(env), env, clock });
  const found = await binaries.find({ name: 'kubectl', version: defaultVersions.kubernetes });
  if (found === undefined)
    throw new CliError(
      'NotFound',
      `there is no kubectl ${defaultVersions.kubernetes}, nor one that is near, on this machine: "vc-manager binaries --fetch" fetches it`,
    );
  return found.path;
}
