import type { KubeObject } from '../kube/index.ts';

/**
 * Whether a node has had this pod since that time, and it has neither ended nor been told to. Says the same of a tenant's
 * pod and of its copy in the super cluster: the syncer copies what this reads.
 */
export function hasRunSince(pod: KubeObject, atMs: number): boolean {
  const { startTime } = (pod['status'] ?? {}) as { startTime?: unknown };
  return typeof startTime === 'string' && Date.parse(startTime) <= atMs && !hasEnded(pod);
}

/** Finished, or told to end. */
export function hasEnded({ metadata, status }: KubeObject): boolean {
  const { phase } = (status ?? {}) as { phase?: unknown };
  return metadata.deletionTimestamp !== undefined || phase === 'Succeeded' || phase === 'Failed';
}
