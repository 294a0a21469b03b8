import type { Connection } from './connection.ts';
import { collectionPath, query, requestJson } from './request.ts';
import type { Resource } from './types.ts';

/**
 * Throws an ApiError (isResourceVersionTooLarge) when the server's data is older than the version.
 * Such a server, back from a restart with a backup, accepts a watch from that version and never
 * sends anything, because all of its versions are lower. A list that must not be older makes it say
 * so, for the price of one object.
 */
export async function verifyVersion(
  connection: Connection,
  resource: Resource,
  namespace: string | undefined,
  resourceVersion: string,
  signal: AbortSignal,
): Promise<void> {
  if (resourceVersion === '' || resourceVersion === '0') return;
  await requestJson(connection, {
    method: 'GET',
    verb: 'list',
    resource: resource.plural,
    path:
      collectionPath(resource, namespace) +
      query({ limit: 1, resourceVersion, resourceVersionMatch: 'NotOlderThan' }),
    signal,
  });
}
