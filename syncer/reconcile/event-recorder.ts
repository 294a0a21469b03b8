import { createHash } from 'node:crypto';
import {
  apiVersionOf,
  ignoreNotFound,
  isAlreadyExists,
  type KubeClient,
  type KubeObject,
  metaTime,
  printable,
  type Resource,
  resources,
} from '../../kube/index.ts';
import type { Notice } from '../kinds/contract.ts';
import { BoundedMap } from './bounded-map.ts';

const component = 'skerry-syncer';
/** Of an event's message, as API servers take it. */
const longestMessage = 1_000;
/** The same words about the same object are written at most this often. */
const repeatMs = 10_000;
/** So many different words for one reason about one object are events of their own within this time. */
const maxSimilar = 10;
const similarMs = 10 * 60_000;

interface Written {
  atMs: number;
  /** Times that it was said, those that have not been written included. */
  count: number;
  firstTimestamp: string;
}

interface Similar {
  sinceMs: number;
  readonly names: Set<string>;
}

/** Writes events on a tenant's objects, so that `kubectl describe` says what the syncer cannot do and why. */
export class EventRecorder {
  readonly #client: KubeClient;
  readonly #nowMs: () => number;
  /** By event name: keeps a refused object from flooding the tenant. */
  readonly #written = new BoundedMap<Written>(2_000);
  /** Names of the events of one reason about one object, by the name that they would have together. */
  readonly #similar = new BoundedMap<Similar>(2_000);

  constructor(client: KubeClient, nowMs: () => number) {
    this.#client = client;
    this.#nowMs = nowMs;
  }

  /** The message becomes printable: it may repeat what a tenant wrote. */
  async record(resource: Resource, object: KubeObject, said: Notice, signal: AbortSignal): Promise<void> {
    const notice = { ...said, message: printable(said.message, longestMessage) };
    const nowMs = this.#nowMs();
    const { name, message } = this.#eventFor(object, notice, nowMs);
    const before = this.#written.get(name);
    if (before !== undefined && nowMs - before.atMs < repeatMs) {
      before.count += 1;
      return;
    }
    const timestamp = metaTime(new Date(nowMs));
    const event = {
      ...eventOn(resource, object, notice),
      message,
      count: (before?.count ?? 0) + 1,
      firstTimestamp: before?.firstTimestamp ?? timestamp,
      lastTimestamp: timestamp,
    };
    const metadata = { name, namespace: object.metadata.namespace ?? 'default' };
    const count = await this.#put({ metadata, ...event }, before !== undefined, signal);
    this.#written.set(name, { atMs: nowMs, count, firstTimestamp: event.firstTimestamp });
  }

  /** The same; an event that cannot be written holds nothing up. Rejects only when aborted. */
  async tryRecord(resource: Resource, object: KubeObject, said: Notice, signal: AbortSignal): Promise<void> {
    try {
      await this.record(resource, object, said, signal);
    } catch (error) {
      if (signal.aborted) throw error;
    }
  }

  /** The event that says it. Words that differ every time, like numbers in them, end up in one. */
  #eventFor(object: KubeObject, notice: Notice, nowMs: number): { name: string; message: string } {
    const together = eventName(object, notice.reason, '');
    let similar = this.#similar.get(together);
    if (similar === undefined || nowMs - similar.sinceMs >= similarMs) {
      similar = { sinceMs: nowMs, names: new Set() };
      this.#similar.set(together, similar);
    }
    const name = eventName(object, notice.reason, notice.message);
    if (similar.names.has(name) || similar.names.size < maxSimilar) {
      similar.names.add(name);
      return { name, message: notice.message };
    }
    return { name: together, message: `(combined from similar events) ${notice.message}` };
  }

  /** Writes the event, over the one that is there; resolves to its count. */
  async #put(event: EventObject, isThere: boolean, signal: AbortSignal): Promise<number> {
    if (isThere && (await this.#patch(event, event.count, signal))) return event.count;
    try {
      const options = { signal, cutManagedFields: true };
      await this.#client.create(resources.events, { apiVersion: 'v1', kind: 'Event', ...event }, options);
      return event.count;
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
      // Written by an earlier syncer.
      const there = await this.#client.get(resources.events, event.metadata, { signal });
      const count = event.count + Number(there['count'] ?? 0);
      await this.#patch(event, count, signal);
      return count;
    }
  }

  /** False if there is none: the tenant's API server forgets events. */
  async #patch(
    { metadata, message, lastTimestamp }: EventObject,
    count: number,
    signal: AbortSignal,
  ): Promise<boolean> {
    const patch = { message, count, lastTimestamp };
    const options = { type: 'merge', signal, cutManagedFields: true } as const;
    const call = this.#client.patch(resources.events, metadata, patch, options);
    return (await ignoreNotFound(call)) !== undefined;
  }
}

type EventObject = ReturnType<typeof eventOn> & {
  metadata: { name: string; namespace: string };
  message: string;
  count: number;
  lastTimestamp: string;
};

function eventOn(resource: Resource, object: KubeObject, { type, reason }: Notice) {
  const { name, namespace, uid, resourceVersion } = object.metadata;
  return {
    involvedObject: {
      apiVersion: object.apiVersion ?? apiVersionOf(resource),
      kind: object.kind ?? resource.kind,
      name,
      ...(namespace === undefined ? {} : { namespace }),
      uid,
      resourceVersion,
    },
    type,
    reason,
    source: { component },
    reportingComponent: component,
  };
}

/** The same for the same words about the same object: a repeat finds the event that is there. */
function eventName(object: KubeObject, reason: string, message: string): string {
  const hash = createHash('sha256')
    .update(`${object.metadata.uid ?? ''}\0${reason}\0${message}`)
    .digest('hex')
    .slice(0, 16);
  return `${(object.metadata.name ?? '').slice(0, 230)}.${hash}`;
}
