import { syncerSelector } from '../../api/labels.ts';
import {
  type Clock,
  ignoreNotFound,
  type KubeClient,
  type Lease,
  Reflector,
  resources,
  Store,
} from '../../kube/index.ts';
import { leaseName, replicaOf, type ShardClient, type ShardMapStore, shardMapName } from './shard-map.ts';

/** What is heard of the records that replicas share. */
export interface Listener {
  /** `isNew`: it was seen being made. */
  lease(lease: Lease, isNew: boolean): void;
  leaseGone(lease: Lease): void;
  mapChanged(): void;
}

export type FollowRecords = (listener: Listener, signal: AbortSignal) => Promise<void>;

/** Watches the Leases of all replicas and the map of buckets, until aborted. */
export function followRecords(
  client: KubeClient,
  namespace: string,
  clock: Clock,
  onProblem: (error: unknown) => void,
): FollowRecords {
  return async (listener, signal) => {
    const leases = new Store<Lease>();
    leases.subscribe(({ type, object, watched }) => {
      if (type === 'deleted') listener.leaseGone(object);
      else listener.lease(object, type === 'added' && watched);
    });
    const maps = new Store();
    maps.subscribe(() => listener.mapChanged());
    const common = {
      client,
      namespace,
      clock,
      consistentStart: true,
      onProblem: ({ error }: { error: unknown }) => onProblem(error),
    };
    const leaseReflector = new Reflector<Lease>({
      ...common,
      resource: resources.leases,
      store: leases,
      labelSelector: syncerSelector,
    });
    const mapReflector = new Reflector({
      ...common,
      resource: resources.configMaps,
      store: maps,
      fieldSelector: `metadata.name=${shardMapName}`,
    });
    await Promise.all([leaseReflector.run(signal), mapReflector.run(signal)]);
  };
}

interface PeersOptions {
  client: ShardClient;
  namespace: string;
  /** The name of this replica. */
  replica: string;
  durationMs: number;
  clock: Clock;
}

/** Leases of the dead are kept for a while, for people to see. */
const collectAfterMs = 60_000;
/** A connection that was cut in silence must not keep the fence shut for long. */
const callTimeoutMs = 4_000;

/** The other replicas: what is heard of them, and what the server says when it is asked. */
export class Peers {
  readonly members: Members;
  readonly #options: PeersOptions;

  constructor(options: PeersOptions) {
    this.#options = options;
    this.members = new Members(options.clock, options.durationMs);
  }

  /** `onChange`: a replica came, went, or is known to be alive; or the map has changed. */
  listener(onChange: () => void): Listener {
    const own = leaseName(this.#options.replica);
    return {
      lease: (lease, isNew) => {
        if (lease.metadata.name !== own && this.members.saw(lease, isNew)) onChange();
      },
      leaseGone: (lease) => {
        if (lease.metadata.name === own) return;
        this.members.sawNone(replicaOf(lease.metadata.name ?? ''));
        onChange();
      },
      mapChanged: onChange,
    };
  }

  /** Asks the server who else there is; returns whether there is a Lease of any replica, dead or alive. */
  async look(signal: AbortSignal): Promise<boolean> {
    const { client, namespace, replica } = this.#options;
    const options = { namespace, labelSelector: syncerSelector, signal, timeoutMs: callTimeoutMs };
    const { items } = await client.list<Lease>(resources.leases, options);
    const others = items.filter(({ metadata }) => metadata.name !== leaseName(replica));
    for (const lease of others) this.members.saw(lease);
    return others.length > 0;
  }

  /** Asks the server itself. */
  async isDead(replica: string, signal: AbortSignal): Promise<boolean> {
    const { client, namespace } = this.#options;
    const ref = { namespace, name: leaseName(replica) };
    const lease = await ignoreNotFound(
      client.get<Lease>(resources.leases, ref, { signal, timeoutMs: callTimeoutMs }),
    );
    if (lease === undefined) this.members.sawNone(replica);
    else this.members.saw(lease);
    return this.members.stateOf(replica) === 'dead';
  }

  /** Removes Leases that no replica will renew. The write before it makes fail whatever their owners were about to write. */
  async collect(maps: ShardMapStore, signal: AbortSignal): Promise<void> {
    const { client, namespace, replica } = this.#options;
    const dead = this.members.deadFor(collectAfterMs);
    if (dead.length === 0 || this.members.alive().some((name) => name < replica)) return;
    const map = await maps.read(signal);
    const owners = new Set(map.owners.values());
    const idle = dead.filter((name) => !owners.has(name));
    if (idle.length === 0 || (await maps.write(map, new Map(), signal)) === undefined) return;
    for (const name of idle) {
      if (!(await this.isDead(name, signal))) continue;
      const ref = { namespace, name: leaseName(name) };
      await ignoreNotFound(client.delete(resources.leases, ref, { signal }));
      this.members.forget(name);
    }
  }
}

/**
 * - `alive`: seen to change its Lease, and that not too long ago.
 * - `unknown`: its Lease is there, or gone, and too little time has passed to tell.
 * - `dead`: its Lease has not changed for its duration.
 */
type MemberState = 'alive' | 'unknown' | 'dead';

interface Member {
  /** Of its Lease; `undefined`: it has none. */
  readonly version: string | undefined;
  /** When its Lease first looked like this to us, on our monotonic clock. */
  readonly sinceMs: number;
  readonly isProven: boolean;
  readonly durationMs: number;
}

/** The other replicas, judged by changes of their Leases on our own clock alone. */
export class Members {
  readonly #clock: Clock;
  readonly #durationMs: number;
  readonly #members = new Map<string, Member>();

