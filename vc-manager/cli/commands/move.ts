import { type Command, Option } from 'commander';
import type { ControlPlaneTemplate } from '../../../api/control-plane-template.ts';
import { type DriverName, defaultDriver } from '../../../api/drivers.ts';
import { annotationKeys } from '../../../api/labels.ts';
import type { ControlPlanePlacement, DatastoreName, VirtualCluster } from '../../../api/virtual-cluster.ts';
import { findCondition, isForbidden, type KubeClient, resources } from '../../../kube/index.ts';
import { ControlPlaneError, minorOf } from '../../control-plane/template.ts';
import { isHeld } from '../../jobs/job-status.ts';
import { OperatorError } from '../../operator/errors.ts';
import { checkPlacement, placementText } from '../../operator/moves.ts';
import { type VersionSources, versionChoice } from '../../operator/version-choice.ts';
import { tenantArgument, waitTimeoutOption } from '../command-line.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { driverChoices } from '../drivers.ts';
import { CliError, invalidArgument } from '../errors.ts';
import { followsRequest } from '../manager-request.ts';
import { json } from '../output.ts';
import { withProgress, withStep } from '../progress.ts';
import { withSuperCluster } from '../super-cluster.ts';
import { getVirtualCluster, namespaceFlag, type VirtualClusterRef, validRef } from '../virtual-clusters.ts';
import { waitFor } from '../wait-for.ts';
import { readSources } from './upgrade.ts';

interface Flags extends GlobalFlags {
  namespace: string;
  driver?: DriverName;
  datastore?: DatastoreName;
  template?: string;
  dryRun?: boolean;
  wait?: boolean;
  timeout: number;
  output?: 'json';
}

const help = `
Moves the control plane of a tenant to another driver, or between the datastore of all tenants and an etcd of its own. The
new place is prepared while the old one serves. Then both are away for some seconds, in which clients of the gateway wait: what
the tenant has is copied, and the control plane is started at the new place. Kubeconfigs, authorities and identity stay, and
pods run on. Into pods of the super cluster and out of them the API server gets another address, so that takes a gateway.
What is left at the old place goes when the new one is ready; when that does not start, the old one goes on, and the command
says why. A tenant that is asleep is woken by it.

Until the old control plane is stopped, "vc-manager jobs cancel NAME" ends it, and so does setting the spec back.

Examples:
  vc-manager move team-blue --datastore own --dry-run
  vc-manager move team-blue --datastore own --wait       says how long it was away
  vc-manager move team-blue --driver compose --wait      the manager needs --other-driver compose`;

export function configure(command: Command, cli: Cli): void {
  command
    .addArgument(tenantArgument('<name>'))
    .option('-n, --namespace <namespace>', 'namespace of the VirtualCluster', 'default')
    .addOption(
      new Option('--driver <driver>', 'what is to run it (default: what does)').choices(driverChoices),
    )
    .addOption(
      new Option('--datastore <which>', 'where its keys are to lie (default: where they do)').choices([
        'shared',
        'own',
      ]),
    )
    .option('--template <name>', 'ControlPlaneTemplate with that datastore, where there are several')
    .option('--dry-run', 'change nothing, and say what would be changed, or what speaks against it')
    .option('--wait', 'return when it is there, or back')
    .addOption(waitTimeoutOption())
    .addOption(new Option('-o, --output <format>', 'print what is, or was, done').choices(['json']))
    .addHelpText('after', help)
    .action(async (name: string, _, chosen: Command) => move(cli, name, chosen.optsWithGlobals<Flags>()));
}

type Placement = Pick<ControlPlanePlacement, 'driver' | 'datastore'>;

interface PlannedMove {
  from: Placement;
  to: Placement;
  spec: { driver?: DriverName; template?: string };
}

