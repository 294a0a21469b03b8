import { finalizer } from '../../api/labels.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { isWarmPoolMember, warmClaim } from '../../api/warm-pool.ts';
import { namespacedName, type Store } from '../../kube/index.ts';

interface Allocation {
  id?: string | undefined;
  slice?: string | undefined;
  port?: number | undefined;
  datastorePorts?: readonly number[] | undefined;
  gatewayPort?: number | undefined;
}

/**
 * Ids, service slices and ports of the VirtualClusters, each of which only one may have. Read from the store, which lags
 * behind, and from memory for what was allocated since. Choose a value and `remember` it in one synchronous step: then no
 * other reconcile can choose the same.
 */
export class Allocations {
  readonly #store: Store<VirtualCluster>;
  readonly #systemNamespace: string;
  readonly #own = new Map<string, Allocation>();
  /** UID of a warm VirtualCluster to that of the one that it was given to. */
  readonly #given = new Map<string, string>();

  /** `systemNamespace`: Skerry's own, with the warm pool. */
  constructor(store: Store<VirtualCluster>, systemNamespace: string) {
    this.#store = store;
    this.#systemNamespace = systemNamespace;
  }

  remember(uid: string, claim: Allocation): void {
    this.#own.set(uid, { ...this.#own.get(uid), ...claim });
  }

  forget(uid: string): void {
    this.#own.delete(uid);
    this.#given.delete(uid);
    // Of what was given to it, and perhaps not written, the store tells now.
    for (const [member, owner] of this.#given) if (owner === uid) this.#given.delete(member);
  }

  /** All that a warm VirtualCluster has is the other's too from now on. */
  give({ metadata: { uid = '' }, status }: VirtualCluster, toUid: string): void {
    this.#given.set(uid, toUid);
    const { id, serviceCIDR: slice, advertisedPort: port, datastorePorts, gateway } = status ?? {};
    this.remember(toUid, { id, slice, port, datastorePorts, gatewayPort: gateway?.port });
  }

  /** It could not be given. */
  takeBack({ metadata: { uid = '' } }: VirtualCluster, fromUid: string): void {
    this.#given.delete(uid);
    this.#own.delete(fromUid);
  }

  /** UID of the one that a warm VirtualCluster was given to, which the store may not show yet. */
  givenTo({ metadata: { uid = '' } }: VirtualCluster): string | undefined {
    return this.#given.get(uid);
  }

  /** `namespace/name` of the other VirtualCluster that has this id, and has not been given to this one. */
  ownerOfId(id: string, exceptUid: string): string | undefined {
    for (const vc of this.#store.list()) {
      if (vc.metadata.uid === exceptUid || vc.status?.id !== id) continue;
      const isGiven = isWarmPoolMember(vc, this.#systemNamespace) && warmClaim(vc)?.uid === exceptUid;
      if (!isGiven && this.givenTo(vc) !== exceptUid) return namespacedName(vc.metadata);
    }
    for (const [uid, claim] of this.#own) {
      if (uid !== exceptUid && claim.id === id && this.#given.get(uid) !== exceptUid)
        return `with UID ${uid}`;
    }
    return undefined;
  }

  /** How many others of a namespace have an id, or are about to have one. */
  countOthersIn(namespace: string, exceptUid: string): number {
    const holders = new Set<string>();
    for (const { metadata, status } of this.#store.list()) {
      const { uid = '' } = metadata;
      if (metadata.namespace !== namespace || uid === exceptUid) continue;
      const isHolder = status?.id !== undefined || metadata.finalizers?.includes(finalizer);
      if (isHolder || this.#own.get(uid)?.id !== undefined) holders.add(uid);
    }
    return holders.size;
  }

  slices(exceptUid: string): string[] {
    return this.#others(
      exceptUid,
      (vc) => vc.status?.serviceCIDR,
      (claim) => claim.slice,
    );
  }

  ports(exceptUid: string): Set<number> {
    const several = this.#others(
      exceptUid,
      ({ status }) => [status?.advertisedPort, status?.replacementPort, ...(status?.datastorePorts ?? [])],
      ({ port, datastorePorts = [] }) => [port, ...datastorePorts],
    );
    return new Set(several.flat().filter((port) => port !== undefined));
  }

  gatewayPorts(exceptUid: string): Set<number> {
    return new Set(
      this.#others(
        exceptUid,
        (vc) => vc.status?.gateway?.port,
        (claim) => claim.gatewayPort,
      ),
    );
  }

  /** Written already. A control plane of the warm pool and the one that it was given to have the same id, and are one. */
  othersAtGatewayPort({ metadata, status }: VirtualCluster, port: number): VirtualCluster[] {
    return [...this.#store.list()].filter(
      (vc) =>
        vc.metadata.uid !== metadata.uid && vc.status?.gateway?.port === port && vc.status.id !== status?.id,
    );
  }

  #others<T>(
    exceptUid: string,
    ofStored: (vc: VirtualCluster) => T | undefined,
    ofClaim: (claim: Allocation) => T | undefined,
  ): T[] {
    const found: T[] = [];
    const add = (uid: string | undefined, value: T | undefined): void => {
      if (uid !== exceptUid && value !== undefined) found.push(value);
    };
    for (const vc of this.#store.list()) add(vc.metadata.uid, ofStored(vc));
    for (const [uid, claim] of this.#own) add(uid, ofClaim(claim));
    return found;
  }
}
