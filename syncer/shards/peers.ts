import { type Clock, isNotFound, type Lease, resources } from '../../kube/index.ts';
import type { Listener } from './follow.ts';
import { Members } from './members.ts';
import { componentSelector, leaseName, replicaOf, type ShardClient } from './records.ts';
import type { ShardMapStore } from './shard-map.ts';

export interface PeersOptions {
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

  /** `onChange`: somebody came, went, or is known to be alive; or the map has changed. */
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

  /** Asks the server who else there is; returns whether there is a Lease of anybody, dead or alive. */
  async look(signal: AbortSignal): Promise<boolean> {
    const { client, namespace, replica } = this.#options;
    const options = { namespace, labelSelector: componentSelector, signal, timeoutMs: callTimeoutMs };
    const { items } = await client.list<Lease>(resources.leases, options);
    const others = items.filter(({ metadata }) => metadata.name !== leaseName(replica));
    for (const lease of others) this.members.saw(lease);
    return others.length > 0;
  }

  /** Asks the server itself. */
  async isDead(replica: string, signal: AbortSignal): Promise<boolean> {
    const { client, namespace } = this.#options;
    try {
      const ref = { namespace, name: leaseName(replica) };
      this.members.saw(await client.get<Lease>(resources.leases, ref, { signal, timeoutMs: callTimeoutMs }));
    } catch (error) {
      if (!isNotFound(error)) throw error;
      this.members.sawNone(replica);
    }
    return this.members.stateOf(replica) === 'dead';
  }

  /** Removes Leases that nobody will renew. The write before it makes fail whatever their owners were about to write. */
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
      await client.delete(resources.leases, ref, { signal }).catch((error: unknown) => {
        if (!isNotFound(error)) throw error;
      });
      this.members.forget(name);
    }
  }
}
