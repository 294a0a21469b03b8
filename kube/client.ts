import type { Call, Connection } from './connection.ts';
import { isGone } from './errors.ts';
import { withoutManagedFields } from './managed-fields.ts';
import { apiError, collectionPath, objectPath, query, requestJson } from './request.ts';
import { apiVersionOf } from './resources.ts';
import type { KubeList, KubeObject, ObjectRef, Resource } from './types.ts';

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
async function listAll<T extends KubeObject>(
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

export interface CallOptions {
  signal?: AbortSignal;
  /** How long the answer may take; default: the connection's. */
  timeoutMs?: number;
}

export type PatchType = 'merge' | 'json' | 'strategic' | 'apply';

const patchContentTypes: Record<PatchType, string> = {
  merge: 'application/merge-patch+json',
  json: 'application/json-patch+json',
  strategic: 'application/strategic-merge-patch+json',
  apply: 'application/apply-patch+yaml',
};

/**
 * One API server as a client sees it. Objects are raw JSON in and out. Every method throws ApiError
 * when the server refuses, ConnectionError when it cannot be reached, or the signal's reason.
 * Nothing is retried here.
 */
export class KubeClient {
  readonly connection: Connection;

  constructor(connection: Connection) {
    this.connection = connection;
  }

  async get<T extends KubeObject = KubeObject>(
    resource: Resource,
    ref: ObjectRef,
    options: CallOptions & { subresource?: string } = {},
  ): Promise<T> {
    return this.#json<T>('GET', 'get', resource, objectPath(resource, ref, options.subresource), options);
  }

  /** All objects, fetched in pages of 500 and joined. */
  async list<T extends KubeObject = KubeObject>(
    resource: Resource,
    options: ListOptions & CallOptions = {},
  ): Promise<KubeList<T>> {
    return listAll<T>(this.connection, resource, options);
  }

  /** The namespace is that of `object.metadata`. */
  async create<T extends KubeObject = KubeObject>(
    resource: Resource,
    object: T,
    options: CallOptions & { dryRun?: boolean; fieldManager?: string } = {},
  ): Promise<T> {
    if (resource.namespaced && !object.metadata.namespace) {
      throw new TypeError(
        `${resource.kind} "${object.metadata.name ?? ''}" cannot be created without a namespace`,
      );
    }
    const path =
      collectionPath(resource, object.metadata.namespace) +
      query({ dryRun: options.dryRun ? 'All' : undefined, fieldManager: options.fieldManager });
    return this.#json<T>('POST', 'create', resource, path, options, typed(resource, object));
  }

  /** POST to a subresource: `binding`, `token`, `eviction`. */
  async createSubresource<T = KubeObject>(
    resource: Resource,
    ref: ObjectRef,
    subresource: string,
    body: object,
    options: CallOptions = {},
  ): Promise<T> {
    return this.#json<T>('POST', 'create', resource, objectPath(resource, ref, subresource), options, body);
  }

  /** PUT: replaces the object. With `metadata.resourceVersion`, only if that is still the current one. */
  async update<T extends KubeObject = KubeObject>(
    resource: Resource,
    object: T,
    options: CallOptions & { subresource?: string } = {},
  ): Promise<T> {
    const path = objectPath(resource, refOf(object), options.subresource);
    return this.#json<T>('PUT', 'update', resource, path, options, typed(resource, object));
  }

  async patch<T extends KubeObject = KubeObject>(
    resource: Resource,
    ref: ObjectRef,
    patch: unknown,
    options: CallOptions & {
      type: PatchType;
      subresource?: string;
      /** Required for `apply`. */
      fieldManager?: string;
      force?: boolean;
    },
  ): Promise<T> {
    if (options.type === 'apply' && !options.fieldManager) throw new TypeError('apply needs a fieldManager');
    const path =
      objectPath(resource, ref, options.subresource) +
      query({ fieldManager: options.fieldManager, force: options.force });
    return this.#json<T>('PATCH', 'patch', resource, path, options, patch, patchContentTypes[options.type]);
  }

  /** `uid` and `resourceVersion` are preconditions: a Conflict says that the object is another one by now. */
  async delete(
    resource: Resource,
    ref: ObjectRef,
    options: CallOptions & {
      uid?: string;
      resourceVersion?: string;
      gracePeriodSeconds?: number;
      propagationPolicy?: 'Background' | 'Foreground' | 'Orphan';
    } = {},
  ): Promise<void> {
    const { uid, resourceVersion, gracePeriodSeconds, propagationPolicy } = options;
    const body = {
      apiVersion: 'v1',
      kind: 'DeleteOptions',
      ...(gracePeriodSeconds === undefined ? {} : { gracePeriodSeconds }),
      ...(propagationPolicy === undefined ? {} : { propagationPolicy }),
      ...(uid === undefined && resourceVersion === undefined
        ? {}
        : { preconditions: { uid, resourceVersion } }),
    };
    await this.#json('DELETE', 'delete', resource, objectPath(resource, ref), options, body);
  }

  /**
   * Any path of the server, for example GET /readyz. Answers parsed JSON, or the text when it is none.
   * `aside`: a GET goes over the connection of the watches, behind no other call.
   */
  async raw(
    method: string,
    path: string,
    options: CallOptions & { body?: unknown; aside?: boolean } = {},
  ): Promise<unknown> {
    const call = {
      method,
      path,
      verb: 'other' as const,
      resource: '',
      signal: options.signal,
      timeoutMs: options.timeoutMs,
      ...(options.body === undefined
        ? {}
        : { body: JSON.stringify(options.body), contentType: 'application/json' }),
    };
    const { connection } = this;
    const answer = await (options.aside === true && method === 'GET'
      ? connection.requestAside({ ...call, method })
      : connection.request(call));
    if (answer.status < 200 || answer.status > 299) throw apiError(call, answer);
    try {
      return JSON.parse(answer.text);
    } catch {
      return answer.text;
    }
  }

  async #json<T>(
    method: string,
    verb: 'get' | 'create' | 'update' | 'patch' | 'delete',
    resource: Resource,
    path: string,
    options: CallOptions,
    body?: unknown,
    contentType = 'application/json',
  ): Promise<T> {
    const answer = await requestJson(this.connection, {
      method,
      path,
      verb,
      resource: resource.plural,
      signal: options.signal,
      timeoutMs: options.timeoutMs,
      ...(body === undefined ? {} : { body: JSON.stringify(body), contentType }),
    });
    return answer as T;
  }
}

// Servers refuse a body without apiVersion and kind; the caller has said both by naming the resource.
function typed<T extends KubeObject>(resource: Resource, object: T): T {
  if (object.kind !== undefined && object.apiVersion !== undefined) return object;
  return { apiVersion: apiVersionOf(resource), kind: resource.kind, ...object };
}

function refOf(object: KubeObject): ObjectRef {
  const { name, namespace } = object.metadata;
  if (!name) throw new TypeError('an object without a name cannot be updated');
  return { name, namespace };
}
