import type { DnsChoice } from '../../../api/virtual-cluster.ts';

/** What `up` was asked for, after its arguments were checked. */
export interface UpOptions {
  stateDir: string;
  /** Sample tenants; undefined: two when the state is new, else those that are there. */
  tenants: number | undefined;
  nodes: number;
  /** Without: a local super cluster, or the one that this state belongs to. */
  superCluster: { kubeconfig: string; context?: string } | undefined;
  withSamples: boolean;
  bindAddress: string;
  /** How pods reach tenants' API servers; undefined: an address of this machine. */
  advertiseAddress: string | undefined;
  /** Of the local super cluster's API server. */
  superBindAddress: string;
  /** What tenants have that do not choose; undefined: none where nodes are simulated, else coredns. */
  dns: DnsChoice | undefined;
  /** Whether the local super cluster records what manager and syncer ask of it. */
  isAudited: boolean;
  unsafeNoFsync: boolean;
  isDetached: boolean;
}
