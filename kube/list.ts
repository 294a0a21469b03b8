import type { Call, Connection } from './connection.ts';
import { isGone } from './errors.ts';
import { withoutManagedFields } from './managed-fields.ts';
import { collectionPath, query, requestJson } from './request.ts';
import { apiVersionOf } from './resources.ts';
import type { KubeList, KubeObject, Resource } from './types.ts';

export interface ListOptions {
  /** All namespaces when absent. */
  namespace?: string;
  labelSelector?: string;
  fieldSelector?: string;
  /** At most this many objects; what is left is not fetched (`metadata.continue` is then set). Default: all. */
  limit?: number;
  /** Objects per request, default 500: a page is parsed in one go, which blocks everything else. */
  pageSize?: number;
  /** Absent: the most recent state. '0': whatever the server has at hand. Else: not older than this. */
  resourceVersion?: string;
  /** True: the state at that version and no other. A server that has forgotten it answers 410. */
  exact?: boolean;
  /** Items come without their managedFields; see `withoutManagedFields` for which kinds that will do. */
  cutManagedFields?: boolean;
}

const defaultPageSize = 500;

/**
 * Lists in pages and joins them into one snapshot. When the server has forgotten the snapshot
 * before the last page (410), the list is fetched again in one piece.
 * Items get apiVersion and kind, which servers leave out in lists but not in watches.
 */
export async function listAll<T extends KubeObject>(
  connection: Connection,
  resource: Resource,
  options: ListOptions & { signal?: AbortSignal; timeoutMs?: number },
): Promise<KubeList<T>> {
  const pageSize = Math.min(options.pageSize ?? defaultPageSize, options.limit ?? Number.POSITIVE_INFINITY);
  const list = await page<T>(connection, resource, options, { limit: pageSize });
  let token = list.metadata.continue;
  while (token && list.items.length < (options.limit ?? Number.POSITIVE_INFINITY)) {
    let next: KubeList<T>;
    try {
      next = await page<T>(connection, resource, options, { limit: pageSize, continue: token });
    } catch (error) {
      if (!isGone(error) || options.exact === true) throw error;
      return page<T>(connection, resource, { ...options, resourceVersion: '' }, { limit: options.limit });
    }
    for (const item of next.items) list.items.push(item);
    token = next.metadata.continue;
  }
  if (token) list.metadata.continue = token;
  else delete list.metadata.continue;
  delete list.metadata.remainingItemCount;
  return list;
}

async function page<T extends KubeObject>(
  connection: Connection,
  resource: Resource,
  options: ListOptions & { signal?: AbortSignal; timeoutMs?: number },
  paging: { limit?: number | undefined; continue?: string },
): Promise<KubeList<T>> {
  const call: Call = {
    method: 'GET',
    verb: 'list',
    resource: resource.plural,
    path:
      collectionPath(resource, options.namespace) +
      query({
        labelSelector: options.labelSelector || undefined,
        fieldSelector: options.fieldSelector || undefined,
        limit: paging.limit,
        continue: paging.continue,
        // A continue token carries its own version; servers refuse both.
        resourceVersion: paging.continue === undefined ? options.resourceVersion || undefined : undefined,
        resourceVersionMatch: paging.continue === undefined && options.exact === true ? 'Exact' : undefined,
      }),
    signal: options.signal,
    timeoutMs: options.timeoutMs,
  };
  const cut = options.cutManagedFields ? withoutManagedFields : undefined;
  const list = (await requestJson(connection, call, cut)) as KubeList<T>;
  list.items ??= [];
  const apiVersion = apiVersionOf(resource);
  for (const item of list.items) {
    item.apiVersion ??= apiVersion;
    item.kind ??= resource.kind;
  }
  return list;
}
