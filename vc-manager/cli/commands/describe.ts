import { type Command, Option } from 'commander';
import { type KubeClient, type KubeObject, resources } from '../../../kube/index.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { describeTenant, type EventObject } from '../output/describe-tenant.ts';
import { json, withKind, yaml } from '../output/format.ts';
import { withSuperCluster } from '../super-cluster.ts';
import { checkedRef, getVirtualCluster, type VirtualClusterRef } from '../virtual-clusters.ts';

interface Flags extends GlobalFlags {
  namespace: string;
  output?: 'json' | 'yaml';
}

const help = `
Examples:
  vc-manager describe team-blue
  vc-manager describe team-blue -n teams
  vc-manager describe team-blue -o json          the VirtualCluster, with what it may in status.policy`;

export function configure(command: Command, cli: Cli): void {
  command
    .argument('<name>', 'of the tenant')
    .option('-n, --namespace <namespace>', 'namespace of the VirtualCluster', 'default')
    .addOption(new Option('-o, --output <format>', 'print the object').choices(['json', 'yaml']))
    .addHelpText('after', help)
    .action(async (name: string, _, chosen: Command) => describe(cli, name, chosen.optsWithGlobals<Flags>()));
}

async function describe(cli: Cli, name: string, flags: Flags): Promise<void> {
  const ref = checkedRef(name, flags.namespace);
  await withSuperCluster(cli, flags, async (client) => {
    const vc = await getVirtualCluster(client, ref, cli.signal);
    if (flags.output !== undefined) {
      cli.stdout.write(flags.output === 'json' ? json(withKind(vc)) : yaml(withKind(vc)));
      return;
    }
    const events = await eventsOf(client, ref, vc, cli.signal);
    cli.stdout.write(describeTenant(vc, events, cli));
  });
}

/** Those of an earlier VirtualCluster of the same name are none of its. */
async function eventsOf(
  client: KubeClient,
  { namespace, name }: VirtualClusterRef,
  { metadata }: KubeObject,
  signal: AbortSignal,
): Promise<EventObject[]> {
  const fieldSelector = `involvedObject.kind=VirtualCluster,involvedObject.name=${name}`;
  const { items } = await client.list<EventObject>(resources.events, { namespace, fieldSelector, signal });
  return items.filter(({ involvedObject }) => (involvedObject?.uid ?? metadata.uid) === metadata.uid);
}
