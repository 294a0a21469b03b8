import {
  type Connection,
  KubeClient,
  type KubeObject,
  type Resource,
  systemClock,
} from '../../../kube/index.ts';
import { BufferLines } from './buffer-lines.ts';
import { type EventType, eventResourceVersion, eventType } from './event-bytes.ts';

export interface EventLinesOptions {
  connection: Connection;
  /** Of the core group. */
  resource: Resource;
  /** Absent: of all namespaces. */
  namespace?: string;
  labelSelector?: string;
  /** All that there is: at the start, and again whenever the watch has lost its place. */
  onList: (objects: readonly KubeObject[]) => void;
  /** One event as it came; `line` is not to be kept. */
  onEvent: (type: EventType, line: Buffer) => void;
}

const silenceMs = 120_000;
const watchSeconds = 1_800;
const retryMs = 250;

/** A list and then a watch whose events are not parsed. Goes on over whatever ends the watch, until aborted. */
export class EventLines {
  readonly #options: EventLinesOptions;
  readonly #client: KubeClient;
  readonly #first = Promise.withResolvers<void>();

  constructor(options: EventLinesOptions) {
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
        if (error instanceof LostPlace) version = undefined;
        await systemClock.sleep(retryMs, signal).catch(() => undefined);
      }
    }
    this.#first.reject(signal.reason);
  }

  async #list(signal: AbortSignal): Promise<string> {
    const { resource, namespace, labelSelector, onList } = this.#options;
    const { metadata, items } = await this.#client.list(resource, {
      signal,
      ...(namespace === undefined ? {} : { namespace }),
      ...(labelSelector === undefined ? {} : { labelSelector }),
    });
    onList(items);
    return metadata.resourceVersion ?? '0';
  }

  /** Yields the version that it has come to, now and then. */
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
      if (status === 410) throw new LostPlace();
      if (status !== 200) throw new Error(`watching ${resource.plural}: HTTP ${status}`);
      const lines = new BufferLines();
      for await (const chunk of body) {
        const last = lines.push(chunk, (line) => {
          const type = eventType(line);
          if (type === undefined || type === 'ERROR') throw new LostPlace();
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

/** The watch cannot go on where it was: what there is has to be listed again. */
class LostPlace extends Error {}
