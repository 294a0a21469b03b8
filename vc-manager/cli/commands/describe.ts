import { type Command, Option } from 'commander';
import { noSyncerReason } from '../../../api/conditions.ts';
import { traitsOf } from '../../../api/drivers.ts';
import { sleepAfterIdleMs } from '../../../api/tenant-state.ts';
import type { VirtualCluster, VirtualClusterStatus } from '../../../api/virtual-cluster.ts';
import { wakeReasonText } from '../../../api/wake-reasons.ts';
import { printable } from '../../../kube/index.ts';
import { inMiB } from '../../operator/errors.ts';
import { placementText } from '../../operator/moves.ts';
import { dnsOf } from '../../operator/warm-members.ts';
import { tenantArgument } from '../command-line.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { jobsOf, jobTable } from '../job-table.ts';
import { ageSince, indented, serialize, styler, table, withKind } from '../output.ts';
import { withSuperCluster } from '../super-cluster.ts';
import {
  getVirtualCluster,
  limitations,
  namespaceFlag,
  programLogs,
  quotaOf,
  readyCondition,
  validRef,
} from '../virtual-clusters.ts';
import { stageText } from './certificates.ts';
import { type Event, eventsOf } from './events.ts';

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
    .addArgument(tenantArgument('<name>'))
    .option('-n, --namespace <namespace>', 'namespace of the VirtualCluster', 'default')
    .addOption(new Option('-o, --output <format>', 'print the object').choices(['json', 'yaml']))
    .addHelpText('after', help)
    .action(async (name: string, _, chosen: Command) => describe(cli, name, chosen.optsWithGlobals<Flags>()));
}

async function describe(cli: Cli, name: string, flags: Flags): Promise<void> {
  const ref = validRef(name, flags.namespace);
  await withSuperCluster(cli, flags, async (client) => {
    const vc = await getVirtualCluster(client, ref, cli.signal);
    if (flags.output !== undefined) {
      cli.stdout.write(serialize(flags.output, withKind(vc)));
      return;
    }
    const events = await eventsOf(client, ref, vc, cli.signal);
    cli.stdout.write(describeTenant(vc, events, cli));
  });
}

const latestEvents = 15;
const longestAdvice = 10_000;

/** The text of `describe`. */
function describeTenant(
  vc: VirtualCluster,
  events: readonly Event[],
  { stdout, clock }: Pick<Cli, 'stdout' | 'clock'>,
): string {
  const nowMs = clock.now();
  const style = styler(stdout);
  const heading = (text: string): string => `\n${style('bold', text)}\n`;
  const parts = [table(undefined, tenantRows(vc, nowMs))];
  const conditions = vc.status?.conditions ?? [];
  const policy = policyRows(vc);
  if (policy.length > 0) parts.push(heading('Policy:'), indented(table(undefined, policy)));
  const quota = quotaOf(vc).map(({ resource, used, allowed }) => [resource, used ?? '-', allowed]);
  if (quota.length > 0)
    parts.push(heading('Quota:'), indented(table(['RESOURCE', 'USED', 'ALLOWED'], quota)));
  parts.push(heading('Conditions:'));
  if (conditions.length === 0) parts.push('  none yet: no manager has looked at it\n');
  else {
    const header = ['TYPE', 'STATUS', 'REASON', 'AGE', 'MESSAGE'];
    const rows = conditions.map(({ type, status, reason, lastTransitionTime, message }) => [
      type,
      status,
      reason ?? '',
      ageSince(lastTransitionTime, nowMs),
      message ?? '',
    ]);
    parts.push(indented(table(header, rows)));
  }
  const jobs = jobsOf(vc);
  parts.push(heading('Jobs:'));
  parts.push(jobs.length === 0 ? '  none\n' : indented(jobTable(jobs, nowMs)));
  parts.push(heading('Events:'));
  parts.push(events.length === 0 ? '  none\n' : indented(eventTable(events, nowMs)));
  parts.push(heading('What to do:'));
  const lines = advice(vc).map((line) => printable(line, longestAdvice));
  parts.push(indented(`${lines.join('\n')}\n`));
  return parts.join('');
}

