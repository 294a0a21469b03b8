import type { KubeObject } from '../../../kube/index.ts';

/** What this driver reads of a StatefulSet. */
export interface StatefulSet extends KubeObject {
  spec?: { replicas?: number; volumeClaimTemplates?: unknown[]; [field: string]: unknown };
  status?: {
    observedGeneration?: number;
    readyReplicas?: number;
    /** Of those that are ready, the ones that have been so for `minReadySeconds`. */
    availableReplicas?: number;
    updatedReplicas?: number;
    currentRevision?: string;
    updateRevision?: string;
  };
}

/** What this driver reads of a Pod. */
export interface Pod extends KubeObject {
  status?: {
    phase?: string;
    reason?: string;
    message?: string;
    conditions?: { type: string; status: string; reason?: string; message?: string }[];
    containerStatuses?: ContainerStatus[];
  };
}

export interface ContainerStatus {
  name: string;
  restartCount: number;
  state?: ContainerState;
  lastState?: ContainerState;
}

export interface ContainerState {
  waiting?: { reason?: string; message?: string };
  running?: { startedAt: string };
  terminated?: Termination;
}

export interface Termination {
  exitCode: number;
  signal?: number;
  reason?: string;
  finishedAt?: string;
  containerID?: string;
}

export function isReady(pod: Pod): boolean {
  return pod.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') ?? false;
}

/** Of the one container that a pod of ours has. */
export function containerOf(pod: Pod): ContainerStatus | undefined {
  return pod.status?.containerStatuses?.[0];
}

/** Which run of which pod's container this is; undefined while none runs. */
export function runOf(pod: Pod): string | undefined {
  const startedAt = containerOf(pod)?.state?.running?.startedAt;
  return startedAt === undefined ? undefined : `${pod.metadata.uid}/${startedAt}`;
}
