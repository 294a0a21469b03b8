import type { Logger } from 'pino';
import type { ControlPlaneTemplate } from '../../api/control-plane-template.ts';
import type { VirtualClusterPolicy } from '../../api/policy.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import type { Clock, ConnectionOptions, KubeClient, Store } from '../../kube/index.ts';
import type { ControlPlaneDriver } from '../drivers/driver.ts';
import type { EtcdAdmin } from '../etcd/admin.ts';
import type { ManagerPki } from '../pki/index.ts';
import type { Allocations } from './allocations.ts';
import type { OperatorSettings, OperatorSettingsInput } from './settings.ts';

/** What the operator needs of the tenants' datastore. */
export type Datastore = Pick<EtcdAdmin, 'ensureTenant' | 'removeTenant' | 'listTenants'>;

/** Where tenants' service addresses come from. */
export interface ServicePool {
  cidr: string;
  /** `slice`: the super cluster serves the pool. `assigned`: it is older than 1.33, and assigns each address itself. */
  mode: 'slice' | 'assigned';
}

/** What steps work with; the same for all tenants while this manager leads. */
export interface Services {
  /** The super cluster. */
  client: KubeClient;
  driver: ControlPlaneDriver;
  datastore: Datastore;
  settings: OperatorSettings;
  /** Renews what is due when it is asked. */
  managerPki: () => Promise<ManagerPki>;
  virtualClusters: Store<VirtualCluster>;
  policies: Store<VirtualClusterPolicy>;
  templates: Store<ControlPlaneTemplate>;
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
  /** Ids of jobs that this manager goes on with: another pass over them is no further attempt. */
  activeJobIds: Set<string>;
  newId: () => string;
  /** From 0 to 1, 1 excluded. */
  random: () => number;
  clock: Clock;
  logger: Logger;
}

export interface OperatorOptions {
  /** The super cluster. Only for leases, the namespace that they are in, and for watching. */
  client: KubeClient;
  /**
   * Another way to the super cluster, for all that is changed there: `beforeWrite` is asked before each write
   * and throws once the lease that allows it is not held any more. It is closed at the end of the term or job.
   */
  fencedClient: (beforeWrite: () => void) => KubeClient;
  /** `close`: looks away from what runs, without touching it; called when another manager may take over. */
  driver: ControlPlaneDriver & { close?: () => Promise<void> };
  datastore: Datastore;
  /** Those that come with the package; put into the super cluster where they are missing. */
  templates: readonly ControlPlaneTemplate[];
  /** Asked at every pass over a tenant; has to renew what is due. */
  managerPki: () => Promise<ManagerPki>;
  settings: OperatorSettingsInput;
  logger: Logger;
  /** Who holds the lease; must differ from every other manager's. */
  identity: string;
  /** Jobs are shared with other managers by this Redis server. Without: the manager that leads does them all. */
  redis?: RedisSettings | undefined;
  clock?: Clock;
  random?: () => number;
  newId?: () => string;
  /** Default: a KubeClient. Its options have `beforeWrite` of their own. */
  connect?: (options: ConnectionOptions) => KubeClient;
  /** Default: those of LeaseElection. */
  lease?: { leaseDurationMs?: number; renewMs?: number; callTimeoutMs?: number };
}

interface RedisSettings {
  url: string;
  /** How long it may be silent before the leader does without it. */
  patienceMs?: number;
  /** How long a manager that says nothing keeps a job, and the tenant that the job is about. */
  lockMs?: number;
}
