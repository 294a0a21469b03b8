import { type Call, Connection, type ConnectionOptions } from './connection.ts';
import { ApiError, ConnectionError, isAlreadyExists, isConflict, isGone, isNotFound } from './errors.ts';
import { withoutManagedFields } from './managed-fields.ts';
import { asAnswer, asObject, asObjectNamed, isContinueToken, isVersion } from './object-shape.ts';
import { hasLongText } from './object-size.ts';
import { hasMoreValues, isTooLarge, metered, parseJson, TooLarge, TooManyValues } from './read-limits.ts';
import {
  apiError,
  collectionPath,
  metadataAccept,
  metadataVersion,
  objectPath,
  parseAnswer,
  query,
  requestJson,
  requestText,
} from './request.ts';
import { apiVersionOf } from './resources.ts';
import {
  isRecord,
  type KubeList,
  type KubeObject,
  namespacedName,
  type ObjectRef,
  type Resource,
} from './types.ts';

export interface ListOptions {
  /** All namespaces when absent. */
  namespace?: string | undefined;
  labelSelector?: string | undefined;
  fieldSelector?: string | undefined;
  /**
   * At most this many objects; what is left is not fetched (`metadata.continue` is then set). A page counts for as many as
   * were asked for, also when fewer came: a list of one page costs one request. Default: all.
   */
  limit?: number;
  /** Goes on where an earlier list ended; a token that is too old is answered with 410. */
  continue?: string | undefined;
  /** Objects per request, default 500: a page is parsed in one go, which blocks everything else. */
  pageSize?: number | undefined;
  /** Absent: the most recent state. '0': whatever the server has at hand. Else: not older than this. */
  resourceVersion?: string;
  /** True: the state at that version and no other. A server that has forgotten it answers 410. */
  exact?: boolean;
  /** Items come without their managedFields; see `withoutManagedFields` for which kinds that will do. */
  cutManagedFields?: boolean;
  /** Items come with their metadata alone. A server that cannot do that sends them whole. */
  metadataOnly?: boolean;
  /** Sees the objects of each page as it comes. What it throws ends the list. */
  onPage?: ((objects: readonly KubeObject[]) => void) | undefined;
}

const defaultPageSize = 500;
/** How many times smaller the next try is when a page is larger than what is read of one. */
const pageShrinkage = 4;
/** A list in one piece may have so much, though its pages are smaller. */
const wholeBytes = 16 * 2 ** 20;
/** Of a list; more than any server needs. One may answer any number of times with an empty page and a token, and each time late. */
const maxPages = 10_000;
const longestListMs = 10 * 60_000;

type ListCall = ListOptions & CallOptions;

/**
 * Lists in pages and joins them into one snapshot. When the server has forgotten the snapshot
 * before the last page (410), the list is fetched again in one piece. A page that is larger than what is read of one
 * is asked for again with fewer objects.
 * Items get apiVersion and kind, which servers leave out in lists but not in watches.
 */
