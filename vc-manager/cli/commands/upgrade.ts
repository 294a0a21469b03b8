import type { Command } from 'commander';
import { isFetching } from '../../../api/conditions.ts';
import type { ControlPlaneTemplate } from '../../../api/control-plane-template.ts';
import { traitsOf } from '../../../api/drivers.ts';
import { annotationKeys } from '../../../api/labels.ts';
import type { VirtualClusterPolicy } from '../../../api/policy.ts';
import type { VirtualCluster } from '../../../api/virtual-cluster.ts';
import {
  findCondition,
  type KubeClient,
  messageOf,
  printable,
  resources,
  serverVersion,
  withClient,
} from '../../../kube/index.ts';
import { ControlPlaneError } from '../../control-plane/template.ts';
import { OperatorError } from '../../operator/errors.ts';
import {
  compareVersions,
  type VersionChoice,
  type VersionSources,
  versionChoice,
} from '../../operator/version-choice.ts';
import { kubernetesVersion } from '../arguments.ts';
import { tenantArgument, waitTimeoutOption } from '../command-line.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { CliError } from '../errors.ts';
import { followsRequest } from '../manager-request.ts';
import { withProgress, withStep } from '../progress.ts';
import { withSuperCluster } from '../super-cluster.ts';
import {
  backgroundConnection,
  getVirtualCluster,
  namespaceFlag,
  type VirtualClusterRef,
  validRef,
} from '../virtual-clusters.ts';
import { waitFor } from '../wait-for.ts';

interface Flags extends GlobalFlags {
  namespace: string;
  version?: string;
  dryRun?: boolean;
  force?: boolean;
  wait?: boolean;
  timeout: number;
  /** --timeout was not given: what is built for it is waited for. */
  isPatient: boolean;
}

const help = `
Takes the control plane of a tenant to another version: the newest that it can go to, or the one that is named. The new API
server is started beside the earlier one where there is a gateway or with the kubernetes driver; else it is away for some
seconds. There is no way back to an earlier version once the new one has been ready.

Before, its API server is asked which APIs the tenant has used since it was started that the new version does not have any
more. If there are any, nothing is changed without --force. Of several replicas one is asked. A tenant that is asleep is not
woken for that, and nothing is known of it; the change itself wakes it.

Examples:
  vc-manager upgrade team-blue --dry-run
  vc-manager upgrade team-blue --version 1.36 --wait`;

export function configure(command: Command, cli: Cli): void {
  command
    .addArgument(tenantArgument('<name>'))
    .option('-n, --namespace <namespace>', 'namespace of the VirtualCluster', 'default')
    .option('--version <version>', 'Kubernetes version, as 1.36 or 1.36.3', kubernetesVersion)
    .option('--dry-run', 'change nothing; say what would be done, and what speaks against it')
    .option('--force', 'even though the tenant uses APIs that the new version does not have')
    .option('--wait', 'return when the new version runs')
    .addOption(waitTimeoutOption())
    .addHelpText('after', help)
    .action(async (name: string, _, chosen: Command) =>
      upgrade(cli, name, {
        ...chosen.optsWithGlobals<Flags>(),
        isPatient: chosen.getOptionValueSource('timeout') === 'default',
      }),
    );
}

async function upgrade(cli: Cli, name: string, flags: Flags): Promise<void> {
  const ref = validRef(name, flags.namespace);
  await withSuperCluster(cli, flags, async (client) => {
    const vc = await getVirtualCluster(client, ref, cli.signal);
    const plan = await planUpgrade(client, vc, flags.version, cli.signal);
    const { change, removed } = plan;
    if (change === undefined || flags.dryRun) {
      cli.stdout.write(describeUpgrade(vc, plan, ' (dry run)'));
      return;
    }
    const isFollowed = await beginUpgrade(client, vc, plan, flags.force === true, cli);
    if (removed === undefined) cli.stderr.write(`note: ${describeObjections(removed, change.to)}`);
    if (!flags.wait) {
      const jobs = `vc-manager jobs ${name}${namespaceFlag(ref.namespace)}`;
      cli.stdout.write(`${name} goes from ${change.from} to ${change.to}: see "${jobs}"\n`);
      return;
    }
    const { timeout: timeoutMs, isPatient } = flags;
    await waitUntilRunning(cli, client, ref, { version: change.to, isFollowed, timeoutMs, isPatient });
    cli.stdout.write(`${name} runs ${change.to}\n`);
  });
}

export interface UpgradePlan {
  target: string;
  /** Absent: it runs that version already. */
  change?: { from: string; to: string };
  /** Without a change: why it goes to none of those that are newer. */
  kept?: string;
  /** APIs in use that the target does not have; undefined for a tenant that is asleep, which cannot be asked. */
  removed: readonly string[] | undefined;
}

/**
 * `program` reads the versions and limits that there are, `client` the tenant's kubeconfig. Throws `Conflict` for a version
 * that the tenant cannot go to, or when it cannot be asked which APIs it uses.
 */
