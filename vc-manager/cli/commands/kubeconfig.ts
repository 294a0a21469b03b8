import { readFile } from 'node:fs/promises';
import type { Command } from 'commander';
import { mergeKubeconfig, parseKubeconfig, rememberContext } from '../../../kube/index.ts';
import { tenantArgument } from '../command-line.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { CliError, invalidArgument } from '../errors.ts';
import { changeKubeconfigFile } from '../kubeconfig-file.ts';
import { localKubeconfigFile, readSettings, stateChoice } from '../state-directory.ts';
import { namedTenantKubeconfig } from '../tenant-kubeconfig.ts';

interface Flags extends GlobalFlags {
  namespace: string;
  superCluster?: boolean;
  personal?: boolean;
  merge?: boolean;
}

const help = `
Examples:
  vc-manager kubeconfig team-blue > blue.kubeconfig
  kubectl --kubeconfig blue.kubeconfig get pods -A
  vc-manager kubeconfig team-blue --merge && kubectl get pods -A
  vc-manager kubeconfig team-blue --personal > blue.kubeconfig
  vc-manager kubeconfig --super-cluster > super-cluster.kubeconfig`;

export function configure(command: Command, cli: Cli): void {
  command
    .addArgument(tenantArgument('[name]'))
    .option('-n, --namespace <namespace>', 'namespace of the VirtualCluster', 'default')
    .option(
      '--personal',
      'one in your own name in the super cluster, for an hour, with an event on the VirtualCluster; needs the right to read Secrets in the namespace of Skerry itself',
    )
    .option('--super-cluster', 'the kubeconfig of the super cluster instead')
    .option('--merge', 'add it to $KUBECONFIG or ~/.kube/config and make it current; print nothing')
    .addHelpText('after', help)
    .action(async (name: string | undefined, _, chosen: Command) =>
      kubeconfig(cli, name, chosen.optsWithGlobals<Flags>()),
    );
}

async function kubeconfig(cli: Cli, name: string | undefined, flags: Flags): Promise<void> {
  const text = await kubeconfigText(cli, name, flags);
  if (!flags.merge) {
    cli.stdout.write(text);
    return;
  }
  const file = await changeKubeconfigFile(cli.env, (existing) =>
    mergeKubeconfig(existing, flags.superCluster ? text : rememberContext(text, existing)),
  );
  cli.stderr.write(
    `Context "${parseKubeconfig(text)['current-context']}" is now the current one of ${file}.\n`,
  );
}

async function kubeconfigText(cli: Cli, name: string | undefined, flags: Flags): Promise<string> {
  if (flags.superCluster) {
    if (name !== undefined) throw invalidArgument('give either a NAME or --super-cluster');
    if (flags.personal) throw invalidArgument('--personal is for tenants: give the NAME of one');
    return superClusterKubeconfig(cli, flags);
  }
  if (name === undefined) throw invalidArgument('give the NAME of a tenant, or --super-cluster');
  return namedTenantKubeconfig(cli, name, flags);
}

async function superClusterKubeconfig(cli: Cli, flags: Flags): Promise<string> {
  const { directory } = stateChoice(cli.env, flags);
  const settings = await readSettings(directory);
  const file =
    settings === undefined || settings.superCluster === 'local'
      ? localKubeconfigFile(directory)
      : settings.superCluster.kubeconfig;
  try {
    return await readFile(file, 'utf8');
  } catch (cause) {
    throw new CliError(
      'NotFound',
      `there is no local super cluster in ${directory}: "vc-manager up" starts one`,
      { cause },
    );
  }
}