async function listAll<T extends KubeObject>(
  connection: Connection,
  resource: Resource,
  options: ListCall,
): Promise<KubeList<T>> {
  const wanted = options.limit ?? Number.POSITIVE_INFINITY;
  const { listBytes, listValues } = connection.readLimits;
  const largestLimit = Math.min(options.pageSize ?? defaultPageSize, wanted);
  let limit = largestLimit;
  let asked = options;
  let list: KubeList<T> | undefined;
  let token = options.continue;
  let bytes = 0;
  let values = 0;
  // A server may send one page after the other with fewer objects than asked for, or none.
  let covered = 0;
  let endMs = performance.now() + longestListMs;
  for (let pages = 0; list === undefined || (token && covered < wanted); pages++) {
    if (pages > maxPages || performance.now() > endMs)
      throw new RangeError(`a list of ${resource.plural} has no end`);
    let next: Page<T>;
    try {
      next = await page<T>(connection, resource, asked, {
        limit: Math.min(limit, wanted - covered),
        continue: token,
        onRest: (ms) => {
          endMs += ms;
        },
      });
    } catch (error) {
      if (isTooLarge(error) && limit > 1) {
        limit = Math.max(1, Math.floor(limit / pageShrinkage));
        // What a server has in memory comes in one piece.
        if (asked.resourceVersion === '0') asked = { ...asked, resourceVersion: '' };
        continue;
      }
      if (isTooLarge(error)) throw await namingObject(connection, resource, asked, token, error);
      if (token === undefined || !isGone(error) || options.exact === true || options.continue !== undefined)
        throw error;
      const fresh = { ...options, resourceVersion: '' };
      const whole = await page<T>(connection, resource, fresh, {
        limit: options.limit,
        leastBytes: wholeBytes,
      });
      options.onPage?.(whole.list.items);
      return whole.list;
    }
    bytes += next.bytes;
    if (bytes > listBytes)
      throw connection.failure(new TooLarge(`the list of ${resource.plural}`, listBytes), options.signal);
    values += next.values;
    if (values > listValues) {
      const error = new TooLarge(`the list of ${resource.plural}`, listValues, 'values');
      throw connection.failure(error, options.signal);
    }
    options.onPage?.(next.list.items);
    covered += Math.max(limit, next.list.items.length);
    // What follows a few large objects may be small.
    limit = Math.min(largestLimit, limit + 1);
    if (list === undefined) list = next.list;
    else for (const item of next.list.items) list.items.push(item);
    token = next.list.metadata.continue;
  }
  if (token) list.metadata.continue = token;
  else delete list.metadata.continue;
  delete list.metadata.remainingItemCount;
  return list;
}

/** The error of a page with one object, in the name of that, where the server tells it. */
async function namingObject(
  connection: Connection,
  resource: Resource,
  options: ListCall,
  token: string | undefined,
  error: unknown,
): Promise<unknown> {
  if (!(error instanceof ConnectionError) || options.metadataOnly === true) return error;
  const paging = { limit: 1, continue: token };
  try {
    const { list } = await page(connection, resource, { ...options, metadataOnly: true }, paging);
    const [object, another] = list.items;
    if (object === undefined || another !== undefined) return error;
    const why = error.cause instanceof Error ? error.cause.message : error.code;
    const detail = `${resource.kind} ${namespacedName(object.metadata)} cannot be read: ${why}`;
    return new ConnectionError(error.server, error.code, error.cause, detail);
  } catch {
    return error;
  }
}

interface Page<T extends KubeObject> {
  list: KubeList<T>;
  bytes: number;
  /** 0 where nothing limits them. */
  values: number;
}

async function page<T extends KubeObject>(
  connection: Connection,
  resource: Resource,
  options: ListCall,
  paging: {
    limit?: number | undefined;
    continue?: string | undefined;
    leastBytes?: number;
    /** Told for how long this thread rested, before or while it read the answer. */
    onRest?: (ms: number) => void;
  },
): Promise<Page<T>> {
  const { pageBytes, objectBytes } = connection.readLimits;
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
    maxBytes: Math.max(pageBytes, paging.limit === 1 ? objectBytes : (paging.leastBytes ?? 0)),
    onRest: paging.onRest,
    ...(options.metadataOnly === true ? { accept: metadataAccept('PartialObjectMetadataList') } : {}),
  };
  const text = await requestText(connection, call);
  return metered(connection.meter, () => {
    const json = options.cutManagedFields ? withoutManagedFields(text) : text;
    const { answerValues, listValues } = connection.readLimits;
    const { parsed, values } = parseAnswer(connection, json, Math.min(answerValues, listValues));
    return { list: asList<T>(connection, resource, parsed), bytes: text.length, values };
  });
}

