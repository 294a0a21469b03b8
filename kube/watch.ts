import { linkedController } from './abort.ts';
import { Chunks } from './chunks.ts';
import type { Call, Connection } from './connection.ts';
import { ApiError, asStatus, ConnectionError } from './errors.ts';
import { withoutManagedFields } from './managed-fields.ts';
import { asObject, isVersion } from './object-shape.ts';
import { errorBytes, isTooLarge, metered, parseJson, TooLarge } from './read-limits.ts';
import { apiError, collectionPath, metadataAccept, query, requestJson } from './request.ts';
import { apiVersionOf } from './resources.ts';
import { pieceBytes, readText } from './round-trip.ts';
import { isRecord, type KubeObject, type Resource } from './types.ts';

const newline = 0x0a;
/** In a row; API servers send none. */
const maxBlankLines = 16;
const invalidJson = 'ERR_INVALID_JSON';

class BlankLines extends SyntaxError {
  readonly code = invalidJson;

  constructor() {
    super(`the watch sent more than ${maxBlankLines} blank lines in a row`);
  }
}

/**
 * Cuts a stream of Buffers into lines. Bytes are decoded only when a line is complete, so a
 * character split across chunks stays whole; what waits is joined once, so a line of several MB costs
 * no more than its size, however small its chunks.
 */
export class LineSplitter {
  /** Of the line that is not complete yet, without a newline. */
  readonly #pending = new Chunks();
  readonly #maxLineBytes: number;
  /** That came last. */
  #blankLines = 0;

  constructor(maxLineBytes: number) {
    this.#maxLineBytes = maxLineBytes;
  }

  /** How many bytes wait for their newline. Not zero at the end of a stream: the last line was cut. */
  get pendingBytes(): number {
    return this.#pending.length;
  }

