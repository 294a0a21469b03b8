import { isOverVirtualClusterLimit } from '../api/conditions.ts';
import { sleepAfterIdleMs, weightOf } from '../api/tenant-state.ts';
import type { VirtualCluster } from '../api/virtual-cluster.ts';
import { wakeReasonText } from '../api/wake-reasons.ts';
import { type Condition, printable } from '../kube/index.ts';
import type { Assessment } from './backend.ts';
import type {
  CertificateRow,
  ConditionRow,
  Health,
  JobRow,
  OwnTenant,
  QuotaRow,
  SnapshotRow,
  TenantDetail,
  TenantRow,
} from './types.ts';

const longestText = 2_000;

function shown(text: unknown): string {
  return typeof text === 'string' ? printable(text, longestText) : '';
}

function phaseOf({ metadata, status }: VirtualCluster): string {
  return metadata.deletionTimestamp === undefined ? (status?.phase ?? 'Pending') : 'Deleting';
}

const busy: readonly string[] = ['Pending', 'Provisioning', 'Deleting', 'Upgrading', 'Restoring', 'Moving'];
const limits: readonly string[] = ['PolicyLimited', 'DatastoreWithinQuota', 'VersionCurrent', 'Placed'];

function healthOf(vc: VirtualCluster, failing: readonly string[]): Health {
  const phase = phaseOf(vc);
  if (phase === 'Failed' || phase === 'Cancelled' || vc.status?.jobs?.current?.failing === true)
    return 'wrong';
  if (failing.length > 0) return failing.every((type) => limits.includes(type)) ? 'limited' : 'wrong';
  if (phase === 'Asleep') return 'asleep';
  return busy.includes(phase) ? 'busy' : 'well';
}

export function tenantRow(vc: VirtualCluster, assessment: Assessment): TenantRow {
  const { problems, failing, advice, quota, jobs } = assessment;
  const { metadata, spec, status } = vc;
  const health = healthOf(vc, failing);
  const needsHelp = health === 'wrong' || health === 'limited';
  const fullest = quota.reduce<QuotaRow | undefined>(
    (most, each) => ((each.share ?? -1) > (most?.share ?? -1) ? each : most),
    undefined,
  );
  const used = (resource: string) => quota.find((each) => each.resource === resource)?.used;
  const { pods, services, cpu, memory } = status?.usage ?? {};
  return {
    namespace: metadata.namespace ?? '',
    name: metadata.name ?? '',
    phase: phaseOf(vc),
    health,
    version: status?.version ?? spec?.version ?? '',
    createdAt: metadata.creationTimestamp ?? '',
    weight: weightOf(vc),
    ...{ pods, services, cpu, memory },
    requestsCpu: used('requests.cpu'),
    requestsMemory: used('requests.memory'),
    fullest: fullest?.share === undefined ? undefined : { resource: fullest.resource, share: fullest.share },
    problems: problems.slice(0, 3),
    advice: needsHelp ? advice.slice(0, 3).map(shown) : [],
    job: status?.jobs?.current && jobs[0] && jobRow(jobs[0]),
    certificatesDue: status?.certificatesDue,
  };
}

function jobRow(job: JobRow): JobRow {
  return { ...job, message: job.message && shown(job.message) };
}

export function tenantDetail(vc: VirtualCluster, assessment: Assessment): TenantDetail {
  const { metadata, status } = vc;
  return {
    ...tenantRow(vc, assessment),
    advice: assessment.advice.map(shown),
    problems: assessment.problems,
    uid: metadata.uid ?? '',
    facts: facts(vc),
    isOverLimit: isOverVirtualClusterLimit(vc),
    conditions: (status?.conditions ?? []).map((each) => conditionRow(each, assessment.failing)),
    quota: assessment.quota,
    jobs: assessment.jobs.map(jobRow),
    certificates: certificateRows(vc),
    snapshots: snapshotRows(vc, ({ name }) => name),
  };
}

