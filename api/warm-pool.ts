import { annotationKeys, labelKeys } from './labels.ts';
import type { VirtualCluster } from './virtual-cluster.ts';

/**
 * Whether this is a control plane that waits for an owner. The label alone says nothing: an owner of a VirtualCluster may
 * put any label on it. `systemNamespace`: Skerry's own.
 */
export function isWarmPoolMember(
  { metadata }: Pick<VirtualCluster, 'metadata'>,
  systemNamespace: string,
): boolean {
  return metadata.namespace === systemNamespace && metadata.labels?.[labelKeys.warm] !== undefined;
}

/** The VirtualCluster that a warm one was given to. */
export interface WarmClaim {
  uid: string;
  namespace: string;
  name: string;
}

/** Undefined: it is still to be had. What cannot be read counts as given to one that does not exist. */
export function warmClaim({ metadata }: Pick<VirtualCluster, 'metadata'>): WarmClaim | undefined {
  const text = metadata.annotations?.[annotationKeys.warmFor];
  if (text === undefined) return undefined;
  const [uid = '', namespace = '', name = ''] = text.split('/');
  return { uid, namespace, name };
}

/** As `warmClaim` reads it. */
export function warmClaimText({ uid, namespace, name }: WarmClaim): string {
  return `${uid}/${namespace}/${name}`;
}

/** For programs that do not know Skerry's own namespace: it has the label of the pool, and no kubeconfig was issued. */
export function isUnclaimed({ metadata, status }: VirtualCluster): boolean {
  return metadata.labels?.[labelKeys.warm] !== undefined && status?.kubeconfigSecret === undefined;
}
