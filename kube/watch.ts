import type { Call, Connection } from './connection.ts';
import { ApiError, ConnectionError, type Status } from './errors.ts';
import { LineSplitter } from './line-splitter.ts';
import { withoutManagedFields } from './managed-fields.ts';
import { apiError, collectionPath, query } from './request.ts';
import type { KubeObject, Resource } from './types.ts';

export interface WatchOptions {
  namespace?: string;
  labelSelector?: string;
  fieldSelector?: string;
  /** Changes after this version are sent. */
  resourceVersion: string;
  /** When the server should end the watch. */
  timeoutSeconds: number;
  /** Silence after which the peer counts as dead. Bookmarks come about once a minute. Default 120 s. */
  bodyTimeoutMs?: number;
  /** Objects come without their managedFields; see `withoutManagedFields` for which kinds that will do. */
  cutManagedFields?: boolean;
  /** How much longer than `timeoutSeconds` a watch may live before it is ended from this side. Default 30 s. */
  graceMs?: number;
  signal?: AbortSignal;
}

export interface WatchEvent<T extends KubeObject = KubeObject> {
  /** BOOKMARK: only `object.metadata.resourceVersion` is set. */
  type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK';
  object: T;
}

/** Codes of the ConnectionError that a watch ends with when it must merely be resumed. */
export const silentWatch = 'UND_ERR_BODY_TIMEOUT';
const overdueWatch = 'WATCH_OVERDUE';

/**
 * The changes of one resource. Ends when the server ends the watch; throws ApiError when the server
 * refuses it or sends an ERROR event (410: list again), ConnectionError when the connection breaks,
 * falls silent, or stops within a line, or the signal's reason. Whatever was yielded before is complete.
 */
export async function* watch<T extends KubeObject = KubeObject>(
  connection: Connection,
  resource: Resource,
  options: WatchOptions,
): AsyncGenerator<WatchEvent<T>, void, undefined> {
  const call: Call = {
    method: 'GET',
    verb: 'watch',
    resource: resource.plural,
    path: watchPath(resource, options),
    signal: options.signal,
  };
  const { status, retryAfter, body } = await connection.stream(call, options.bodyTimeoutMs ?? 120_000);
  let overdue = false;
  const deadline = setTimeout(
    () => {
      overdue = true;
      body.destroy();
    },
    options.timeoutSeconds * 1000 + (options.graceMs ?? 30_000),
  );
  try {
    if (status !== 200) throw apiError(call, { status, text: await body.text(), retryAfter });
    const splitter = new LineSplitter();
    for await (const chunk of body) {
      for (const line of splitter.push(chunk)) {
        const event = parseEvent(connection, options.cutManagedFields ? withoutManagedFields(line) : line);
        if (event.type === 'ERROR') throw eventError(call, event.object);
        yield event as WatchEvent<T>;
      }
    }
    if (splitter.pendingBytes > 0) {
      throw new ConnectionError(
        connection.server,
        'ERR_HALF_LINE',
        undefined,
        'the watch ended within an event',
      );
    }
  } catch (error) {
    if (error instanceof ApiError || error instanceof ConnectionError) throw error;
    if (overdue) {
      throw new ConnectionError(connection.server, overdueWatch, error, 'the watch outlived its time limit');
    }
    throw connection.failure(error, options.signal);
  } finally {
    clearTimeout(deadline);
    // Without a listener, an error that arrives after this point would be an uncaught exception.
    body.on('error', ignore).destroy();
  }
}

function watchPath(resource: Resource, options: WatchOptions): string {
  return (
    collectionPath(resource, options.namespace) +
    query({
      watch: 1,
      allowWatchBookmarks: true,
      resourceVersion: options.resourceVersion,
      timeoutSeconds: options.timeoutSeconds,
      labelSelector: options.labelSelector || undefined,
      fieldSelector: options.fieldSelector || undefined,
    })
  );
}

function parseEvent(connection: Connection, line: string): WatchEvent | { type: 'ERROR'; object: Status } {
  try {
    return JSON.parse(line);
  } catch (error) {
    throw new ConnectionError(
      connection.server,
      'ERR_INVALID_JSON',
      error,
      'the watch sent what is not JSON',
    );
  }
}

function eventError(call: Call, status: Status): ApiError {
  const [path] = call.path.split('?', 1);
  return new ApiError(status.code ?? 500, status, `watch ${path}`);
}

function ignore(): void {}