/** Throws a ConnectionError for what no API server sends as a list. */
function asList<T extends KubeObject>(
  connection: Connection,
  resource: Resource,
  answer: unknown,
): KubeList<T> {
  return ofRightShape(connection, () => {
    if (!isRecord(answer)) throw new TypeError('the server sent no list');
    answer['metadata'] ??= {};
    answer['items'] ??= [];
    const { metadata, items } = answer;
    if (!isRecord(metadata) || !Array.isArray(items)) throw new TypeError('the server sent no list');
    const { resourceVersion, continue: token } = metadata;
    if (resourceVersion !== undefined && !isVersion(resourceVersion))
      throw new TypeError('the server sent a list whose metadata.resourceVersion is none');
    if (token !== undefined && !isContinueToken(token))
      throw new TypeError('the server sent a list whose metadata.continue is no text, or too long');
    const apiVersion = apiVersionOf(resource);
    const { objectValues } = connection.readLimits;
    for (const item of items) {
      const object = asObject(item, resource);
      if (Number.isFinite(objectValues) && hasMoreValues(object, objectValues))
        throw new TooManyValues(`${resource.kind} ${namespacedName(object.metadata)}`, objectValues);
      if (object.kind === undefined || object.kind === 'PartialObjectMetadata') object.kind = resource.kind;
      if (object.apiVersion === undefined || object.apiVersion === metadataVersion)
        object.apiVersion = apiVersion;
    }
    return answer as unknown as KubeList<T>;
  });
}

function ofRightShape<T>(connection: Connection, check: () => T): T {
  try {
    return check();
  } catch (error) {
    const detail = error instanceof Error ? error.message : undefined;
    throw new ConnectionError(connection.server, 'ERR_INVALID_OBJECT', error, detail);
  }
}

export interface CallOptions {
  signal?: AbortSignal | undefined;
  /** How long the answer may take; default: the connection's. */
  timeoutMs?: number | undefined;
}

interface DeleteOptions extends CallOptions {
  uid?: string | undefined;
  resourceVersion?: string | undefined;
  gracePeriodSeconds?: number | undefined;
  propagationPolicy?: 'Background' | 'Foreground' | 'Orphan';
}

interface WriteOptions extends CallOptions {
  /** The answer comes without its managedFields; see `withoutManagedFields` for which kinds that will do. */
  cutManagedFields?: boolean;
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
    const path = objectPath(resource, ref, options.subresource);
    const answer = await this.#json<T>('GET', 'get', resource, path, options);
    return ofRightShape(this.connection, () =>
      // A subresource may be an object of its own.
      options.subresource === undefined
        ? asObjectNamed<T>(answer, ref, resource)
        : asObject<T>(answer, resource),
    );
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
    options: WriteOptions & { dryRun?: boolean; fieldManager?: string; metadataOnly?: boolean } = {},
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

  /**
   * PUT: replaces the object. With `metadata.resourceVersion`, only if that is still the current one. `metadataOnly`: the
   * answer is the metadata alone, where the server knows of that.
   */
  async update<T extends KubeObject = KubeObject>(
    resource: Resource,
    object: T,
    options: WriteOptions & { subresource?: string; metadataOnly?: boolean } = {},
  ): Promise<T> {
    const path = objectPath(resource, refOf(object), options.subresource);
    return this.#json<T>('PUT', 'update', resource, path, options, typed(resource, object));
  }

