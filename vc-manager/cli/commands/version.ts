import { type Command, Option } from 'commander';
import type { ControlPlaneTemplate } from '../../../api/control-plane-template.ts';
import { gatewaysLeaseName, runningGateways, versionOfHolder } from '../../../api/program-versions.ts';
import type { VirtualCluster } from '../../../api/virtual-cluster.ts';
import { isUnclaimed } from '../../../api/warm-pool.ts';
import { type KubeClient, type Lease, resources } from '../../../kube/index.ts';
import { systemNamespaceOption } from '../../../program/flags.ts';
import { packageVersion } from '../../../program/package-root.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { ageSince, serialize, table } from '../output.ts';
import { withSuperCluster } from '../super-cluster.ts';

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

/** What runs in which version. */
interface Versions {
  /** Of this command line. */
  skerry: string;
  node: string;
  superCluster: string;
  /** The leading manager, each replica of the syncer and of the gateway, as Leases say. */
  running: { program: string; identity: string; version: string | undefined; renewed: string | undefined }[];
  templates: { name: string; kubernetes: string }[];
  tenants: {
    namespace: string;
    name: string;
    kubernetes: string | undefined;
    wanted: string | undefined;
    driver: string | undefined;
  }[];
}

export async function readVersions(
  client: KubeClient,
  systemNamespace: string,
  signal: AbortSignal,
): Promise<Versions> {
  const [{ gitVersion = '' }, leases, templates, tenants] = await Promise.all([
    client.raw('GET', '/version', { signal }) as Promise<{ gitVersion?: string }>,
    client.list<Lease>(resources.leases, { namespace: systemNamespace, signal }),
    client.list<ControlPlaneTemplate>(resources.controlPlaneTemplates, { signal }),
    client.list<VirtualCluster>(resources.virtualClusters, { signal }),
  ]);
  return {
    skerry: packageVersion(),
    node: process.versions.node,
    superCluster: gitVersion.replace(/^v/, ''),
    running: leases.items.flatMap(({ metadata, spec }) => {
      if (metadata.name === gatewaysLeaseName)
        return runningGateways(metadata.annotations).map(({ seen, ...gateway }) => ({
          ...{ program: 'vc-gateway', ...gateway, renewed: seen },
        }));
      const program = /(?:^|-)(vc-(?:manager|syncer))/.exec(metadata.name ?? '')?.[1];
      const { holderIdentity: identity = '', renewTime: renewed } = spec ?? {};
      if (program === undefined || identity === '') return [];
      return [{ program, identity, version: versionOfHolder(metadata.annotations, identity), renewed }];
    }),
    templates: templates.items.map(({ metadata, spec }) => ({
      name: metadata.name ?? '',
      kubernetes: spec.kubernetesVersion,
    })),
    tenants: tenants.items
      .filter((vc) => !isUnclaimed(vc))
      .map(({ metadata, spec, status }) => ({
        namespace: metadata.namespace ?? '',
        name: metadata.name ?? '',
        kubernetes: status?.version,
        wanted: spec?.version,
        driver: status?.driver,
      })),
  };
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
