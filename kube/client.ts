import type { Connection } from './connection.ts';
import { type ListOptions, listAll } from './list.ts';
import { apiError, collectionPath, objectPath, query, requestJson } from './request.ts';
import { apiVersionOf } from './resources.ts';
import type { KubeList, KubeObject, ObjectRef, Resource } from './types.ts';

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