  async patch<T extends KubeObject = KubeObject>(
    resource: Resource,
    ref: ObjectRef,
    patch: unknown,
    options: WriteOptions & {
      type: PatchType;
      subresource?: string | undefined;
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
  async delete(resource: Resource, ref: ObjectRef, options: DeleteOptions = {}): Promise<void> {
    const { uid, resourceVersion, gracePeriodSeconds, propagationPolicy } = options;
    const preconditions =
      uid === undefined && resourceVersion === undefined ? undefined : { uid, resourceVersion };
    const body = {
      apiVersion: 'v1',
      kind: 'DeleteOptions',
      gracePeriodSeconds,
      propagationPolicy,
      preconditions,
    };
    await this.#json('DELETE', 'delete', resource, objectPath(resource, ref), options, body);
  }

  /**
   * Any path of the server, for example GET /readyz. Answers parsed JSON, or the text when it is none.
   * `aside`: a GET goes over the connection of the watches, behind no other call. `maxBytes`: of the answer; default: what
   * an object may have.
   */
  async raw(
    method: string,
    path: string,
    options: CallOptions & { body?: unknown; aside?: boolean; maxBytes?: number } = {},
  ): Promise<unknown> {
    const call = {
      method,
      path,
      verb: 'other' as const,
      resource: '',
      signal: options.signal,
      timeoutMs: options.timeoutMs,
      maxBytes: options.maxBytes,
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
      return parseJson(answer.text, connection.readLimits.answerValues);
    } catch {
      return answer.text;
    }
  }

  async #json<T>(
    method: string,
    verb: 'get' | 'create' | 'update' | 'patch' | 'delete',
    resource: Resource,
    path: string,
    options: WriteOptions & { metadataOnly?: boolean },
    body?: unknown,
    contentType = 'application/json',
  ): Promise<T> {
    if (body !== undefined && hasLongText(body, longestBody)) throw tooLarge(verb, resource);
    const edit = options.cutManagedFields === true ? withoutManagedFields : undefined;
    const call: Call = {
      method,
      path,
      verb,
      resource: resource.plural,
      signal: options.signal,
      timeoutMs: options.timeoutMs,
      ...(options.metadataOnly === true ? { accept: metadataAccept('PartialObjectMetadata') } : {}),
      ...(body === undefined ? {} : { body: JSON.stringify(body), contentType }),
    };
    const answer = await requestJson(this.connection, call, edit);
    return ofRightShape(this.connection, () => asAnswer<T>(answer, resource));
  }
}

/** Runs `work` with a client on a connection of its own, which is closed afterwards. */
export async function withClient<T>(
  options: ConnectionOptions,
  work: (client: KubeClient) => Promise<T>,
): Promise<T> {
  const connection = new Connection(options);
  try {
    return await work(new KubeClient(connection));
  } finally {
    await connection.close();
  }
}

/** Exact Kubernetes version of the server, as 1.36.3. Throws where the server does not say it. */
export async function serverVersion(client: Pick<KubeClient, 'raw'>, options: CallOptions): Promise<string> {
  const { gitVersion } = ((await client.raw('GET', '/version', options)) ?? {}) as { gitVersion?: string };
  if (!gitVersion)
    throw new Error('the server does not say which version of Kubernetes it is: /version has no gitVersion');
  return gitVersion.replace(/^v/, '');
}

/** One that exists stays as it is. */
export async function createIfAbsent(
  client: Pick<KubeClient, 'create'>,
  resource: Resource,
  object: KubeObject,
  options: CallOptions,
): Promise<void> {
  try {
    await client.create(resource, object, options);
  } catch (error) {
    if (!isAlreadyExists(error)) throw error;
  }
}

/** Deletes an object; one that is gone, or by its preconditions another one by now, is as good as deleted. */
export async function deleteIfPresent(
  client: Pick<KubeClient, 'delete'>,
  resource: Resource,
  ref: ObjectRef,
  options: DeleteOptions,
): Promise<void> {
  try {
    await client.delete(resource, ref, options);
  } catch (error) {
    if (!isNotFound(error) && !isConflict(error)) throw error;
  }
}

/** API servers refuse longer bodies unread (`MaxRequestBodyBytes`). What is longer is not even made into text. */
const longestBody = 3 * 1024 * 1024;

/** In the place of the server's answer, which says neither what nor why. */
function tooLarge(verb: string, { plural }: Resource): ApiError {
  const message = `it would be larger than the ${longestBody / 1024 / 1024} MiB that an API server accepts; make it smaller`;
  return new ApiError(413, { reason: 'RequestEntityTooLarge', message }, `${verb} ${plural}`);
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