/** What it does not have yet is `-`. */
export function tenantRows({ metadata, spec, status }: VirtualCluster, nowMs: number): string[][] {
  const { name = '', namespace = '' } = metadata;
  const deleting = metadata.deletionTimestamp;
  const { resources: _ofQuota, month, ...counts } = status?.usage ?? {};
  const kubeconfig = status?.kubeconfigSecret;
  const isMade = kubeconfig !== undefined;
  const usage = Object.entries(counts).map(([what, count]) => `${count} ${what}`);
  return [
    ['Name:', name],
    ['Namespace:', namespace],
    ['Phase:', `${deleting === undefined ? (status?.phase ?? 'Pending') : 'Deleting'}`],
    ['Created:', `${metadata.creationTimestamp} (${ageSince(metadata.creationTimestamp, nowMs)} ago)`],
    ...(deleting === undefined ? [] : [['Deleted:', `${deleting} (${ageSince(deleting, nowMs)} ago)`]]),
    ['Id:', status?.id ?? '-'],
    ...(status?.fromPool === undefined ? [] : [['From the pool:', status.fromPool.member]]),
    ['Version:', status?.version ?? (spec?.version === undefined ? '-' : `${spec.version} (wanted)`)],
    ...(spec?.template === undefined ? [] : [['Template:', spec.template]]),
    ...(status?.driver === undefined ? [] : [['Driver:', driverText(status)]]),
    ...(status?.datastore === undefined ? [] : [['Datastore:', status.datastore]]),
    ['Encryption:', isMade ? encryptionOf(status?.encryption) : '-'],
    ...certificateRows(status),
    ['Endpoint:', status?.endpoint ?? '-'],
    ...(status?.gateway === undefined ? [] : [['Gateway:', gatewayText(status.gateway)]]),
    ['Service addresses:', status?.serviceCIDR ?? '-'],
    ['Cluster domain:', spec?.clusterDomain ?? 'cluster.local'],
    ...(spec?.extraNames === undefined ? [] : [['Extra names:', spec.extraNames.join(', ')]]),
    ['DNS:', spec?.dns ?? (isMade ? dnsOf({ status }) : '-')],
    ['Weight:', String(spec?.weight ?? 1)],
    ['Kubeconfig:', kubeconfig === undefined ? '-' : `Secret ${namespace}/${kubeconfig.name}`],
    ...(sleepAfterIdleMs({ spec: spec ?? {} }) === undefined
      ? []
      : [['Sleeps:', `after ${spec?.sleep?.afterIdle} without a connection`]]),
    ...(status?.restored === undefined || status.restored.refused !== undefined
      ? []
      : [['Restored:', `${status.restored.at}, from ${status.restored.from}`]]),
    ...snapshotRows(status?.snapshots),
    ...movedRows(status),
    ...sleepRows(status),
    ['Usage:', usage.length === 0 ? '-' : usage.join(', ')],
    ...(month === undefined
      ? []
      : [[`Usage of ${month.of}:`, `${month.podHours.toFixed(1)} pod hours, ${month.apiCalls} API calls`]]),
  ];
}

function snapshotRows({ storage }: NonNullable<VirtualClusterStatus['snapshots']> = {}): string[][] {
  if (storage === undefined) return [];
  return [
    [
      'Snapshot storage:',
      `${inMiB(storage.usedBytes)} of ${inMiB(storage.maxBytes)} of its namespace, when one was last taken or refused`,
    ],
  ];
}

function sleepRows({ sleep = {} }: VirtualClusterStatus = {}): string[][] {
  const { since, reason, dueAt, dueFor, wokenAt, wokenBy, wokenFor } = sleep;
  const row = (title: string, first: string | undefined, second: string | undefined): string[][] =>
    first === undefined ? [] : [[title, second === undefined ? first : `${first}, ${second}`]];
  const isBeingWoken = wokenBy !== undefined && wokenAt === undefined;
  return [
    ...row('Asleep since:', since, reason),
    ...row('Wakes:', dueAt, dueFor && `for ${dueFor}`),
    ...row('Woken:', isBeingWoken ? 'under way' : wokenAt, wokenBy && wakeReasonText(wokenBy, wokenFor)),
  ];
}

function movedRows({ move, moved }: VirtualClusterStatus = {}): string[][] {
  if (move !== undefined) return [['Moving:', `to ${placementText(move.to)}, ${move.stage}`]];
  if (moved === undefined) return [];
  const { at, from, to, why, pausedMs } = moved;
  const pause = pausedMs === undefined ? '' : `, paused for ${(pausedMs / 1_000).toFixed(1)} s`;
  return [
    [
      'Moved:',
      why === undefined
        ? `${at}, from ${placementText(from)}${pause}`
        : `not to ${placementText(to)}: ${why}`,
    ],
  ];
}