async function move(cli: Cli, name: string, flags: Flags): Promise<void> {
  const ref = validRef(name, flags.namespace);
  if (flags.driver === undefined && flags.datastore === undefined)
    throw invalidArgument('say where to, with --driver, --datastore or both');
  await withSuperCluster(cli, flags, async (client) => {
    const vc = await getVirtualCluster(client, ref, cli.signal);
    const planned = await planMove(vc, flags, async () => {
      const { items } = await client.list<ControlPlaneTemplate>(resources.controlPlaneTemplates, {
        signal: cli.signal,
      });
      return items;
    });
    const { from, to } = planned;
    const where = `from ${placementText(from)} to ${placementText(to)}`;
    if (flags.dryRun) {
      await refuseMove(cli, client, vc, planned);
      if (flags.output === 'json') cli.stdout.write(json({ ...ref, from, to, dryRun: true }));
      else cli.stdout.write(dryRunText(vc, planned));
      return;
    }
    const retry = await request(cli, client, vc, planned);
    if (!flags.wait) {
      if (flags.output === 'json') cli.stdout.write(json({ ...ref, from, to }));
      else
        cli.stdout.write(
          `${name} moves ${where}: see "vc-manager jobs ${name}${namespaceFlag(ref.namespace)}"\n`,
        );
      return;
    }
    const pausedMs = await waitUntilMoved(cli, client, { before: vc, retry }, flags.timeout);
    if (flags.output === 'json') cli.stdout.write(json({ ...ref, from, to, pausedMs }));
    else cli.stdout.write(`${name} moved ${where}: paused for ${(pausedMs / 1_000).toFixed(1)} s\n`);
  });
}

/** Throws `Conflict` for a tenant that cannot be moved now, or is there already. */
export async function planMove(
  { metadata, spec, status }: VirtualCluster,
  flags: Pick<Flags, 'driver' | 'datastore' | 'template'>,
  templates: () => Promise<readonly ControlPlaneTemplate[]>,
): Promise<PlannedMove> {
  const { name } = metadata;
  if (metadata.deletionTimestamp !== undefined) throw new CliError('Conflict', `${name} is being deleted`);
  if (status?.version === undefined || status.identities?.tenant === undefined)
    throw new CliError('Conflict', `${name} has not been ready yet: make it where it is to be`);
  if (status.move !== undefined)
    throw new CliError('Conflict', `${name} is being moved to ${placementText(status.move.to)} already`);
  const from: Placement = { driver: status.driver ?? defaultDriver, datastore: status.datastore ?? 'shared' };
  const to: Placement = { driver: flags.driver ?? from.driver, datastore: flags.datastore ?? from.datastore };
  if (from.driver === to.driver && from.datastore === to.datastore)
    throw new CliError('Conflict', `${name} is at ${placementText(to)} already`);
  const driver = from.driver === to.driver && spec?.driver === undefined ? {} : { driver: to.driver };
  if (from.datastore === to.datastore && flags.template === undefined) return { from, to, spec: driver };
  const suitable = (await templates())
    .filter(
      (each) =>
        (each.spec.datastore ?? 'shared') === to.datastore &&
        minorOf(each.spec.kubernetesVersion) === minorOf(status.version ?? ''),
    )
    .map((each) => each.metadata.name)
    .sort();
  const template = flags.template ?? only(suitable, `v${minorOf(status.version).replace('.', '-')}`);
  if (template === undefined || !suitable.includes(template))
    throw new CliError(
      'Conflict',
      suitable.length === 0
        ? `there is no ControlPlaneTemplate of Kubernetes ${minorOf(status.version)} with datastore: ${to.datastore}: ` +
            'create one, and name it with --template'
        : `say with --template which one it is to be: ${suitable.join(', ')}`,
    );
  return { from, to, spec: { ...driver, template } };
}

/** Throws `Conflict` with what the manager would have against it, as far as that is told by policies and versions. */
async function refuseMove(
  { signal, stderr }: Cli,
  client: KubeClient,
  vc: VirtualCluster,
  planned: PlannedMove,
): Promise<void> {
  let why: string | undefined;
  try {
    why = whyRefused(vc, planned, await readSources(client, vc.status?.version ?? '', signal));
  } catch (error) {
    if (!isForbidden(error)) throw error;
    stderr.write('note: whether its policy allows it is unknown: you may not list policies or templates\n');
  }
  if (why !== undefined) throw new CliError('Conflict', `${vc.metadata.name} would stay where it is: ${why}`);
}

export function whyRefused(
  vc: VirtualCluster,
  { from, to, spec }: PlannedMove,
  sources: VersionSources,
): string | undefined {
  try {
    checkPlacement(vc, from, { ...to, template: spec.template ?? '' }, sources);
    const { refusal } = versionChoice({ ...vc, spec: { ...vc.spec, ...spec } }, sources);
    return from.datastore === to.datastore ? undefined : refusal?.message;
  } catch (error) {
    if (!(error instanceof OperatorError || error instanceof ControlPlaneError)) throw error;
    return error.message;
  }
}

function only(names: readonly string[], usual: string): string | undefined {
  if (names.includes(usual)) return usual;
  return names.length === 1 ? names[0] : undefined;
}

