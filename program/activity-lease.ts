import { annotationKeys, labelKeys } from '../api/labels.ts';
import { activityLeaseName } from '../api/names.ts';
import type { LeaseWakeReason } from '../api/wake-reasons.ts';
import { isNotFound, type KubeClient, type KubeObject, resources } from '../kube/index.ts';

interface ActivityLease {
  client: Pick<KubeClient, 'create' | 'patch'>;
  /** Skerry's own. */
  namespace: string;
  /** Of the tenant. */
  id: string;
  annotations?: Record<string, string>;
  spec?: Record<string, string>;
  signal?: AbortSignal | undefined;
}

/** Changes the Lease by which gateway and syncer tell the manager when a tenant is used or needed; makes it if need be. */
export async function writeActivityLease(lease: ActivityLease): Promise<void> {
  const { client, namespace, id, annotations = {}, spec, signal } = lease;
  const ref = { namespace, name: activityLeaseName(id) };
  const labels = { [labelKeys.activity]: id, [labelKeys.managedBy]: 'skerry' };
  const change = { metadata: { labels, annotations }, ...(spec === undefined ? {} : { spec }) };
  try {
    await client.patch(resources.leases, ref, change, { type: 'merge', signal });
  } catch (error) {
    if (!isNotFound(error)) throw error;
    const made: KubeObject = { ...change, metadata: { ...change.metadata, ...ref } };
    await client.create(resources.leases, made, { signal });
  }
}

interface WakeRequest {
  nowMs: number;
  reason: LeaseWakeReason;
}

/** By which the manager is asked to wake a tenant. */
export function wakeAnnotations({ nowMs, reason }: WakeRequest): Record<string, string> {
  return {
    [annotationKeys.wakeRequested]: new Date(nowMs).toISOString(),
    [annotationKeys.wakeReason]: reason,
  };
}

/** Asks the manager to wake a tenant. */
export async function requestWake(
  lease: Pick<ActivityLease, 'client' | 'namespace' | 'id'> & WakeRequest,
): Promise<void> {
  const { nowMs, reason, ...where } = lease;
  await writeActivityLease({ ...where, annotations: wakeAnnotations({ nowMs, reason }) });
}
