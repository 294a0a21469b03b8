import type { Logger } from 'pino';
import type { ControlPlaneTemplate } from '../../api/control-plane-template.ts';
import type { VirtualClusterPolicy } from '../../api/policy.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import type { Clock, KubeClient, Store } from '../../kube/index.ts';
import type { ControlPlaneDriver } from '../drivers/index.ts';
import type { EtcdAdmin } from '../etcd/index.ts';
import type { ManagerPki } from '../pki/index.ts';
import type { Claims } from './claims.ts';
import type { OperatorSettings } from './settings.ts';
import type { ServicePool } from './setup/service-pool.ts';

/** What the operator needs of the tenants' datastore. */
export type Datastore = Pick<EtcdAdmin, 'ensureTenant' | 'removeTenant' | 'listTenants'>;

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
  claims: Claims;
  pool: ServicePool;
  /** UID of the super cluster's kube-system namespace. */
  superIdentity: string;
  /** UID to the monotonic time since which a deleted VirtualCluster's syncer is waited for. */
  leaving: Map<string, number>;
  /** Exact Kubernetes version of the super cluster, as last asked for. */
  superVersion: string;
  /** This manager's name. */
  identity: string;
  /** Ids of jobs that this manager goes on with: another pass over them is no further attempt. */
  begun: Set<string>;
  newId: () => string;
  /** From 0 to 1, 1 excluded. */
  random: () => number;
  clock: Clock;
  logger: Logger;
}
