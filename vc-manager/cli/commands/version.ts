import { type Command, Option } from 'commander';
import { systemNamespaceOption } from '../../../program/flags.ts';
import { packageVersion } from '../../../program/package-root.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { ageSince, serialize, table } from '../output.ts';
import { withSuperCluster } from '../super-cluster.ts';
import { readVersions, type Versions } from '../versions.ts';

interface Flags extends GlobalFlags {
  all?: boolean;
  systemNamespace: string;
  output?: 'json' | 'yaml';
}

const help = `
Examples:
  vc-manager version
  vc-manager version --all              the super cluster, managers, syncers, gateways, templates and tenants too`;

export function configure(command: Command, cli: Cli): void {
  command
    .option('--all', 'of managers, syncers, gateways, templates and tenants too: asks the super cluster')
    .addOption(systemNamespaceOption("of Skerry's own objects"))
    .addOption(new Option('-o, --output <format>', 'print an object').choices(['json', 'yaml']))
    .addHelpText('after', help)
    .action(async (_, chosen: Command) => version(cli, chosen.optsWithGlobals<Flags>()));
}

async function version(cli: Cli, flags: Flags): Promise<void> {
  if (!flags.all) {
    const own = { skerry: packageVersion(), node: process.versions.node };
    cli.stdout.write(flags.output ? serialize(flags.output, own) : `${own.skerry}\n`);
    return;
  }
  const versions = await withSuperCluster(cli, flags, (client) =>
    readVersions(client, flags.systemNamespace, cli.signal),
  );
  cli.stdout.write(flags.output ? serialize(flags.output, versions) : shown(versions, cli.clock.now()));
}

function shown(versions: Versions, nowMs: number): string {
  const facts = table(undefined, [
    ['Skerry:', versions.skerry],
    ['Node.js:', versions.node],
    ['Super cluster:', versions.superCluster || '-'],
    ...versions.running.map(({ program, identity, version: running, renewed }) => [
      `${program}:`,
      `${running === undefined ? '' : `${running}, `}${identity}${renewed === undefined ? '' : `, seen ${ageSince(renewed, nowMs)} ago`}`,
    ]),
    ...versions.templates.map(({ name, kubernetes }) => ['Template:', `${name} (Kubernetes ${kubernetes})`]),
  ]);
  if (versions.tenants.length === 0) return facts;
  const rows = versions.tenants.map(({ namespace, name, kubernetes = '-', wanted = '-', driver = '-' }) => [
    ...[namespace, name, kubernetes, wanted, driver],
  ]);
  return `${facts}\n${table(['NAMESPACE', 'TENANT', 'KUBERNETES', 'ASKED FOR', 'DRIVER'], rows)}`;
}
