import type { PodList, PodReport } from '../api/pod-report.ts';
import type { VirtualCluster } from '../api/virtual-cluster.ts';
import type { KubeClient } from '../kube/index.ts';
import type { ComponentRow, EventRow, JobRow, LatestEvents, ListedPod, Preview, QuotaRow } from './types.ts';

export interface TenantRef {
  readonly namespace: string;
  readonly name: string;
}

/** What the command line says of a VirtualCluster, from that object alone. */
export interface Assessment {
  /** Reasons of conditions that are wrong, the most telling first. */
  readonly problems: readonly string[];
  /** Types of these conditions. */
  readonly failing: readonly string[];
  /** What to do next; commands that can be copied. */
  readonly advice: readonly string[];
  readonly quota: readonly QuotaRow[];
  /** The current job, then ended ones, the latest first. */
  readonly jobs: readonly JobRow[];
}

export interface ListedPods {
  readonly listed: readonly ListedPod[];
  /** There are more. */
  readonly isCut: boolean;
}

export type TracedPod = PodReport & { readonly source: 'syncer' | 'objects' };

export type Action =
  | {
      readonly do: 'create';
      readonly version?: string | undefined;
      readonly weight?: number | undefined;
      readonly podSecurity?: string | undefined;
      readonly deletionProtection?: boolean | undefined;
    }
  | { readonly do: 'sleep' | 'wake' | 'snapshot' | 'renew' | 'retry' | 'cancel' }
  | { readonly do: 'upgrade'; readonly version?: string | undefined; readonly force?: boolean | undefined }
  | {
      readonly do: 'delete';
      readonly uid: string;
      /** Only once a snapshot of it is kept. */
      readonly snapshotFirst?: boolean | undefined;
    };

/** The super cluster, by two sets of credentials. */
export interface SuperCluster {
  /** Those of the signed-in user: the API server authorizes each call. */
  readonly person: KubeClient;
  /** Those of this program. */
  readonly program: KubeClient;
}

/**
 * What the manager knows how to do, for the dashboard to call. `client` is the super cluster as the person who asks may
 * use it, so that its API server decides; `program` as this program may, for what the person has been found to be allowed
 * to see. What is thrown has a message for people.
 */
export interface Backend {
  assess(virtualCluster: VirtualCluster): Assessment;
  /** Events on the VirtualCluster, the latest first. */
  events(
    client: KubeClient,
    virtualCluster: VirtualCluster,
    signal: AbortSignal,
  ): Promise<readonly EventRow[]>;
  /** Events that the syncer has written in the tenant. */
  refusals(tenant: KubeClient, signal: AbortSignal): Promise<LatestEvents>;
  /** As the person where no syncer remembers the pod: its tenant is asked then. */
  trace(
    superCluster: SuperCluster,
    virtualCluster: VirtualCluster,
    pod: TenantRef,
    signal: AbortSignal,
  ): Promise<TracedPod>;
  slowest(program: KubeClient, virtualCluster: VirtualCluster, signal: AbortSignal): Promise<PodList>;
  /** Pods of a tenant that are in the super cluster. */
  pods(client: KubeClient, virtualCluster: VirtualCluster, signal: AbortSignal): Promise<ListedPods>;
  /** Pods that a tenant's API server shows, without their nodes. */
  ownPods(tenant: KubeClient, signal: AbortSignal): Promise<ListedPods>;
  components(
    program: KubeClient,
    virtualCluster: VirtualCluster,
    signal: AbortSignal,
  ): Promise<readonly ComponentRow[]>;
  logs(
    program: KubeClient,
    virtualCluster: VirtualCluster,
    options: { readonly component: string; readonly lines: number; readonly signal: AbortSignal },
  ): Promise<readonly string[]>;
  /** That of the tenant's administrators, for the program itself and for admins of the tenant. */
  kubeconfig(program: KubeClient, virtualCluster: VirtualCluster, signal: AbortSignal): Promise<string>;
  /** The same, for a user of the super cluster: an event on the VirtualCluster names the user. */
  operatorKubeconfig(
    person: KubeClient,
    virtualCluster: VirtualCluster,
    options: { readonly user: string; readonly signal: AbortSignal },
  ): Promise<string>;
  /** Versions that a tenant can have, the newest first. */
  versions(client: KubeClient, signal: AbortSignal): Promise<readonly string[]>;
  /** As the person, but for the versions and limits that an upgrade is judged by. */
  preview(superCluster: SuperCluster, ref: TenantRef, action: Action, signal: AbortSignal): Promise<Preview>;
  /**
   * The same. Requests the action without waiting for it to end, except for the snapshot before a deletion: if `signal` is
   * aborted before the snapshot is kept, nothing is deleted. Returns what to tell the person.
   */
  act(superCluster: SuperCluster, ref: TenantRef, action: Action, signal: AbortSignal): Promise<string>;
  /** HTTP status and message for what one of the others threw. */
  explain(error: unknown): { readonly status: number; readonly message: string };
}