function facts({ metadata, spec, status }: VirtualCluster): [string, string][] {
  const { wokenBy, wokenFor } = status?.sleep ?? {};
  const all: [string, string | undefined][] = [
    ['Endpoint', status?.gateway?.server ?? status?.endpoint],
    ['Id', status?.id],
    ['Driver', status?.driver],
    ['Datastore', status?.datastore === 'own' ? 'an etcd of its own' : status?.datastore],
    ['Service addresses', status?.serviceCIDR],
    ['Cluster domain', spec?.clusterDomain],
    [
      'Sleeps',
      sleepAfterIdleMs({ spec: spec ?? {} }) === undefined
        ? undefined
        : `after ${spec?.sleep?.afterIdle} without a connection`,
    ],
    ['Asleep since', status?.sleep?.since],
    ['Woken', status?.sleep?.wokenAt],
    ['Woken by', wokenBy === undefined ? undefined : wakeReasonText(wokenBy, wokenFor)],
    ['Snapshots', spec?.snapshots?.every === undefined ? undefined : `every ${spec.snapshots.every}`],
    ['Encryption key', status?.encryption?.key],
    ['Certificates due', status?.certificatesDue],
    ['Deletion protection', spec?.deletionProtection === true ? 'on' : undefined],
    [
      'Limited by',
      status?.policy?.ceiling === undefined ? undefined : `VirtualClusterPolicy ${status.policy.ceiling}`,
    ],
    ['Pod Security', status?.policy?.podSecurity],
    ['Nodes', status?.policy?.hideNodes ? 'shown under other names' : undefined],
    ['Deleted', metadata.deletionTimestamp],
  ];
  return all.flatMap(([name, value]) =>
    value === undefined ? [] : [[name, shown(value)] as [string, string]],
  );
}

/** Conditions that are fine when they are false. */
const fineWhenFalse: readonly string[] = ['IdentityMismatch', 'DeletionHeld', 'PolicyLimited'];

function conditionHealth({ type, status }: Condition, failing: readonly string[]): Health {
  if (failing.includes(type)) return limits.includes(type) ? 'limited' : 'wrong';
  return status === (fineWhenFalse.includes(type) ? 'False' : 'True') ? 'well' : 'asleep';
}

function conditionRow(condition: Condition, failing: readonly string[]): ConditionRow {
  const { type, status, reason, message, lastTransitionTime } = condition;
  return {
    ...{ type, status, health: conditionHealth(condition, failing) },
    ...{ reason: shown(reason), message: shown(message), since: shown(lastTransitionTime) },
  };
}

function certificateRows({ status }: VirtualCluster): CertificateRow[] {
  return (status?.certificates ?? []).map(({ name, kind, expires }) => ({
    name: shown(name),
    kind,
    expires,
  }));
}

type Kept = NonNullable<NonNullable<NonNullable<VirtualCluster['status']>['snapshots']>['kept']>[number];

function snapshotRows({ status }: VirtualCluster, name: (kept: Kept) => string): SnapshotRow[] {
  return (status?.snapshots?.kept ?? []).map((kept) => {
    const { at, reason, kubernetes, entries, bytes } = kept;
    return { name: shown(name(kept)), at, reason, version: kubernetes, entries, bytes };
  });
}

/** Conditions whose messages speak of the tenant's own matters, not of the operator's. */
const ownMessages: readonly string[] = [
  'PolicyLimited',
  'DatastoreWithinQuota',
  'DNSReady',
  'NetworkPoliciesEnforced',
  'CustomResourcesSynced',
];
/** Conditions of which a tenant learns type, status and reason. */
const ownConditions: readonly string[] = [
  ...ownMessages,
  'Ready',
  'APIServerReady',
  'Synced',
  'SnapshotTaken',
  'VersionCurrent',
];

export function ownTenant(vc: VirtualCluster, { problems, failing, quota, jobs }: Assessment): OwnTenant {
  const { metadata, status } = vc;
  const row = tenantRow(vc, { problems, failing, advice: [], quota, jobs });
  const { phase, health, createdAt, pods, services, cpu, memory, certificatesDue } = row;
  const conditions = (status?.conditions ?? []).filter(({ type }) => ownConditions.includes(type));
  return {
    name: metadata.name ?? '',
    version: status?.version ?? '',
    ...{ phase, health, createdAt, pods, services, cpu, memory, certificatesDue },
    quota,
    conditions: conditions
      .map((each) => conditionRow(each, failing))
      .map((each) => (ownMessages.includes(each.type) ? each : { ...each, message: '' })),
    jobs: jobs.map(({ kind, state, target, startedAt, finishedAt }) => ({
      kind,
      state,
      // That of a move is a driver and a datastore.
      ...(kind === 'version-change' ? { target } : {}),
      startedAt,
      finishedAt,
    })),
    certificates: certificateRows(vc),
    // The name in the store begins with the namespace of the VirtualCluster.
    snapshots: snapshotRows(vc, ({ name }) => name.split('/').at(-1) ?? ''),
    podSecurity: status?.policy?.podSecurity,
  };
}
