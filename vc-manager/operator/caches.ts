import type { Logger } from 'pino';
import type { ControlPlaneTemplate } from '../../api/control-plane-template.ts';
import { labelKeys } from '../../api/labels.ts';
import type { VirtualClusterPolicy } from '../../api/policy.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import {
  type Clock,
  type KubeClient,
  type KubeObject,
  Reflector,
  type Resource,
  resources,
  Store,
} from '../../kube/index.ts';
import { Allocations } from './allocations.ts';

/** Whether one was created before the other, or in the same second with the lower UID. */
export function isOlder(
  one: Pick<VirtualCluster, 'metadata'>,
  other: Pick<VirtualCluster, 'metadata'>,
): boolean {
  const bornAt = ({ metadata }: Pick<VirtualCluster, 'metadata'>): string =>
    `${metadata.creationTimestamp ?? ''} ${metadata.uid ?? ''}`;
  return bornAt(one) < bornAt(other);
}

interface CachesOptions {
  client: KubeClient;
  clock: Clock;
  /** Skerry's own. */
  namespace: string;
  logger: Pick<Logger, 'warn'>;
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

  constructor({ client, clock, namespace, logger }: CachesOptions) {
    this.clock = clock;
    this.allocations = new Allocations(this.virtualClusters, namespace);
    const follow = <T extends KubeObject>(
      resource: Resource,
      store: Store<T>,
      scope: { namespace?: string; labelSelector?: string } = {},
    ): Reflector<T> =>
      new Reflector<T>({
        ...{ client, clock, resource, store, ...scope },
        onProblem: ({ error, phase }) =>
          logger.warn(
            { err: error, phase, resource: resource.plural },
            'cannot follow objects; trying again',
          ),
      });
    this.#reflectors = [
      follow(resources.virtualClusters, this.virtualClusters),
      follow(resources.virtualClusterPolicies, this.policies),
      follow(resources.controlPlaneTemplates, this.templates),
      follow(resources.leases, this.activity, { namespace, labelSelector: labelKeys.activity }),
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
