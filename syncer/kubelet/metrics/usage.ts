import type { Pod } from '../find-pod.ts';

/** What one container has used. */
export interface ContainerUsage {
  readonly name: string;
  /** Billionths of a core, on average over the window. */
  readonly nanoCores: number;
  readonly workingSetBytes: number;
}

/** What one pod has used in the time before `takenAtMs`. */
export interface PodUsage {
  readonly takenAtMs: number;
  readonly windowMs: number;
  readonly containers: readonly ContainerUsage[];
}

/** Where figures come from. */
export interface UsageSource {
  /**
   * The usage of these pods of the super cluster, all of one tenant; by UID. Pods of which nothing is known
   * are left out. Throws when nothing can be read at all.
   */
  read(pods: readonly Pod[], tenantUid: string, signal: AbortSignal): Promise<Map<string, PodUsage>>;
}
