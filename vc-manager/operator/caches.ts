import type { ControlPlaneTemplate } from '../../api/control-plane-template.ts';
import { labelKeys } from '../../api/labels.ts';
import type { VirtualClusterPolicy } from '../../api/policy.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import {
  type Clock,
  type KubeClient,
  type KubeObject,
  Reflector,
  resources,
  Store,
} from '../../kube/index.ts';
import { Allocations } from './allocations.ts';

/** Key of a VirtualCluster in queues: `namespace/name`. */
export function keyOf({ metadata }: VirtualCluster): string {
  return `${metadata.namespace}/${metadata.name}`;
}

/** The objects of the super cluster that a manager watches. */
export class Caches {
  readonly clock: Clock;
  readonly allocations: Allocations;
  readonly virtualClusters = new Store<VirtualCluster>({ indexes: { id: (vc) => [vc.status?.id ?? ''] } });
  readonly policies = new Store<VirtualClusterPolicy>();
  readonly templates = new Store<ControlPlaneTemplate>();
  /** Leases by which the gateway says when a tenant was last used. */
  readonly activity = new Store<KubeObject>();
  readonly #reflectors: {
    run(signal: AbortSignal): Promise<void>;
    synced(signal: AbortSignal): Promise<void>;
  }[];

  /** `namespace`: Skerry's own. */
  constructor({ client, clock, namespace }: { client: KubeClient; clock: Clock; namespace: string }) {
    this.clock = clock;
    this.allocations = new Allocations(this.virtualClusters, namespace);
    this.#reflectors = [
      new Reflector({ client, clock, resource: resources.virtualClusters, store: this.virtualClusters }),
      new Reflector({ client, clock, resource: resources.virtualClusterPolicies, store: this.policies }),
      new Reflector({ client, clock, resource: resources.controlPlaneTemplates, store: this.templates }),
      new Reflector({
        client,
        clock,
        resource: resources.leases,
        namespace,
        labelSelector: labelKeys.activity,
        store: this.activity,
      }),
    ];
  }

  /** Until aborted. */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.all(this.#reflectors.map((reflector) => reflector.run(signal)));
  }

  /** Nothing may be allocated before: what is not in the caches counts as free. */
  async synced(signal: AbortSignal): Promise<void> {
    await Promise.all(this.#reflectors.map((reflector) => reflector.synced(signal)));
  }
}
