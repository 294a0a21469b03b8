import type { Logger } from 'pino';
import type { ControlPlaneTemplate } from '../../api/control-plane-template.ts';
import type { DriverName } from '../../api/drivers.ts';
import type { VirtualClusterPolicy } from '../../api/policy.ts';
import type { UsageDay } from '../../api/usage.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import type { Clock, ConnectionOptions, KubeClient, KubeObject, Store } from '../../kube/index.ts';
import type { SharedReadTime, TenantReadTime } from '../../program/read-time.ts';
import type { ControlPlaneDriver } from '../drivers/driver.ts';
import type { EtcdAdmin } from '../etcd/admin.ts';
import type { Entry } from '../etcd/keyspace.ts';
import type { OwnEtcd, OwnEtcdOptions } from '../etcd/own-etcd.ts';
import type { ManagerPki } from '../pki/index.ts';
import type { Allocations } from './allocations.ts';
import type { OperatorSettings, OperatorSettingsInput } from './settings.ts';
import type { SnapshotServices } from './snapshots.ts';
import type { UsageMeter } from './usage-meter.ts';

/** What the operator needs of the tenants' datastore. */
export type Datastore = Pick<
  EtcdAdmin,
  | 'ensureTenant'
  | 'removeTenant'
  | 'listTenants'
  | 'countTenantKeys'
  | 'measureTenant'
  | 'viewTenant'
  | 'replaceTenant'
  | 'fillTenant'
  | 'size'
  | 'compact'
  | 'raise'
>;

/** What the operator needs of an etcd of a tenant's own. */
export type OwnDatastore = Pick<OwnEtcd, 'count' | 'view' | 'replace' | 'raise' | 'close'>;

/** Where tenants' service addresses come from. */
export interface ServicePool {
  cidr: string;
  /**
   * `slice`: the super cluster serves the pool. `assigned`: it is older than 1.33, accepts no further range or is deleting
   * the pool, and assigns each address itself.
   */
  mode: 'slice' | 'assigned';
  /** IPv4 ranges that the super cluster assigns addresses from; wider than they are where it does not tell. */
  superRanges: readonly string[];
}

export interface MachineMemory {
  totalBytes: number;
  /** What is free or can be reclaimed, as `MemAvailable` of Linux. */
  availableBytes: number;
}

export interface WarmPoolSize {
  ready: number;
  /** Being made, changed or removed. */
  other: number;
  wanted: number;
}

/** What steps work with; the same for all tenants while this manager leads. */
export interface Services {
  /** The super cluster. */
  client: KubeClient;
  /** Of the VirtualCluster that is reconciled; else that of new ones. */
  driver: ControlPlaneDriver;
  /** All that this manager has, by name. */
  drivers: ReadonlyMap<DriverName, ControlPlaneDriver>;
  datastore: Datastore;
  /** Of one tenant alone. */
  ownDatastore: (options: OwnEtcdOptions) => OwnDatastore;
  settings: OperatorSettings;
  /** Each call renews what is due. */
  managerPki: () => Promise<ManagerPki>;
  virtualClusters: Store<VirtualCluster>;
  policies: Store<VirtualClusterPolicy>;
  templates: Store<ControlPlaneTemplate>;
  /** Leases by which the gateway says when a tenant was last used. */
  activity: Store<KubeObject>;
  allocations: Allocations;
  pool: ServicePool;
  /** UID of the super cluster's kube-system namespace. */
  superIdentity: string;
  /** UID to the monotonic time since which a deleted VirtualCluster's syncer is waited for. */
  leavingSinceMs: Map<string, number>;
  /** Exact Kubernetes version of the super cluster, as last asked for. */
  superVersion: string;
  /** This manager's name. */
  identity: string;
  /** By UID, the id of the job that this manager has begun last: another reconcile for it is no further attempt. */
  activeJobs: Map<string, string>;
  /**
   * By UID, until when (monotonic) it is not tried again to put a tenant to sleep of which could not be told when it is needed,
   * and why; `attempt` stands for what asked for it.
   */
  sleepPauses: Map<string, { attempt: string; untilMs: number; why: string }>;
  /** How much of this thread's time reading from tenants takes; `readTimes`: from each of them, by UID. */
  readTime: SharedReadTime;
  readTimes: Map<string, TenantReadTime>;
  /** Wall-clock time at which the shared datastore was last seen to grow fast; 0: never. */
  datastoreGrowth: { sinceMs: number };
  /** Throws `NoLongerLeading` unless what was read just before is still this manager's. */
  assertHeld: () => void;
  /** By version and template, what its API servers create first. */
  defaults: Map<string, readonly Entry[]>;
  newId: () => string;
  /** Of the machine that control planes run on; undefined where that is not this one. */
  machineMemory: () => MachineMemory | undefined;
  /** Told what the warm pool has, with each look at it. */
  onWarmPool: (pool: WarmPoolSize) => void;
  /** Told what a tenant (`namespace/name`) has used since it was last told. */
  onUsage: (tenant: string, used: Partial<UsageDay> | undefined) => void;
  /** What tenants use, added up. */
  usage: UsageMeter;
  /** Absent: this manager keeps no snapshots. */
  snapshots?: SnapshotServices | undefined;
  /** From 0 to 1, 1 excluded. */
  random: () => number;
  clock: Clock;
  logger: Logger;
}

