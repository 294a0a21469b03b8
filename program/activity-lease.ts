import { annotationKeys, labelKeys } from '../api/labels.ts';
import { activityLeaseName } from '../api/names.ts';
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
  const options = signal === undefined ? {} : { signal };
  try {
    await client.patch(resources.leases, ref, change, { type: 'merge', ...options });
  } catch (error) {
    if (!isNotFound(error)) throw error;
    const made: KubeObject = { ...change, metadata: { ...change.metadata, ...ref } };
    await client.create(resources.leases, made, options);
  }
}

/** Asks the manager to wake a tenant. */
export async function requestWake(
  lease: Pick<ActivityLease, 'client' | 'namespace' | 'id'> & { nowMs: number },
): Promise<void> {
  const { nowMs, ...where } = lease;
  const annotations = { [annotationKeys.wakeRequested]: new Date(nowMs).toISOString() };
  await writeActivityLease({ ...where, annotations });
}
