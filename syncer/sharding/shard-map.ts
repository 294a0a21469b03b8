import { hash } from 'node:crypto';
import {
  type ConfigMap,
  ignoreNotFound,
  isAlreadyExists,
  isConflict,
  isNotFound,
  type KubeClient,
  resources,
} from '../../kube/index.ts';

/** What is asked of the super cluster here, on a connection that the fence does not guard. */
export type ShardClient = Pick<KubeClient, 'get' | 'list' | 'create' | 'update' | 'delete'>;

export const shardMapName = 'vc-syncer-shards';

const leasePrefix = 'vc-syncer-';

export function leaseName(replica: string): string {
  return leasePrefix + replica;
}

export function replicaOf(leaseName: string): string {
  return leaseName.slice(leasePrefix.length);
}

/** Whether a Lease can have this name: it is a DNS name. */
export function isReplicaName(text: string): boolean {
  return text.length <= 200 && /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/.test(text);
}

/** The owners of buckets, at one resourceVersion of the ConfigMap. */
export interface ShardMap {
  readonly owners: ReadonlyMap<number, string>;
  /** As it was read; `undefined`: there is none. */
  readonly object: ConfigMap | undefined;
}

/** New owners by bucket; `undefined`: none. */
type Changes = ReadonlyMap<number, string | undefined>;

/** Annotation that counts writes, so that even one that changes no owner makes older readers fail. */
const revisionKey = 'skerry.dev/revision';
/** For each call. */
const timeoutMs = 4_000;

/** The ConfigMap that maps buckets to replicas. It is read live, and written only as it was read. */
export class ShardMapStore {
  readonly #client: ShardClient;
  readonly #ref: { namespace: string; name: string };

  constructor(client: ShardClient, namespace: string) {
    this.#client = client;
    this.#ref = { namespace, name: shardMapName };
  }

  async read(signal?: AbortSignal): Promise<ShardMap> {
    const call = this.#client.get<ConfigMap>(resources.configMaps, this.#ref, { signal, timeoutMs });
    const object = await ignoreNotFound(call);
    return object === undefined ? { owners: new Map(), object } : parsed(object);
  }

  /** Changes the map if it is still as it was read; `undefined`: it is not. */
  async write({ object }: ShardMap, changes: Changes, signal?: AbortSignal): Promise<ShardMap | undefined> {
    const revision = Number(object?.metadata.annotations?.[revisionKey] ?? 0) + 1;
    const data = { ...object?.data };
    for (const [bucket, owner] of changes) {
      if (owner === undefined) delete data[bucket];
      else data[bucket] = owner;
    }
    const wanted: ConfigMap = {
      ...object,
      metadata: {
        ...object?.metadata,
        ...this.#ref,
        annotations: { ...object?.metadata.annotations, [revisionKey]: String(revision) },
      },
      data,
    };
    try {
      return parsed(
        object === undefined
          ? await this.#client.create(resources.configMaps, wanted, { signal, timeoutMs })
          : await this.#client.update(resources.configMaps, wanted, { signal, timeoutMs }),
      );
    } catch (error) {
      if (isConflict(error) || isAlreadyExists(error)) return undefined;
      if (object !== undefined && isNotFound(error)) return undefined;
      throw error;
    }
  }
}

function parsed(object: ConfigMap): ShardMap {
  const owners = new Map<number, string>();
  for (const [key, owner] of Object.entries(object.data ?? {})) {
    if (/^\d+$/.test(key)) owners.set(Number(key), owner);
  }
  return { owners, object };
}

/** The buckets of one replica. */
export function ownedBy({ owners }: ShardMap, replica: string): Set<number> {
  return new Set([...owners].filter(([, owner]) => owner === replica).map(([bucket]) => bucket));
}

/**
 * Which of the replicas should have a bucket: the one whose hash with it is highest. When one joins it takes what
 * it wins, when one leaves the others take what it had, and nothing else moves.
 */
export function preferredReplica(bucket: number, replicas: Iterable<string>): string | undefined {
  let best: { replica: string; score: string } | undefined;
  for (const replica of replicas) {
    const score = hash('sha256', `${bucket}/${replica}`, 'hex');
    if (best === undefined || score > best.score) best = { replica, score };
  }
  return best?.replica;
}
