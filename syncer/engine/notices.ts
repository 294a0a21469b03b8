import { createHash } from 'node:crypto';
import {
  apiVersionOf,
  isAlreadyExists,
  type KubeClient,
  type KubeObject,
  type Resource,
  resources,
} from '../../kube/index.ts';
import type { Notice } from '../kinds/index.ts';
import { BoundedMap } from './bounded-map.ts';

const component = 'skerry-syncer';
/** The same words about the same object are written at most this often. */
const repeatMs = 10_000;

/** Writes events on a tenant's objects, so that `kubectl describe` says what the syncer cannot do and why. */
export class Notices {
  readonly #client: KubeClient;
  readonly #nowMs: () => number;
  /** When each notice was last written, by event name: keeps a refused object from flooding the tenant. */
  readonly #written = new BoundedMap<{ atMs: number; count: number; firstTimestamp: string }>(2_000);

  constructor(client: KubeClient, nowMs: () => number) {
    this.#client = client;
    this.#nowMs = nowMs;
  }

  async write(resource: Resource, object: KubeObject, notice: Notice, signal: AbortSignal): Promise<void> {
    const nowMs = this.#nowMs();
    const timestamp = new Date(nowMs).toISOString().replace(/\.\d+Z$/, 'Z');
    const name = eventName(object, notice);
    const namespace = object.metadata.namespace ?? 'default';
    const before = this.#written.get(name);
    if (before !== undefined && nowMs - before.atMs < repeatMs) return;
    let count = (before?.count ?? 0) + 1;
    const firstTimestamp = before?.firstTimestamp ?? timestamp;
    const event = {
      apiVersion: 'v1',
      kind: 'Event',
      metadata: { name, namespace },
      involvedObject: {
        apiVersion: object.apiVersion ?? apiVersionOf(resource),
        kind: object.kind ?? resource.kind,
        name: object.metadata.name,
        ...(object.metadata.namespace === undefined ? {} : { namespace: object.metadata.namespace }),
        uid: object.metadata.uid,
        resourceVersion: object.metadata.resourceVersion,
      },
      type: notice.type,
      reason: notice.reason,
      message: notice.message,
      source: { component },
      reportingComponent: component,
      count,
      firstTimestamp,
      lastTimestamp: timestamp,
    };
    try {
      await this.#client.create(resources.events, event, { signal });
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
      if (before === undefined) {
        // Written by an earlier syncer.
        const there = await this.#client.get(resources.events, { namespace, name }, { signal });
        count += Number(there['count'] ?? 0);
      }
      await this.#client.patch(
        resources.events,
        { namespace, name },
        { count, lastTimestamp: timestamp },
        { type: 'merge', signal },
      );
    }
    this.#written.set(name, { atMs: nowMs, count, firstTimestamp });
  }
}

/** The same for the same words about the same object: a repeat finds the event that is there. */
function eventName(object: KubeObject, notice: Notice): string {
  const hash = createHash('sha256')
    .update(`${object.metadata.uid ?? ''}\0${notice.reason}\0${notice.message}`)
    .digest('hex')
    .slice(0, 16);
  return `${(object.metadata.name ?? '').slice(0, 230)}.${hash}`;
}
