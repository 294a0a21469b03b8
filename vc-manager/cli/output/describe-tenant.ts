import { secretNames } from '../../../api/names.ts';
import type { VirtualCluster } from '../../../api/virtual-cluster.ts';
import { type Condition, findCondition, type KubeObject } from '../../../kube/index.ts';
import { advice } from '../advice.ts';
import type { Cli } from '../context.ts';
import { jobsOf, jobTable } from './job-table.ts';
import { policyFacts } from './policy-facts.ts';
import { styler } from './style.ts';
import { table } from './table.ts';
import { ageSince } from './time.ts';

export interface EventObject extends KubeObject {
  type?: string;
  reason?: string;
  message?: string;
  count?: number;
  lastTimestamp?: string | null;
  eventTime?: string | null;
  involvedObject?: { uid?: string };
}

const latestEvents = 15;

/** All that is known about a tenant, for people. */
export function describeTenant(
  vc: VirtualCluster,
  events: readonly EventObject[],
  { stdout, clock }: Pick<Cli, 'stdout' | 'clock'>,
): string {
  const nowMs = clock.now();
  const style = styler(stdout);
  const heading = (text: string): string => `\n${style('bold', text)}\n`;
  const parts = [table(undefined, facts(vc, nowMs))];
  const conditions = vc.status?.conditions ?? [];
  const policy = policyFacts(vc);
  if (policy.length > 0) parts.push(heading('Policy:'), indented(table(undefined, policy)));
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
  parts.push(indented(`${advice(vc).join('\n')}\n`));
  return parts.join('');
}

function facts({ metadata, spec, status }: VirtualCluster, nowMs: number): string[][] {
  const { name = '', namespace = '' } = metadata;
  const deleting = metadata.deletionTimestamp;
  const usage = Object.entries(status?.usage ?? {}).map(([what, count]) => `${count} ${what}`);
  return [
    ['Name:', name],
    ['Namespace:', namespace],
    ['Phase:', `${deleting === undefined ? (status?.phase ?? 'Pending') : 'Deleting'}`],
    ['Created:', `${metadata.creationTimestamp} (${ageSince(metadata.creationTimestamp, nowMs)} ago)`],
    ...(deleting === undefined ? [] : [['Deleted:', `${deleting} (${ageSince(deleting, nowMs)} ago)`]]),
    ['Id:', status?.id ?? '-'],
    ['Version:', status?.version ?? (spec?.version === undefined ? '-' : `${spec.version} (wanted)`)],
    ...(spec?.template === undefined ? [] : [['Template:', spec.template]]),
    ...(status?.driver === undefined ? [] : [['Driver:', status.driver]]),
    ...(status?.datastore === undefined ? [] : [['Datastore:', status.datastore]]),
    ['Endpoint:', status?.endpoint ?? '-'],
    ['Service addresses:', status?.serviceCIDR ?? '-'],
    ['Cluster domain:', spec?.clusterDomain ?? 'cluster.local'],
    ...(spec?.extraNames === undefined ? [] : [['Extra names:', spec.extraNames.join(', ')]]),
    ['DNS:', spec?.dns ?? dnsOf(status?.conditions)],
    ['Weight:', String(spec?.weight ?? 1)],
    ['Kubeconfig:', `Secret ${namespace}/${status?.kubeconfigSecret?.name ?? secretNames(name).kubeconfig}`],
    ['Usage:', usage.length === 0 ? '-' : usage.join(', ')],
  ];
}

/** What the manager has installed of its own choice. */
function dnsOf(conditions: readonly Condition[] = []): string {
  return findCondition(conditions, 'DNSReady') === undefined ? 'none' : 'coredns';
}

function eventTable(events: readonly EventObject[], nowMs: number): string {
  const when = (event: EventObject): string =>
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

function indented(text: string): string {
  return text.replaceAll(/^(?=.)/gm, '  ');
}
