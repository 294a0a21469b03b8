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
  unsafeNoFsync: boolean;
  isDetached: boolean;
}