export async function planUpgrade(
  client: KubeClient,
  vc: VirtualCluster,
  version: string | undefined,
  signal: AbortSignal,
  program = client,
): Promise<UpgradePlan> {
  const { name } = vc.metadata;
  const running = vc.status?.version;
  if (running === undefined)
    throw new CliError('Conflict', `${name} has no version yet: it is still being made`);
  const sources = await readSources(program, running, signal);
  // What the spec does not ask for yet has not been tried, and nothing holds it.
  const isNew = version !== undefined && version !== vc.spec?.version;
  const { generation = 0, ...metadata } = vc.metadata;
  const asked = { ...metadata, generation: isNew ? generation + 1 : generation };
  let kept: string | undefined;
  for (const target of version === undefined ? newerVersions(running, sources) : [version]) {
    const wanted: VirtualCluster = { ...vc, metadata: asked, spec: { ...vc.spec, version: target } };
    const { change, refusal } = choiceOrRefusal(wanted, sources);
    if (change !== undefined)
      return { target, change, removed: await removedApis(client, vc, change.to, signal) };
    if (refusal === undefined) return { target, removed: [] };
    const why = `${name} cannot go to ${target}. ${refusal.message}`;
    if (version !== undefined || isOnHold(refusal)) throw new CliError('Conflict', why);
    kept ??= why;
  }
  return { target: running, removed: [], ...(kept === undefined ? {} : { kept }) };
}

/** What cannot even be said of the version that runs, as no template is for it, is a refusal too. */
function choiceOrRefusal(
  wanted: VirtualCluster,
  sources: VersionSources,
): Pick<VersionChoice, 'change' | 'refusal'> {
  try {
    return versionChoice(wanted, sources);
  } catch (error) {
    if (!(error instanceof OperatorError || error instanceof ControlPlaneError)) throw error;
    return { refusal: { reason: error.code, message: error.message } };
  }
}

/** A change that has failed or was cancelled is not a reason to go elsewhere. */
function isOnHold({ reason }: { reason: string }): boolean {
  return reason === 'RolledBack' || reason === 'Cancelled';
}

/** What would be done, and what speaks against it; ends with a newline. `note`: after what would be done. */
export function describeUpgrade(
  { metadata, status }: VirtualCluster,
  { change, kept, removed }: UpgradePlan,
  note = '',
): string {
  if (change === undefined)
    return `${metadata.name} runs ${status?.version} already\n${kept === undefined ? '' : `${kept}\n`}`;
  const { from, to } = change;
  const isSurge = status?.gateway !== undefined || traitsOf(status?.driver).replacesBySurge;
  const how =
    status?.phase === 'Asleep'
      ? 'it is woken for that'
      : isSurge
        ? 'its API server is replaced by one that is started beside it, and watches begin anew'
        : 'its API server is replaced and away for some seconds';
  return (
    `${metadata.name} would go from ${from} to ${to}${note}: ${how}; its pods run on. ` +
    `There is no way back.\n${describeObjections(removed, to)}`
  );
}

/**
 * Resolves to whether the manager has looked at it since, which a later state of the VirtualCluster tells. Throws `Conflict`
 * when the tenant uses APIs that the target does not have, unless it is forced.
 */
export async function beginUpgrade(
  client: KubeClient,
  vc: VirtualCluster,
  { target, change, removed }: UpgradePlan,
  isForced: boolean,
  { signal, clock }: Pick<Cli, 'signal' | 'clock'>,
): Promise<(found: VirtualCluster) => boolean> {
  if (change !== undefined && removed !== undefined && removed.length > 0 && !isForced) {
    const objections = describeObjections(removed, change.to);
    throw new CliError('Conflict', `nothing was changed. ${objections}Change them first, or use --force.`);
  }
  const { name = '', namespace = '' } = vc.metadata;
  const retry = { annotation: annotationKeys.retryJob, value: new Date(clock.now()).toISOString() };
  // The spec asks for it already: that it does so again would be no news.
  const isRefused = findCondition(vc.status?.conditions, 'VersionCurrent')?.status === 'False';
  const isRetry = isRefused && vc.spec?.version === target;
  const metadata = { annotations: { [retry.annotation]: retry.value } };
  const patch = { spec: { version: target }, ...(isRetry && { metadata }) };
  await client.patch(resources.virtualClusters, { name, namespace }, patch, { type: 'merge', signal });
  return isRetry ? followsRequest(retry, vc, ({ jobs }) => jobs?.retried) : () => true;
}

async function waitUntilRunning(
  cli: Cli,
  client: KubeClient,
  ref: { namespace: string; name: string },
  {
    version,
    isFollowed,
    timeoutMs,
    isPatient,
  }: {
    version: string;
    isFollowed: (found: VirtualCluster) => boolean;
    timeoutMs: number;
    isPatient: boolean;
  },
): Promise<void> {
  const { clock, signal } = cli;
  await withProgress(cli, (progress) =>
    withStep(progress, `Waiting for ${version}`, (step) =>
      waitFor({
        ...{ client, ref, clock, signal, timeoutMs },
        isSlow: (vc) => isPatient && isFetching(vc),
        onChange: ({ status }) => step.update(status?.jobs?.current?.message || 'waiting for the manager'),
        what: `run ${version}`,
        until: (found) => isUpgraded(found, ref, version, isFollowed),
      }),
    ),
  );
}