  constructor(clock: Clock, durationMs: number) {
    this.#clock = clock;
    this.#durationMs = durationMs;
  }

  /** A Lease as the server shows it. `isNew`: it was seen being made. Returns whether something has changed. */
  saw(lease: Lease, isNew = false): boolean {
    const name = replicaOf(lease.metadata.name ?? '');
    const version = lease.metadata.resourceVersion;
    const before = this.#members.get(name);
    if (before !== undefined && before.version === version) return false;
    const wasAlive = this.stateOf(name) === 'alive';
    const seconds = lease.spec?.leaseDurationSeconds;
    this.#members.set(name, {
      version,
      sinceMs: this.#clock.monotonic(),
      isProven: isNew || before !== undefined,
      durationMs: seconds === undefined ? this.#durationMs : seconds * 1000,
    });
    return !wasAlive;
  }

  /** It has no Lease. Until that has lasted, it may be about to make a new one. */
  sawNone(name: string): void {
    const before = this.#members.get(name);
    if (before !== undefined && before.version === undefined) return;
    const durationMs = before?.durationMs ?? this.#durationMs;
    this.#members.set(name, {
      version: undefined,
      sinceMs: this.#clock.monotonic(),
      isProven: false,
      durationMs,
    });
  }

  /** No Lease and no bucket names it any more. */
  forget(name: string): void {
    this.#members.delete(name);
  }

  /** `unknown` for one that was never heard of, from now on with a time limit. */
  stateOf(name: string): MemberState {
    const member = this.#members.get(name);
    if (member === undefined) {
      this.sawNone(name);
      return 'unknown';
    }
    if (this.#clock.monotonic() - member.sinceMs > member.durationMs) return 'dead';
    return member.isProven && member.version !== undefined ? 'alive' : 'unknown';
  }

  alive(): string[] {
    return [...this.#members.keys()].filter((name) => this.stateOf(name) === 'alive');
  }

  /** Those that are alive, and those with a Lease that may be. */
  possible(): string[] {
    return [...this.#members]
      .filter(([name, { version }]) => version !== undefined && this.stateOf(name) !== 'dead')
      .map(([name]) => name);
  }

  /** Those that have been dead for this long beyond their duration, and have left a Lease. */
  deadFor(ms: number): string[] {
    const now = this.#clock.monotonic();
    return [...this.#members]
      .filter(
        ([, { version, sinceMs, durationMs }]) => version !== undefined && now - sinceMs > durationMs + ms,
      )
      .map(([name]) => name);
  }

  /** In how many milliseconds the next one may be dead, if nothing is heard of it. */
  get nextDeathInMs(): number {
    const now = this.#clock.monotonic();
    let nextMs = Number.POSITIVE_INFINITY;
    for (const { sinceMs, durationMs } of this.#members.values()) {
      const inMs = sinceMs + durationMs - now;
      if (inMs >= 0) nextMs = Math.min(nextMs, inMs + 1);
    }
    return nextMs;
  }
}