function dryRunText({ metadata, status }: VirtualCluster, { from, to }: PlannedMove): string {
  const { name } = metadata;
  const lines = [
    `${name} would be moved from ${placementText(from)} to ${placementText(to)} (dry run).`,
    from.datastore === to.datastore
      ? 'Its data stays where it is.'
      : `${status?.datastoreUsage?.keys ?? 'All'} keys would be copied, and removed at the old place when the new one is ready.`,
    'Its API server would be away for some seconds, in which clients of the gateway wait; its pods run on.',
    ...(from.driver === to.driver
      ? []
      : [`The manager has to have the driver ${to.driver}: it says so if not.`]),
    ...(status?.phase === 'Asleep' ? ['It is asleep, and would be woken.'] : []),
    ...(status?.jobs?.current === undefined
      ? []
      : [`Its job ${status.jobs.current.kind} would be waited for.`]),
  ];
  return `${lines.join('\n')}\n`;
}

/** Resolves to the value of the annotation that asks for it once more; undefined: the spec asks for it. */
async function request(
  { clock, signal }: Cli,
  client: KubeClient,
  vc: VirtualCluster,
  { spec }: PlannedMove,
): Promise<string | undefined> {
  const { metadata, spec: has = {} } = vc;
  const { name = '', namespace } = metadata;
  const isAsked = Object.entries(spec).every(([field, value]) => has[field as keyof typeof spec] === value);
  // It was cancelled, or went back: the same once more.
  const retry = isAsked && isHeld(vc, 'move', clock.now()) ? new Date(clock.now()).toISOString() : undefined;
  const patch =
    retry === undefined ? { spec } : { metadata: { annotations: { [annotationKeys.retryJob]: retry } } };
  await client.patch(resources.virtualClusters, { name, namespace }, patch, { type: 'merge', signal });
  return retry;
}

/** Resolves to how long it was away. Throws `Conflict` with the reason when it is where it was. */
async function waitUntilMoved(
  cli: Cli,
  client: KubeClient,
  asked: AskedMove,
  timeoutMs: number,
): Promise<number> {
  const { clock, signal } = cli;
  const { name = '', namespace = '' } = asked.before.metadata;
  const ref: VirtualClusterRef = { name, namespace };
  let pausedMs = 0;
  await withProgress(cli, (progress) =>
    withStep(progress, `Moving ${name}`, (step) =>
      waitFor({
        ...{ client, ref, clock, signal, timeoutMs },
        what: `move ${name}`,
        onChange: (found) => step.update(found.status?.jobs?.current?.message ?? 'waiting for the manager'),
        until: (found) => {
          const ended = endOf(found, asked);
          pausedMs = ended ?? 0;
          return ended !== undefined;
        },
      }),
    ),
  );
  return pausedMs;
}

interface AskedMove {
  /** As it was before it was asked. */
  before: VirtualCluster;
  /** As `request` says. */
  retry: string | undefined;
}

/** How long it was away, when it is there; undefined while it is not. Throws `Conflict` when it will not be. */
export function endOf(found: VirtualCluster | undefined, { before, retry }: AskedMove): number | undefined {
  const { name } = before.metadata;
  if (found === undefined || found.metadata.uid !== before.metadata.uid)
    throw new CliError('NotFound', `${name} is gone`);
  const { move, moved, phase, conditions, jobs } = found.status ?? {};
  if (move !== undefined) return undefined;
  if (moved !== undefined && moved.at !== before.status?.moved?.at) {
    const { why, pausedMs = 0 } = moved;
    if (why !== undefined) {
      const away = pausedMs > 0 ? `, after ${(pausedMs / 1_000).toFixed(1)} s` : '';
      throw new CliError('Conflict', `${name} is where it was${away}: ${why}`);
    }
    return phase === 'Ready' ? pausedMs : undefined;
  }
  const placed = findCondition(conditions, 'Placed');
  // What is said of an earlier attempt goes when the manager follows the request, or a later one.
  const isFollowed =
    retry === undefined ||
    followsRequest(
      { annotation: annotationKeys.retryJob, value: retry },
      before,
      (status) => status.jobs?.retried,
    )(found);
  const isOfNow = isFollowed && (placed?.observedGeneration ?? 0) >= (found.metadata.generation ?? 0);
  if (placed?.status === 'False' && isOfNow && jobs?.current === undefined)
    throw new CliError('Conflict', `${name} stays where it is: ${placed.message ?? placed.reason}`);
  return undefined;
}
