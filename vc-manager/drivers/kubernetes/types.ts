import { labelKeys } from '../../../api/labels.ts';
import type { KubeObject } from '../../../kube/index.ts';
import { isControlPlaneName } from '../driver.ts';
import { invalidName } from '../errors.ts';

/** On a pod template: what its files were, so that others make new pods. */
export const filesHashAnnotation = 'skerry.dev/files-hash';
/** On a StatefulSet: digest of its pod template, as it was written. Empty while a second replica stands in. */
export const templateHashAnnotation = 'skerry.dev/template-hash';
/** On a StatefulSet: the components that it needs. */
export const dependsOnAnnotation = 'skerry.dev/depends-on';
/** On the namespace: which VirtualCluster it is for, for people. */
export const virtualClusterAnnotation = labelKeys.virtualCluster;

export const fieldManager = 'skerry-vc-manager';

export const apiServer = 'kube-apiserver';
export const datastore = 'etcd';
/** Where people and the tenant's pods expect an API server. */
export const apiServerPort = 443;

const prefix = 'skerry-tenant-';

/** The namespace that a control plane has to itself. Throws `InvalidName`. */
export function namespaceOf(id: string): string {
  const name = `${prefix}${id}`;
  if (!isControlPlaneName(id) || !isControlPlaneName(name)) throw invalidName('control plane', id);
  return name;
}

export function filesSecretOf(component: string): string {
  return `${component}-files`;
}

export function labelsOf(id: string, component?: string): Record<string, string> {
  return {
    'app.kubernetes.io/managed-by': 'skerry',
    [labelKeys.id]: id,
    ...(component === undefined
      ? {}
      : { [labelKeys.component]: component, 'app.kubernetes.io/name': component }),
  };
}

export function isNamespaceOf(id: string, name: string | undefined): boolean {
  try {
    return namespaceOf(id) === name;
  } catch {
    return false;
  }
}

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
  spec?: {
    containers?: { name?: string; resources?: { requests?: Record<string, string> } }[];
    [field: string]: unknown;
  };
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
