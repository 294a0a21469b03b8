import { type Clock, Connection, type ConnectionOptions, KubeClient } from '../kube/index.ts';
import { Fence } from './sharding/own-lease.ts';

/** A Lease counts for ten seconds; a third of it is for a write that has been sent and has not arrived. */
const windowMs = 6_600;

/** The two ways to the super cluster. */
export interface SuperClients {
  readonly fence: Fence;
  /** For everything that is done for tenants: its writes pass the fence. */
  readonly superClient: KubeClient;
  /** For what opens the fence. A connection of its own: a crowd of calls on the other one does not hold it up. */
  readonly unfenced: KubeClient;
  close(): Promise<void>;
}

export function openSuperClients(
  options: ConnectionOptions,
  clock: Clock,
  onRefused: () => void,
): SuperClients {
  const fence = new Fence({ windowMs, clock, onRefused });
  const fenced = new Connection({ ...options, beforeWrite: () => fence.check() });
  const unfenced = new Connection(options);
  return {
    fence,
    superClient: new KubeClient(fenced),
    unfenced: new KubeClient(unfenced),
    async close() {
      await Promise.all([fenced.close(), unfenced.close()]);
    },
  };
}
