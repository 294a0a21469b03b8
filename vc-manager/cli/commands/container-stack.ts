import { Argument, type Command, InvalidArgumentError } from 'commander';
import { defaultSystemNamespace } from '../../../api/names.ts';
import { type Lease, resources } from '../../../kube/index.ts';
import { ContainerStack, defaultContainerPorts } from '../../local-stack/container-stack.ts';
import { type StackPorts, stackPortNames } from '../../local-stack/stack-ports.ts';
import { ipAddress, wholeNumber } from '../arguments.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { stateChoice, writeSettings } from '../state-directory.ts';
import { withSuperCluster } from '../super-cluster.ts';
import { grantComponentRights } from '../up/components.ts';

interface Flags extends GlobalFlags {
  nodes: number;
  advertiseAddress: string;
  port?: Partial<StackPorts>;
  syncerPorts: { metrics: number; kubelet: number };
}

const help = `
docker-compose.yml calls these steps; each ends when it is done.

  prepare     write certificates, kubeconfigs and configuration for every container into the state directory
  wait NAME.. until these components answer: etcd, datastore, kube-apiserver
  grant       what manager, syncer and gateway may do in the super cluster
  simulate    simulated nodes and storage in the super cluster; until the nodes are ready
  healthy     whether a manager works on the super cluster just now

Example:
  vc-manager container-stack prepare --state-dir /var/lib/skerry --nodes 3 --port super-cluster=6443`;

/** A lease that was not renewed for longer than this is not held. */
const leaseFreshMs = 60_000;

export function configure(command: Command, cli: Cli): void {
  command
    .addArgument(
      new Argument('<step>', 'what to do').choices(['prepare', 'wait', 'grant', 'simulate', 'healthy']),
    )
    .argument('[names...]', 'components to wait for')
    .option('--nodes <n>', 'simulated nodes; 0 for none, and no storage', wholeNumber(0, 2048), 3)
    .option('--advertise-address <address>', 'of the super cluster; not loopback', ipAddress, '192.0.2.1')
    .option(
      '--port <name=port>',
      `a port other than the usual one: ${stackPortNames.join(', ')}; repeatable`,
      stackPort,
    )
    .option('--syncer-ports <metrics,kubelet>', 'of the syncer', portPair, {
      metrics: 20_451,
      kubelet: 20_250,
    })
    .addHelpText('after', help)
    .action(async (step: string, names: string[], _, chosen: Command) =>
      containerStack(cli, step, names, chosen.optsWithGlobals<Flags>()),
    );
}

async function containerStack(cli: Cli, step: string, names: string[], flags: Flags): Promise<void> {
  const { directory: stateDir } = stateChoice(cli.env, flags);
  const stack = new ContainerStack({ stateDir, clock: cli.clock });
  const report = (message: string): void => void cli.stderr.write(`${message}\n`);
  if (step === 'prepare') {
    const { nodes, advertiseAddress, port, syncerPorts } = flags;
    await stack.prepare({ nodes, advertiseAddress, ports: { ...defaultContainerPorts, ...port } });
    // Makes the other commands in this state directory use the local super cluster.
    await writeSettings(stateDir, { superCluster: 'local', ports: syncerPorts });
    report(`certificates, kubeconfigs and configuration are in ${stateDir}`);
  } else if (step === 'wait') {
    await stack.wait(names, cli.signal, report);
    report(`ready: ${names.join(', ')}`);
  } else if (step === 'grant') {
    await withSuperCluster(cli, flags, (client) => grantComponentRights(client, cli.signal));
    report('manager, syncer and gateway have their rights');
  } else if (step === 'simulate') {
    await stack.simulate(cli.signal, report);
    report('the nodes are ready');
  } else {
    const holder = await leaseHolder(cli, flags);
    cli.stdout.write(`${holder} works\n`);
  }
}

async function leaseHolder(cli: Cli, flags: Flags): Promise<string> {
  return withSuperCluster(cli, flags, async (client) => {
    const name = { namespace: defaultSystemNamespace, name: 'skerry-vc-manager' };
    const lease = await client.get<Lease>(resources.leases, name, { signal: cli.signal });
    const { holderIdentity, renewTime } = lease.spec ?? {};
    const age = cli.clock.now() - Date.parse(renewTime ?? '');
    if (holderIdentity && age < leaseFreshMs) return holderIdentity;
    throw new Error(
      `no manager has renewed its lease (the last was ${holderIdentity || 'unknown'}, ${renewTime})`,
    );
  });
}

function stackPort(text: string, before: Partial<StackPorts> = {}): Partial<StackPorts> {
  const [, name, port] = /^([a-z-]+)=(\d+)$/.exec(text) ?? [];
  const number = Number(port);
  if (!(stackPortNames as readonly string[]).includes(name ?? '') || number < 1 || number > 65_535) {
    throw new InvalidArgumentError('Give one of the names and a port from 1 to 65535: super-cluster=6443.');
  }
  return { ...before, [name as string]: number };
}

function portPair(text: string): { metrics: number; kubelet: number } {
  const [metrics = 0, kubelet = 0] = /^(\d+),(\d+)$/.exec(text)?.slice(1).map(Number) ?? [];
  if ([metrics, kubelet].every((port) => port >= 1 && port <= 65_535)) return { metrics, kubelet };
  throw new InvalidArgumentError('Give two ports with a comma between them: 20451,20250.');
}
