import type { KubeClient } from '../../kube/index.ts';
import type { Caches, SuperWatch } from '../reconcile/caches.ts';
import type { ActionGate } from '../reconcile/execute.ts';
import { definitionGate } from './custom-resources.ts';
import { eventWatch } from './events.ts';
import { isolationWatch, ownPolicyGate } from './network-isolation.ts';
import { tokenWatch } from './pod-tokens.ts';
import { serviceReservationGate } from './service-reservations.ts';

/** What the special controllers watch in the super cluster, beside the kinds. */
export const superWatches: readonly SuperWatch[] = [eventWatch, isolationWatch, tokenWatch];

/** What has to be asked or done before objects of some kinds are written, by name of the kind. */
export function actionGates(
  superClient: KubeClient,
  superCaches: Caches,
  pods?: ActionGate,
): ReadonlyMap<string, ActionGate> {
  return new Map<string, ActionGate>([
    ...(pods === undefined ? [] : [['pods', pods] as const]),
    ['customresourcedefinitions', definitionGate],
    ['networkpolicies', ownPolicyGate(superClient, superCaches)],
    ['services', serviceReservationGate(superClient)],
  ]);
}
