import type { Command } from 'commander';
import { leaveContext, mergeKubeconfig, parseKubeconfig, rememberContext } from '../../../kube/index.ts';
import { tenantArgument } from '../command-line.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { CliError } from '../errors.ts';
import { changeKubeconfigFile, runWithKubeconfig } from '../kubeconfig-file.ts';
import { namedTenantKubeconfig } from '../tenant-kubeconfig.ts';

interface Flags extends GlobalFlags {
  namespace: string;
  personal?: boolean;
}

const connectHelp = `
Adds the tenant to the kubeconfig that kubectl uses ($KUBECONFIG or ~/.kube/config) and makes it current, until
"vc-manager disconnect". With a command after "--" it changes no file, runs the command with $KUBECONFIG for the tenant, and ends
with its exit code.

Examples:
  vc-manager connect team-blue && kubectl get pods -A
  vc-manager connect team-blue -- helm list -A
  vc-manager connect team-blue -- bash`;

const disconnectHelp = `
Goes back to the context that was current before "vc-manager connect", and takes the tenant out of the kubeconfig.`;

export function configureConnect(command: Command, cli: Cli): void {
  command
    .addArgument(tenantArgument('<name>'))
    .argument('[command...]', 'to run with $KUBECONFIG for the tenant, after "--"')
    .option('-n, --namespace <namespace>', 'namespace of the VirtualCluster', 'default')
    .option(
      '--personal',
      'in your own name in the super cluster, for an hour, as "vc-manager kubeconfig --personal"',
    )
    .addHelpText('after', connectHelp)
    .action(async (name: string, args: string[], _, chosen: Command) =>
      connect(cli, name, args, chosen.optsWithGlobals<Flags>()),
    );
}

export function configureDisconnect(command: Command, cli: Cli): void {
  command.addHelpText('after', disconnectHelp).action(() => disconnect(cli));
}

async function connect(cli: Cli, name: string, args: readonly string[], flags: Flags): Promise<void> {
  const kubeconfig = await namedTenantKubeconfig(cli, name, flags);
  if (args.length > 0) {
    await runWithKubeconfig(cli, kubeconfig, args);
    return;
  }
  const file = await changeKubeconfigFile(cli.env, (existing) =>
    mergeKubeconfig(existing, rememberContext(kubeconfig, existing)),
  );
  const context = parseKubeconfig(kubeconfig)['current-context'];
  cli.stderr.write(
    `Context "${context}" is now the current one of ${file}. "vc-manager disconnect" goes back.\n`,
  );
}

async function disconnect(cli: Cli): Promise<void> {
  let left: { context: string; current: string | undefined } | undefined;
  const file = await changeKubeconfigFile(cli.env, (existing) => {
    const change = leaveContext(existing);
    if (change === undefined)
      throw new CliError(
        'NotFound',
        'the current context was not made by "vc-manager connect": there is nothing to disconnect',
      );
    left = change;
    return change.text;
  });
  const now = left?.current === undefined ? 'none is current' : `"${left.current}" is the current one`;
  cli.stderr.write(`Context "${left?.context}" is gone from ${file}; ${now}.\n`);
}