function gatewayText({
  server,
  serverName,
  port,
  podAddress,
}: NonNullable<NonNullable<VirtualCluster['status']>['gateway']>): string {
  if (port === undefined) return `${server} (server name ${serverName})`;
  return podAddress === undefined ? server : `${server} (pods at ${podAddress}, port ${port})`;
}

/** Of a control plane that is confined so, and of one that is not. */
const confinementTexts = {
  resources: ['memory and CPU are limited', 'memory and CPU are not limited'],
  egress: ['on its machine it may dial only what it needs', 'may dial any port of its machine'],
} as const;

/** The driver, and what it confines the control plane in (docs/drivers.md#limits). */
export function driverText({ driver, confinement = [] }: VirtualClusterStatus): string {
  if (driver === undefined) return '-';
  const said = traitsOf(driver).confines.map((what) => {
    const [confined, free] = confinementTexts[what];
    return confinement.includes(what) ? confined : free;
  });
  return said.length === 0 ? driver : `${driver} (${said.join('; ')})`;
}

/** What expires first, of what is renewed by itself and of what is not. */
function certificateRows({ certificates = [], authorities }: VirtualClusterStatus = {}): string[][] {
  const row = (title: string, wanted: (typeof certificates)[number]['kind']): string[][] => {
    const [first] = certificates
      .filter(({ kind }) => kind === wanted)
      .toSorted((a, b) => Date.parse(a.expires) - Date.parse(b.expires));
    return first === undefined ? [] : [[title, `the first to expire is ${first.name}, ${first.expires}`]];
  };
  return [
    ...row('Authorities:', 'authority'),
    ...row('Certificates:', 'certificate'),
    ...(authorities === undefined ? [] : [['', stageText(authorities)]]),
  ];
}

/** What protects the tenant's Secrets in the datastore. */
function encryptionOf({ key, rotation }: NonNullable<VirtualCluster['status']>['encryption'] = {}): string {
  const now = key === undefined ? 'Secrets are stored as they are' : `Secrets, with ${key}`;
  return rotation === undefined ? now : `${now}; a new key is being taken up (${rotation})`;
}

function eventTable(events: readonly Event[], nowMs: number): string {
  const when = (event: Event): string =>
    event.lastTimestamp ?? event.eventTime ?? event.metadata.creationTimestamp ?? '';
  const rows = events
    .toSorted((a, b) => Date.parse(when(a)) - Date.parse(when(b)))
    .slice(-latestEvents)
    .map((event) => [
      ageSince(when(event), nowMs),
      event.type ?? '',
      event.reason ?? '',
      `${event.message ?? ''}${(event.count ?? 1) > 1 ? ` (x${event.count})` : ''}`,
    ]);
  return table(['AGE', 'TYPE', 'REASON', 'MESSAGE'], rows);
}

/** The effective policy as rows of name and value; no rows before the manager has computed it. */
function policyRows({ status }: VirtualCluster): string[][] {
  const policy = status?.policy;
  if (policy === undefined) return [];
  const list = (name: string, items: readonly string[]): string[][] =>
    items.length === 0 ? [] : [[name, items.join(', ')]];
  /** A list that tightens: an empty one leaves nothing. */
  const only = (name: string, items: readonly string[] | undefined): string[][] =>
    items === undefined ? [] : [[name, items.length === 0 ? 'none' : items.join(', ')]];
  const nodes = Object.entries(policy.nodeSelector ?? {}).map(([key, value]) => `${key}=${value}`);
  return [
    ['Limited by:', policy.ceiling === undefined ? 'the defaults' : `VirtualClusterPolicy ${policy.ceiling}`],
    ['Pod Security:', policy.podSecurity],
    ['DaemonSets:', policy.daemonSets],
    ...list('Volume types:', policy.volumeTypes),
    ...list('Schedulers:', policy.schedulerNames),
    ...(policy.runtimeClassName === undefined ? [] : [['Runtime class:', policy.runtimeClassName]]),
    ...(policy.externalIPs ? [['External IPs:', 'allowed']] : []),
    ...(policy.loadBalancerOptions ? [['Load balancer options:', 'allowed']] : []),
    ...list('Endpoint ranges:', policy.endpointCIDRs),
    ...list('Ingress hosts:', policy.ingressHosts),
    ...list('Tolerations:', policy.tolerations ?? []),
    ...(policy.alwaysPullImages === true ? [['Images:', 'always pulled']] : []),
    ...only('Registries:', policy.imageRegistries),
    ...only('Capabilities:', policy.capabilities),
    ...only('Host ports:', policy.hostPorts),
    ...only('Priority classes:', policy.priorityClasses),
    ...only('Storage classes:', policy.storageClasses),
    ...only('Runtime classes:', policy.runtimeClasses),
    ...only('Ingress classes:', policy.ingressClasses),
    ...(policy.weight === undefined ? [] : [['Share:', `weight ${policy.weight}`]]),
    ['Nodes:', `${nodes.length === 0 ? 'every node' : nodes.join(',')}${policy.hideNodes ? ', hidden' : ''}`],
  ];
}

