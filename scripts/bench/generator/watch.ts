import {
  type Connection,
  KubeClient,
  type KubeObject,
  type Resource,
  systemClock,
} from '../../../kube/index.ts';

interface RawWatchOptions {
  connection: Connection;
  /** Of the core group. */
  resource: Resource;
  /** Absent: of all namespaces. */
  namespace?: string;
  labelSelector?: string;
  /** All objects: at the start, and again whenever the watch cannot be resumed. */
  onList: (objects: readonly KubeObject[]) => void;
  /** One event as received; `line` is reused and must not be kept. */
  onEvent: (type: EventType, line: Buffer) => void;
}

const silenceMs = 120_000;
const watchSeconds = 1_800;
const retryMs = 250;

/** A list and then a watch whose events are not parsed. Reconnects until aborted. */
export class RawWatch {
  readonly #options: RawWatchOptions;
  readonly #client: KubeClient;
  readonly #first = Promise.withResolvers<void>();

  constructor(options: RawWatchOptions) {
    this.#options = options;
    this.#client = new KubeClient(options.connection);
    this.#first.promise.catch(() => undefined);
  }

  /** Resolves with the first list; rejects when aborted before. */
  get listed(): Promise<void> {
    return this.#first.promise;
  }

  async run(signal: AbortSignal): Promise<void> {
    let version: string | undefined;
    while (!signal.aborted) {
      try {
        version ??= await this.#list(signal);
        this.#first.resolve();
        for await (const seen of this.#watch(version, signal)) version = seen;
      } catch (error) {
        if (signal.aborted) break;
        if (error instanceof WatchExpired) version = undefined;
        await systemClock.sleep(retryMs, signal).catch(() => undefined);
      }
    }
    this.#first.reject(signal.reason);
  }

  async #list(signal: AbortSignal): Promise<string> {
    const { resource, namespace, labelSelector, onList } = this.#options;
    const { metadata, items } = await this.#client.list(resource, { signal, namespace, labelSelector });
    onList(items);
    return metadata.resourceVersion ?? '0';
  }

  /** Yields the resourceVersion of the last event of each chunk. */
  async *#watch(version: string, signal: AbortSignal): AsyncGenerator<string> {
    const { connection, resource, namespace, labelSelector, onEvent } = this.#options;
    const query = new URLSearchParams({
      watch: '1',
      allowWatchBookmarks: 'true',
      resourceVersion: version,
      timeoutSeconds: String(watchSeconds),
    });
    if (labelSelector !== undefined) query.set('labelSelector', labelSelector);
    const within = namespace === undefined ? '' : `/namespaces/${namespace}`;
    const path = `/api/v1${within}/${resource.plural}?${query}`;
    const call = { method: 'GET', verb: 'watch' as const, resource: resource.plural, path, signal };
    const { status, body } = await connection.stream(call, silenceMs);
    try {
      if (status === 410) throw new WatchExpired();
      if (status !== 200) throw new Error(`watching ${resource.plural}: HTTP ${status}`);
      const lines = new LineSplitter();
      for await (const chunk of body) {
        const last = lines.push(chunk, (line) => {
          const type = eventType(line);
          if (type === undefined || type === 'ERROR') throw new WatchExpired();
          if (type !== 'BOOKMARK') onEvent(type, line);
        });
        const seen = last && eventResourceVersion(last);
        if (seen !== undefined) yield seen;
      }
    } finally {
      body.on('error', () => undefined).destroy();
    }
  }
}

/** The watch cannot be resumed, so that objects have to be listed again. */
class WatchExpired extends Error {}

/**
 * Fields of a watch event are found by searching its bytes: parsing every event would cost more CPU than all other
 * work of the generator. API servers write JSON without blanks and fields in a fixed order; quotes within strings are
 * escaped, so that a value cannot be taken for a field.
 */
type EventType = 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR';

const typePrefix = Buffer.from('{"type":"');
const quote = 0x22;
const brace = 0x7d;
const types: ReadonlyMap<number, EventType> = new Map(
  (['ADDED', 'MODIFIED', 'DELETED', 'BOOKMARK', 'ERROR'] as const).map((type) => [type.charCodeAt(0), type]),
);

const metadata = Buffer.from('"metadata":{');
const name = Buffer.from('"name":"');
const resourceVersion = Buffer.from('"resourceVersion":"');
const conditionReady = Buffer.from('"type":"Ready"');
const statusTrue = Buffer.from('"status":"True"');

/** Undefined: not a watch event as API servers write them. */
export function eventType(line: Buffer): EventType | undefined {
  if (!line.subarray(0, typePrefix.length).equals(typePrefix)) return undefined;
  return types.get(line[typePrefix.length] ?? 0);
}

export function eventName(line: Buffer): string | undefined {
  return valueAfter(line, name, line.indexOf(metadata));
}

export function eventResourceVersion(line: Buffer): string | undefined {
  return valueAfter(line, resourceVersion, line.indexOf(metadata));
}

/** Whether the pod has a condition `Ready` that is True. */
export function isReadyPod(line: Buffer): boolean {
  const from = line.lastIndexOf(conditionReady);
  if (from === -1) return false;
  const end = line.indexOf(brace, from);
  const found = line.indexOf(statusTrue, from);
  return found !== -1 && found < end;
}

/** The string that follows `key` (as `"key":"`), from an offset on; only for values without escapes. */
export function valueAfter(line: Buffer, key: Buffer, from = 0): string | undefined {
  if (from === -1) return undefined;
  const at = line.indexOf(key, from);
  if (at === -1) return undefined;
  const start = at + key.length;
  const end = line.indexOf(quote, start);
  return end === -1 ? undefined : line.toString('latin1', start, end);
}

const newline = 0x0a;

/** Cuts a stream into lines without decoding them. A line is valid until the next chunk is pushed. */
export class LineSplitter {
  #parts: Buffer[] = [];

  /** Returns the last line that this chunk has completed. */
  push(chunk: Buffer, onLine: (line: Buffer) => void): Buffer | undefined {
    let start = 0;
    let last: Buffer | undefined;
    for (let end = chunk.indexOf(newline); end !== -1; end = chunk.indexOf(newline, start)) {
      let line = chunk.subarray(start, end);
      if (this.#parts.length > 0) {
        line = Buffer.concat([...this.#parts, line]);
        this.#parts = [];
      }
      if (line.length > 0) {
        onLine(line);
        last = line;
      }
      start = end + 1;
    }
    if (start < chunk.length) this.#parts.push(chunk.subarray(start));
    return last;
  }
}
