// What the server answers and the page shows: types alone, as both import it.

export interface QuotaRow {
  readonly resource: string;
  readonly used?: string | undefined;
  readonly allowed: string;
  /** 1 is full. */
  readonly share?: number | undefined;
}

export interface JobRow {
  readonly kind: string;
  readonly id: string;
  readonly state: string;
  readonly target?: string | undefined;
  readonly step?: string | undefined;
  readonly attempts: number;
  readonly startedAt: string;
  readonly finishedAt?: string | undefined;
  readonly holder?: string | undefined;
  readonly message?: string | undefined;
}

export interface EventRow {
  readonly at: string;
  readonly type: string;
  readonly reason: string;
  readonly object: string;
  readonly count: number;
  readonly message: string;
}

export interface LatestEvents {
  /** The latest first. */
  readonly events: readonly EventRow[];
  /** There are more, older ones or some that were not looked at. */
  readonly isCut: boolean;
}

export interface ComponentRow {
  readonly name: string;
  readonly state: string;
  readonly startedAt?: string | undefined;
  readonly restarts: number;
  readonly lastExit?: string | undefined;
}

/** How a tenant does, for a colour and a word beside it. */
export type Health = 'well' | 'busy' | 'asleep' | 'limited' | 'wrong';

/** A tenant in a list, for operators. */
export interface TenantRow {
  readonly namespace: string;
  readonly name: string;
  readonly phase: string;
  readonly health: Health;
  readonly version: string;
  readonly createdAt: string;
  readonly weight: number;
  readonly pods?: number | undefined;
  readonly services?: number | undefined;
  /** What its pods use. */
  readonly cpu?: string | undefined;
  readonly memory?: string | undefined;
  readonly requestsCpu?: string | undefined;
  readonly requestsMemory?: string | undefined;
  /** What is fullest of what is limited. */
  readonly fullest?: { readonly resource: string; readonly share: number } | undefined;
  readonly problems: readonly string[];
  /** What to do about them; empty when there are none. */
  readonly advice: readonly string[];
  readonly job?: JobRow | undefined;
  readonly certificatesDue?: string | undefined;
}

/** Everything of one tenant, for operators. */
export interface TenantDetail extends TenantRow {
  readonly uid: string;
  readonly facts: readonly (readonly [string, string])[];
  /** Nothing of it was made, as its namespace has no room. */
  readonly isOverLimit: boolean;
  readonly conditions: readonly ConditionRow[];
  readonly quota: readonly QuotaRow[];
  readonly jobs: readonly JobRow[];
  readonly certificates: readonly CertificateRow[];
  readonly snapshots: readonly SnapshotRow[];
}

export interface ConditionRow {
  readonly type: string;
  readonly status: string;
  /** `asleep`: it does not hold or is unknown, and that is no problem. */
  readonly health: Health;
  readonly reason: string;
  readonly message: string;
  readonly since: string;
}

export interface CertificateRow {
  readonly name: string;
  readonly kind: string;
  readonly expires: string;
}

export interface SnapshotRow {
  readonly name: string;
  readonly at: string;
  readonly reason: string;
  readonly version: string;
  readonly entries: number;
  readonly bytes: number;
}

/** What a tenant is told of itself. A field that is not named here is not in any answer to it. */
export interface OwnTenant {
  readonly name: string;
  readonly phase: string;
  readonly health: Health;
  readonly version: string;
  readonly createdAt: string;
  readonly pods?: number | undefined;
  readonly services?: number | undefined;
  readonly cpu?: string | undefined;
  readonly memory?: string | undefined;
  readonly quota: readonly QuotaRow[];
  readonly conditions: readonly ConditionRow[];
  readonly jobs: readonly Pick<JobRow, 'kind' | 'state' | 'target' | 'startedAt' | 'finishedAt'>[];
  readonly certificatesDue?: string | undefined;
  readonly certificates: readonly CertificateRow[];
  readonly snapshots: readonly SnapshotRow[];
  readonly podSecurity?: string | undefined;
}

/** A replica of the syncer. */
export interface SyncerRow {
  readonly name: string;
  /** Empty: it has released its Lease. */
  readonly holder: string;
  readonly renewedAt: string;
  readonly buckets?: number | undefined;
  readonly tenants?: number | undefined;
  readonly window?: number | undefined;
  readonly cpuSeconds?: number | undefined;
  readonly memoryBytes?: number | undefined;
  readonly uptimeSeconds?: number | undefined;
  /** Why its metrics are not known. */
  readonly problem?: string | undefined;
}

/** How much of the syncers a tenant has had over the last hour, or since they were first asked. */
export interface TenantLoad {
  /** `namespace/name`, or `other` for those without series of their own. */
  readonly tenant: string;
  readonly waitMeanMs?: number | undefined;
  /** At most so long for 95 of 100; absent: longer than the last bucket. */
  readonly waitP95Ms?: number | undefined;
  readonly items: number;
  /** Of all service time. */
  readonly share: number;
  readonly parked: number;
  readonly scheduling: number;
  readonly refused: number;
  readonly queued: number;
}

export interface SyncerView {
  readonly at: number;
  /** Of the loads, in milliseconds. */
  readonly overMs: number;
  readonly syncers: readonly SyncerRow[];
  readonly loads: readonly TenantLoad[];
  readonly problem?: string | undefined;
}

/** A pod as its object says, of which no way was measured. */
export interface ListedPod {
  readonly namespace: string;
  readonly name: string;
  readonly phase: string;
  readonly isReady: boolean;
  readonly createdAt: string;
  /** As the super cluster calls it. */
  readonly node?: string | undefined;
}

/** What would come of an action. */
export interface Preview {
  /** Lines for people. */
  readonly text: string;
  /** Whether it would change anything. */
  readonly isPossible: boolean;
  /** Whether it is refused as long as it is not forced. */
  readonly needsForce: boolean;
}
