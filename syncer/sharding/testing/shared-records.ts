import {
  ApiError,
  type Clock,
  type KubeObject,
  type Lease,
  type ObjectRef,
  type Resource,
} from '../../../kube/index.ts';
import type { FollowRecords, Listener } from '../members.ts';
import type { ShardClient } from '../shard-map.ts';

type Options = { uid?: string; resourceVersion?: string; signal?: AbortSignal } | undefined;

function refusal(code: number, reason: string): ApiError {
  return new ApiError(code, { kind: 'Status', code, reason, message: reason }, 'test');
}

/** What the replicas of a test share: Leases and the map in memory, as an API server keeps them. */
export class SharedRecords {
  /** By `plural/name`. */
  readonly objects = new Map<string, KubeObject>();
  readonly listeners = new Set<Listener>();
  /** Every call, as `verb plural/name`. */
  readonly calls: string[] = [];
  #version = 0;

  get owners(): Record<string, string> {
    return { ...(this.objects.get('configmaps/vc-syncer-shards')?.['data'] as object) };
  }

  /** How many buckets each replica has. */
  get shares(): Record<string, number> {
    const shares: Record<string, number> = {};
    for (const owner of Object.values(this.owners)) shares[owner] = (shares[owner] ?? 0) + 1;
    return shares;
  }

  act(
    verb: 'get' | 'list' | 'create' | 'update' | 'delete',
    resource: Resource,
    name: string,
    object?: KubeObject,
    options?: Options,
  ): KubeObject {
    const id = `${resource.plural}/${name}`;
    this.calls.push(`${verb} ${id}`);
    const present = this.objects.get(id);
    if (verb === 'list') {
      const items = [...this.objects]
        .filter(([key]) => key.startsWith(`${resource.plural}/`))
        .map(([, each]) => each);
      return structuredClone({ metadata: {}, items });
    }
    if (verb === 'create') {
      if (present !== undefined) throw refusal(409, 'AlreadyExists');
      return this.#put(id, { ...object, metadata: { ...object?.metadata, uid: `u${this.#version}` } });
    }
    if (present === undefined) throw refusal(404, 'NotFound');
    if (verb === 'get') return structuredClone(present);
    const wanted = verb === 'update' ? object?.metadata.resourceVersion : options?.resourceVersion;
    if (wanted !== undefined && wanted !== present.metadata.resourceVersion) throw refusal(409, 'Conflict');
    if (verb === 'update') return this.#put(id, object as KubeObject);
    this.objects.delete(id);
    for (const listener of this.listeners)
      if (resource.plural === 'leases') listener.leaseGone(present as Lease);
    return present;
  }

  #put(id: string, object: KubeObject): KubeObject {
    const isNew = !this.objects.has(id);
    const stored = structuredClone(object);
    stored.metadata.resourceVersion = String(++this.#version);
    this.objects.set(id, stored);
    for (const listener of this.listeners) {
      if (id.startsWith('leases/')) listener.lease(structuredClone(stored) as Lease, isNew);
      else listener.mapChanged();
    }
    return structuredClone(stored);
  }
}

export interface RecordsClientOptions {
  clock: Clock;
  /** How long a call is on its way, there and back. */
  delayMs: () => readonly [number, number];
  /** While this says so, nothing gets there. */
  isCut?: () => boolean;
}

/** A replica's own way to what is shared. */
export function clientOf(
  records: SharedRecords,
  { clock, delayMs, isCut }: RecordsClientOptions,
): ShardClient {
  const call = async (act: () => KubeObject): Promise<never> => {
    const [there, back] = delayMs();
    // What has been sent arrives, whatever becomes of the sender.
    if (isCut?.() === true) throw refusal(503, 'ServiceUnavailable');
    if (there > 0) await clock.sleep(there);
    let answer: { value: KubeObject } | { error: unknown };
    try {
      answer = { value: act() };
    } catch (error) {
      answer = { error };
    }
    if (back > 0) await clock.sleep(back);
    if ('error' in answer) throw answer.error;
    return answer.value as never;
  };
  const nameOf = (object: KubeObject): string => object.metadata.name ?? '';
  return {
    get: (resource: Resource, ref: ObjectRef) => call(() => records.act('get', resource, ref.name)),
    list: (resource: Resource) => call(() => records.act('list', resource, '')),
    create: (resource: Resource, object: KubeObject) =>
      call(() => records.act('create', resource, nameOf(object), object)),
    update: (resource: Resource, object: KubeObject) =>
      call(() => records.act('update', resource, nameOf(object), object)),
    delete: async (resource: Resource, ref: ObjectRef, options?: Options) => {
      await call(() => records.act('delete', resource, ref.name, undefined, options));
    },
  } as unknown as ShardClient;
}

/** Hears of every change at once; of what was there before as by a list. */
export function followerOf(records: SharedRecords, isCut: () => boolean = () => false): FollowRecords {
  return async (listener, signal) => {
    for (const [id, object] of records.objects)
      if (id.startsWith('leases/')) listener.lease(object as Lease, false);
    const mine: Listener = {
      lease: (lease, isNew) => void (isCut() || listener.lease(lease, isNew)),
      leaseGone: (lease) => void (isCut() || listener.leaseGone(lease)),
      mapChanged: () => void (isCut() || listener.mapChanged()),
    };
    records.listeners.add(mine);
    await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
    records.listeners.delete(mine);
  };
}
