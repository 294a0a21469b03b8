import type { KubeClient } from '../../kube/index.ts';
import type { ActionGate } from '../reconcile/execute.ts';
import { definitionGate } from './custom-resources.ts';
import { podTokenGate } from './pod-tokens.ts';
import { serviceReservationGate } from './service-reservations.ts';

/** What has to be asked or done before objects of some kinds are written, by name of the kind. */
export function actionGates(superClient: KubeClient): ReadonlyMap<string, ActionGate> {
  return new Map([
    ['customresourcedefinitions', definitionGate],
    ['services', serviceReservationGate(superClient)],
    ['tokens', podTokenGate],
  ]);
}
