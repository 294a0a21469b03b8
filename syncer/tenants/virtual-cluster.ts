import { type Condition, findCondition, type KubeObject } from '../../kube/index.ts';
import type { TenantPolicy } from '../kinds/index.ts';

/** The part of a VirtualCluster that the syncer reads and writes; the manager owns the rest. */
export interface VirtualCluster extends KubeObject {
  spec?: {
    clusterDomain?: string;
    weight?: number;
    nodes?: { mode?: 'all' | 'used'; hidden?: boolean; selector?: Record<string, string> };
    sync?: {
      configMaps?: 'used' | 'all';
      secrets?: 'used' | 'all';
      ingresses?: boolean;
      networkPolicies?: boolean;
      customResources?: string[];
    };
  };
  status?: {
    id?: string;
    phase?: string;
    conditions?: Condition[];
    endpoint?: string;
    /** What runs the control plane: with `kubernetes` its address is that of a Service. */
    driver?: string;
    advertisedAddress?: string;
    advertisedPort?: number;
    serviceCIDR?: string;
    serviceIPMode?: 'slice' | 'assigned';
    /** `version` changes when its content does. */
    syncerSecret?: { name: string; key: string; version?: string };
    identities?: { tenant?: string; superCluster?: string };
    /** What the manager has decided that this tenant may. */
    policy?: Partial<TenantPolicy> & {
      ceiling?: string;
      hideNodes?: boolean;
      nodeSelector?: Record<string, string>;
      weight?: number;
    };
    usage?: { pods?: number; services?: number; nodes?: number };
    [field: string]: unknown;
  };
}

/** The tenant's weight: what the manager has granted, or what is asked for where it has no opinion yet. */
export function weightOf({ spec, status }: VirtualCluster): number {
  return status?.policy?.weight ?? spec?.weight ?? 1;
}

/** Whether this tenant is to be served now: its control plane was ready once and is not on its way out. */
export function isServed(vc: VirtualCluster): boolean {
  const { status } = vc;
  return (
    vc.metadata.deletionTimestamp === undefined &&
    status?.phase !== 'Deleting' &&
    status?.id !== undefined &&
    status.syncerSecret !== undefined &&
    status.identities?.tenant !== undefined &&
    status.advertisedAddress !== undefined &&
    status.serviceCIDR !== undefined
  );
}

/** Whether a syncer has said that it has taken the tenant up, and not that it has left. */
export function isTakenUp({ status }: VirtualCluster): boolean {
  const synced = findCondition(status?.conditions, 'Synced');
  return synced !== undefined && synced.reason !== 'Left';
}

/** Whether the manager waits for the syncer to let go of this tenant before it takes its control plane away. */
export function isWaitedFor(vc: VirtualCluster): boolean {
  const isLeaving = vc.metadata.deletionTimestamp !== undefined || vc.status?.phase === 'Deleting';
  return isLeaving && isTakenUp(vc);
}