/** Throws `Conflict` for one that does not go there. What was said before it was asked does not count. */
export function isUpgraded(
  found: VirtualCluster | undefined,
  { name, namespace }: VirtualClusterRef,
  version: string,
  isFollowed: (found: VirtualCluster) => boolean = () => true,
): boolean {
  if (found === undefined) throw new CliError('NotFound', `${name} is gone`);
  const { phase, conditions, observedGeneration } = found.status ?? {};
  const isOfNow = (generation = 0): boolean =>
    generation >= (found.metadata.generation ?? 0) && isFollowed(found);
  const current = findCondition(conditions, 'VersionCurrent');
  if (current?.status === 'False' && phase === 'Ready' && isOfNow(current.observedGeneration))
    throw new CliError('Conflict', current.message ?? 'the change of version was refused');
  if (phase === 'Failed' && isOfNow(observedGeneration))
    throw new CliError(
      'Conflict',
      `${name} has failed: see "vc-manager describe ${name}${namespaceFlag(namespace)}"`,
    );
  return found.status?.version === version && phase === 'Ready';
}

/** Throws `Forbidden` for a client that may not list templates or policies. */
export async function readSources(
  client: KubeClient,
  running: string,
  signal: AbortSignal,
): Promise<VersionSources> {
  const [templates, policies, superVersion] = await Promise.all([
    client.list<ControlPlaneTemplate>(resources.controlPlaneTemplates, { signal }),
    client.list<VirtualClusterPolicy>(resources.virtualClusterPolicies, { signal }),
    serverVersion(client, { signal }),
  ]);
  return {
    templates: { list: () => templates.items },
    policies: { list: () => policies.items },
    settings: { defaultVersion: running },
    superVersion,
  };
}

/** Of the versions that templates have, those after the one that runs, the newest first. */
function newerVersions(running: string, { templates }: VersionSources): string[] {
  const known = new Set(Array.from(templates.list(), ({ spec }) => spec.kubernetesVersion));
  return [...known]
    .filter((version) => compareVersions(version, running) > 0)
    .sort((a, b) => compareVersions(b, a));
}

/** More is not read of what a tenant's API server answers. */
const maxLines = 100_000;
const longestLine = 2_000;
const metric = 'apiserver_requested_deprecated_apis{';

/**
 * APIs that the tenant has used since its API server was started, and that the version does not serve any more: as the
 * API server itself counts them; one that was just woken would have counted nothing. Throws `Conflict` when it does not
 * answer.
 */
async function removedApis(
  client: KubeClient,
  vc: VirtualCluster,
  version: string,
  signal: AbortSignal,
): Promise<string[] | undefined> {
  if (vc.status?.phase === 'Asleep') return undefined;
  const connection = await backgroundConnection(client, vc, signal);
  const readLimits = { objectBytes: 12 * 1024 * 1024, answerValues: 250_000 };
  try {
    const text = await withClient({ ...connection, readLimits }, (asked) =>
      asked.raw('GET', '/metrics', { signal }),
    );
    return parseDeprecatedApis(String(text), version);
  } catch (cause) {
    throw new CliError(
      'Conflict',
      `its API server cannot be asked which APIs are in use (${messageOf(cause)}): see "vc-manager describe ${vc.metadata.name}${namespaceFlag(vc.metadata.namespace ?? '')}"`,
      { cause },
    );
  }
}

/** From the metrics of an API server, `resource.version.group` of each that is in use and removed by that version. */
export function parseDeprecatedApis(metrics: string, version: string): string[] {
  const target = Number(version.split('.')[1]);
  const found = new Set<string>();
  for (const line of metrics.split('\n', maxLines)) {
    if (!line.startsWith(metric)) continue;
    const labels = new Map(
      line
        .slice(metric.length, longestLine)
        .split('",')
        .map((pair) => pair.split('="', 2))
        .map(([key = '', value = '']) => [key, value] as const),
    );
    const label = (name: string): string => printable(labels.get(name)?.split('"', 1)[0] ?? '', 253);
    const [, removedMinor] = label('removed_release').split('.');
    if (removedMinor === undefined || Number(removedMinor) > target || !line.endsWith(' 1')) continue;
    const group = label('group');
    found.add(`${label('resource')}.${label('version')}${group === '' ? '' : `.${group}`}`);
  }
  return [...found].sort();
}

function describeObjections(removed: UpgradePlan['removed'], version: string): string {
  if (removed === undefined)
    return `Which APIs it uses that ${version} does not have is unknown: it sleeps, and its API server cannot be asked.\n`;
  if (removed.length === 0) return 'No API is in use that it does not have.\n';
  return `The tenant uses APIs that ${version} does not have: ${removed.slice(0, 20).join(', ')}.\n`;
}