const slowAfterMs = 3 * 60_000;

/** What the user can do next; at least one line. */
export function advice(vc: VirtualCluster, nowMs = Date.now()): string[] {
  const { name = '', namespace = '' } = vc.metadata;
  const where = namespaceFlag(namespace);
  const held = pendingDecisions(vc);
  if (vc.metadata.deletionTimestamp !== undefined) return [...held, ...deletionAdvice(vc, nowMs, where)];
  const phase = vc.status?.phase;
  if (phase === 'Ready') {
    const use = `Use it: vc-manager kubeconfig ${name}${where} > ${name}.kubeconfig`;
    return [...(held.length === 0 ? [use] : held), ...limitations(vc)];
  }
  if (phase === 'Asleep') {
    const wake = `Wake it: vc-manager wake ${name}${where}`;
    return [...held, vc.status?.gateway === undefined ? wake : `${wake}, or just connect to it`];
  }
  if (phase === 'Failed') {
    return [
      ...held,
      readyCondition(vc)?.message ?? 'It has failed; its Ready condition has no message.',
      'The manager tries again by itself when the VirtualCluster changes.',
      `Its components' logs: vc-manager logs ${name}${where}`,
    ];
  }
  if (phase === 'Cancelled') {
    return [
      ...held,
      `Start it again: vc-manager jobs retry ${name}${where}`,
      `Or delete it: vc-manager delete ${name}${where}`,
    ];
  }
  if (phase === undefined || phase === 'Pending') {
    // With a phase, a manager has seen it and its Ready condition says what it waits for.
    const message = phase === undefined ? undefined : readyCondition(vc)?.message;
    if (message !== undefined) return [...held, message];
    if (!isOld(vc.metadata.creationTimestamp, nowMs))
      return [...held, 'Wait: it is about to be provisioned.'];
    return [
      ...held,
      'No manager works on it. Is one running? "vc-manager up", "vc-manager operator" or the Helm chart starts one.',
      programLogs('manager'),
    ];
  }
  if (isOld(vc.metadata.creationTimestamp, nowMs)) {
    return [...held, `It takes unusually long. See its components' logs: vc-manager logs ${name}${where}`];
  }
  return [...held, `Wait: vc-manager describe ${name}${where} shows how far it is.`];
}

/** Conditions in which the syncer waits for the operator's decision; their messages name the command. */
function pendingDecisions(vc: VirtualCluster): string[] {
  const conditions = vc.status?.conditions ?? [];
  const waiting = conditions.filter(
    ({ type, status }) => (type === 'DeletionHeld' || type === 'IdentityMismatch') && status === 'True',
  );
  const lines = waiting.map(({ type, message }) => message ?? type);
  const synced = conditions.find(({ type }) => type === 'Synced');
  if (vc.status?.phase === 'Ready' && vc.metadata.deletionTimestamp === undefined) {
    if ((synced?.status === 'False' && synced.reason !== 'Joining') || synced?.reason === noSyncerReason)
      lines.push(`It is not synced: ${synced.message ?? synced.reason ?? 'no reason given'}`);
    if (synced === undefined) {
      lines.push('No syncer has joined it yet. Is one running?', programLogs('syncer'));
    }
  }
  return lines;
}

function deletionAdvice(vc: VirtualCluster, nowMs: number, where: string): string[] {
  if (!isOld(vc.metadata.deletionTimestamp, nowMs)) return ['Wait: it is being removed.'];
  const message = readyCondition(vc)?.message;
  return [
    `Its removal takes unusually long${message === undefined ? '' : `: ${message}`}`,
    'A manager has to run for it to end.',
    programLogs('manager'),
    `Never remove the finalizer by hand: vc-manager describe ${vc.metadata.name}${where} names what is left.`,
  ];
}

function isOld(timestamp: string | undefined, nowMs: number): boolean {
  return nowMs - Date.parse(timestamp ?? '') > slowAfterMs;
}
