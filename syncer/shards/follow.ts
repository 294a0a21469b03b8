import { type Clock, type KubeClient, type Lease, Reflector, resources, Store } from '../../kube/index.ts';
import { componentSelector, shardMapName } from './records.ts';

/** What is heard of the records that replicas share. */
export interface Listener {
  /** `isNew`: it was seen being made. */
  lease(lease: Lease, isNew: boolean): void;
  leaseGone(lease: Lease): void;
  mapChanged(): void;
}

export type Follow = (listener: Listener, signal: AbortSignal) => Promise<void>;

/** Watches the Leases of all replicas and the map of buckets, until aborted. */
export function followRecords(
  client: KubeClient,
  namespace: string,
  clock: Clock,
  onProblem: (error: unknown) => void,
): Follow {
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
      labelSelector: componentSelector,
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
