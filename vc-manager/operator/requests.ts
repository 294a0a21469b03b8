import type { VirtualCluster } from '../../api/virtual-cluster.ts';

/**
 * A request by annotation as the status stores it. A lone surrogate would come back changed from the API server, and count
 * as new for ever.
 */
export function storedRequest(value: string): string {
  return value.slice(0, 64).toWellFormed();
}

/** Value of the annotation, if it is not the one that was `followed` last. */
export function newRequest(
  { metadata }: VirtualCluster,
  key: string,
  followed: string | undefined,
): string | undefined {
  const asked = metadata.annotations?.[key];
  const value = asked === undefined ? undefined : storedRequest(asked);
  return value === followed ? undefined : value;
}