  /** Takes the next chunk and returns the lines that it completes, without newline. Of blank lines it leaves out a few, and throws at more. */
  push(chunk: Buffer): string[] {
    const lines: string[] = [];
    let start = 0;
    while (start < chunk.length) {
      if (this.#pending.length === 0 && chunk[start] === newline) {
        start += 1;
        this.#blankLines += 1;
        if (this.#blankLines > maxBlankLines) throw new BlankLines();
        continue;
      }
      this.#blankLines = 0;
      const end = chunk.indexOf(newline, start);
      if (end === -1) break;
      if (this.#pending.length > 0) {
        this.#pending.add(chunk.subarray(start, end));
        lines.push(this.#pending.take().toString());
      } else lines.push(chunk.toString('utf8', start, end));
      start = end + 1;
    }
    if (start < chunk.length) {
      if (this.#pending.length + chunk.length - start > this.#maxLineBytes) {
        throw new TooLarge('an event', this.#maxLineBytes);
      }
      this.#pending.add(start === 0 ? chunk : chunk.subarray(start));
    }
    return lines;
  }
}

/**
 * Throws an ApiError (isResourceVersionTooLarge) when the server's data is older than the version.
 * Such a server, back from a restart with a backup, accepts a watch from that version and never
 * sends anything, because all of its versions are lower. A list that must not be older makes it say
 * so, for the price of one object.
 */
export async function verifyResourceVersion(
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

export interface WatchOptions {
  namespace?: string | undefined;
  labelSelector?: string | undefined;
  fieldSelector?: string | undefined;
  /** Changes after this version are sent. Of no meaning with `initialEvents`. */
  resourceVersion: string;
  /**
   * The present state comes first, as events of type ADDED, and then the BOOKMARK that `endsInitialEvents` knows: a
   * list and a watch in one request. A server that cannot do that refuses with ApiError 4xx.
   */
  initialEvents?: boolean;
  /** How long the initial events may take. Default 30 s. */
  initialTimeoutMs?: number;
  /** When the server should end the watch. */
  timeoutSeconds: number;
  /** Silence after which the peer counts as dead. Bookmarks come about once a minute. Default 120 s. */
  bodyTimeoutMs?: number | undefined;
  /** Objects come without their managedFields; see `withoutManagedFields` for which kinds that will do. */
  cutManagedFields?: boolean;
  /** Objects come with their metadata alone. A server that cannot do that sends them whole. */
  metadataOnly?: boolean;
  /** How much longer than `timeoutSeconds` a watch may live before it is ended from this side. Default 30 s. */
  graceMs?: number;
  signal?: AbortSignal;
}

export interface WatchEvent<T extends KubeObject = KubeObject> {
  /** BOOKMARK: only `object.metadata.resourceVersion` is set. */
  type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK';
  object: T;
}

/** Whether a watch has shown no more of this object than its metadata, as it was asked to. */
export function isPartial(object: KubeObject): boolean {
  return partial.has(object);
}

/** No state but a mark on what watches have made. */
const partial = new WeakSet<KubeObject>();

const initialEventsEnd = 'k8s.io/initial-events-end';

/** Whether all initial events have come; the version of its object is that of the state they show. */
export function endsInitialEvents({ type, object }: WatchEvent): boolean {
  return type === 'BOOKMARK' && object.metadata.annotations?.[initialEventsEnd] === 'true';
}

const invalidObject = 'ERR_INVALID_OBJECT';

/** Whether a watch has ended with an event that is too large or is none: another one would come to it again. */
export function isUnreadable(error: unknown): boolean {
  return (
    isTooLarge(error) ||
    (error instanceof ConnectionError && (error.code === invalidJson || error.code === invalidObject))
  );
}

/** Codes of the ConnectionError that a watch ends with when it must merely be resumed. */
export const silentWatch = 'UND_ERR_BODY_TIMEOUT';
const overdueWatch = 'WATCH_OVERDUE';
/** Of what a server says when it refuses a watch. */
const refusalLimits = { maxBytes: errorBytes, timeoutMs: 5_000 };

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
  const { controller: ending, release } = linkedController(options.signal);
  const { signal } = ending;
  const call: Call = {
    method: 'GET',
    verb: 'watch',
    resource: resource.plural,
    path: watchPath(resource, options),
    signal,
    ...(options.metadataOnly === true ? { accept: metadataAccept('PartialObjectMetadata') } : {}),
  };
  const { status, retryAfter, body } = await connection
    .stream(call, options.bodyTimeoutMs ?? 120_000)
    .catch((error: unknown) => {
      release();
      throw error;
    });
  let overdue = false;
  const end = (): void => {
    overdue = true;
    body.destroy();
  };
  const deadline = setTimeout(end, options.timeoutSeconds * 1000 + (options.graceMs ?? 30_000));
  let initial = options.initialEvents === true;
  let initialBytes = 0;
  // What this thread rested in between is not the server's time, be the rest over or not.
  let restedMs = 0;
  let restingFromMs: number | undefined;
  const countRest = (): void => {
    if (restingFromMs === undefined) return;
    const nowMs = performance.now();
    restedMs += nowMs - restingFromMs;
    restingFromMs = nowMs;
  };
  const endInitial = (): void => {
    countRest();
    if (restedMs >= 1) initialDeadline = setTimeout(endInitial, restedMs);
    else end();
    restedMs = 0;
  };
  let initialDeadline = initial ? setTimeout(endInitial, options.initialTimeoutMs ?? 30_000) : undefined;
  const { meter, readMemory } = connection;
  const turn = (): Promise<void> | undefined => {
    const rest = meter?.turn(signal);
    if (rest === undefined) return undefined;
    restingFromMs = performance.now();
    return rest.then(() => {
      countRest();
      restingFromMs = undefined;
    });
  };
  const hold = readMemory?.hold((error) => ending.abort(error));
  /** Of lines that are not parsed yet. */
  const takesMemory = (bytes: number): void => {
    hold?.takes(bytes > pieceBytes ? bytes : 0);
    signal.throwIfAborted();
  };
  try {
    if (status !== 200) {
      const text = await readText(body, refusalLimits).catch(() => '');
      throw apiError(call, { status, text, retryAfter });
    }
    const splitter = new LineSplitter(connection.readLimits.eventBytes);
    for await (const chunk of body) {
      takesMemory(splitter.pendingBytes + chunk.length);
      const chunkRest = turn();
      if (chunkRest !== undefined) await chunkRest;
      // Emptied as it goes: whoever takes an event may be slow.
      const lines = metered(meter, () => splitter.push(chunk));
      while (lines.length > 0) {
        const lineRest = turn();
        if (lineRest !== undefined) await lineRest;
        if (initial) initialBytes += lines[0]?.length ?? 0;
        const event = metered(meter, () => {
          const line = lines.shift() ?? '';
          return parseEvent(
            connection,
            resource,
            options.cutManagedFields ? withoutManagedFields(line) : line,
          );
        });
        if (lines.length === 0) takesMemory(splitter.pendingBytes);
        if (event.type === 'ERROR') throw eventError(call, event.object);
        if (options.metadataOnly === true) nameKind(event.object, resource);
        if (initial) {
          const { listBytes } = connection.readLimits;
          if (initialBytes > listBytes) throw new TooLarge(`the list of ${resource.plural}`, listBytes);
          if (endsInitialEvents(event)) {
            initial = false;
            clearTimeout(initialDeadline);
          }
        }
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
    hold?.release();
    release();
    clearTimeout(deadline);
    clearTimeout(initialDeadline);
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
      ...(options.initialEvents === true
        ? { sendInitialEvents: true, resourceVersionMatch: 'NotOlderThan' }
        : { resourceVersion: options.resourceVersion }),
      timeoutSeconds: options.timeoutSeconds,
      labelSelector: options.labelSelector || undefined,
      fieldSelector: options.fieldSelector || undefined,
    })
  );
}

function parseEvent(
  connection: Connection,
  resource: Resource,
  line: string,
): WatchEvent | { type: 'ERROR'; object: unknown } {
  let code = invalidJson;
  try {
    const { answerValues, objectValues } = connection.readLimits;
    const event = parseJson(line, Math.min(answerValues, objectValues));
    code = invalidObject;
    if (!isRecord(event)) throw new TypeError('it is no object');
    const { type, object } = event;
    switch (type) {
      case 'ERROR':
        return { type, object };
      case 'BOOKMARK': {
        const metadata = isRecord(object) ? object['metadata'] : undefined;
        const version = isRecord(metadata) ? metadata['resourceVersion'] : undefined;
        if (!isVersion(version)) throw new TypeError('a bookmark without a resourceVersion');
        return { type, object: object as KubeObject };
      }
      case 'ADDED':
      case 'MODIFIED':
      case 'DELETED':
        return { type, object: asObject(object, resource) };
      default:
        throw new TypeError('an event of no known type');
    }
  } catch (error) {
    if (isTooLarge(error)) throw connection.failure(error, undefined);
    throw new ConnectionError(
      connection.server,
      code,
      error,
      `the watch sent what is no event: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
}

function eventError(call: Call, object: unknown): ApiError {
  const status = asStatus(object);
  const [path] = call.path.split('?', 1);
  return new ApiError(status.code ?? 500, status, `watch ${path}`);
}

/** Metadata alone is said to be of a kind of its own. */
function nameKind(object: KubeObject, resource: Resource): void {
  if (object.kind === 'PartialObjectMetadata') partial.add(object);
  object.apiVersion = apiVersionOf(resource);
  object.kind = resource.kind;
}

function ignore(): void {}
