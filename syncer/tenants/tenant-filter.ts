import type { VirtualCluster } from '../../api/virtual-cluster.ts';

/** Which tenants are this replica's to serve. */
export interface TenantFilter {
  serves(vc: VirtualCluster): boolean;
  /** Whether the caches of the super cluster hold the objects of all tenants, of all replicas. */
  readonly seesAll: boolean;
  /** All VirtualClusters there are; to be called when they have been listed, and when one changes. */
  see(virtualClusters: Iterable<VirtualCluster>): void;
  /**
   * The listener is called when answers change; what it returns resolves when nothing is done any more for tenants
   * that are not to be served. Returns how to stop that.
   */
  subscribe(listener: () => Promise<void>): () => void;
}

/** Of the only replica. */
export const everyTenant: TenantFilter = {
  serves: () => true,
  seesAll: true,
  see: () => undefined,
  subscribe: () => () => undefined,
};