/** What a manager remembers of each VirtualCluster, by UID. */
export type RememberedByUid = Pick<
  Services,
  'leavingSinceMs' | 'activeJobs' | 'sleepPauses' | 'readTimes' | 'usage'
>;

/** For a VirtualCluster that is gone. */
export function forgetTenant(
  { leavingSinceMs, activeJobs, sleepPauses, readTimes, usage }: RememberedByUid,
  uid: string,
): void {
  for (const each of [leavingSinceMs, activeJobs, sleepPauses, readTimes]) each.delete(uid);
  usage.forget(uid);
}

type OperatorDriver = ControlPlaneDriver & { close?: () => Promise<void> };

export interface OperatorOptions {
  /** The super cluster: for leases, the namespace that they are in, and watches. Not fenced. */
  client: KubeClient;
  /**
   * A new connection to the super cluster for everything that is written there: it calls `beforeWrite` before each write,
   * which throws when the lease is not held any more. Closed at the end of the term or job.
   */
  fencedClient: (beforeWrite: () => void) => KubeClient;
  /** `close` stops watching what runs, and leaves it running; called when another manager may take over. */
  driver: OperatorDriver;
  /** To which control planes can be moved, too. */
  otherDrivers?: Partial<Record<DriverName, OperatorDriver>>;
  datastore: Datastore;
  /** Default: an OwnEtcd. */
  ownDatastore?: Services['ownDatastore'];
  /** Those of the package; written into the super cluster where they are missing. */
  templates: readonly ControlPlaneTemplate[];
  /** Called in every reconcile; has to renew what is due. */
  managerPki: () => Promise<ManagerPki>;
  settings: OperatorSettingsInput;
  logger: Logger;
  /** Who holds the lease; must differ from every other manager's. */
  identity: string;
  /** Where snapshots of tenants are kept, if anywhere. */
  snapshots?: Omit<SnapshotServices, 'turns' | 'pauses'> | undefined;
  /** Jobs are shared with other managers by this Redis server. Without it the leader does them all. */
  redis?: RedisSettings | undefined;
  clock?: Clock;
  random?: () => number;
  newId?: () => string;
  machineMemory?: Services['machineMemory'];
  onWarmPool?: Services['onWarmPool'];
  onUsage?: Services['onUsage'];
  /** Default: a KubeClient. Its options have `beforeWrite` of their own. */
  connect?: (options: ConnectionOptions) => KubeClient;
  /** Default: those of LeaseElection. */
  lease?: { leaseDurationMs?: number; renewMs?: number; callTimeoutMs?: number };
}

interface RedisSettings {
  url: string;
  /** How long Redis may be silent before the leader does without it. */
  patienceMs?: number;
  /** How long a manager that has stopped renewing keeps a job, and the lease of its tenant. */
  lockMs?: number;
}
