import { releaseReservations } from '../reservations.ts';
import type { Step } from '../steps/index.ts';
import { removeControlPlane, removeDatastore, stopControlPlane } from './control-plane.ts';
import { removeFinalizer } from './finalizer.ts';
import { leave } from './leave.ts';
import { removeSecrets } from './secrets.ts';
import { superLeftovers, superNamespaces } from './super-objects.ts';

const removeReservations: Step = {
  name: 'remove-reservations',
  doing: 'Giving its service addresses back',
  run: releaseReservations,
};

/** From a deleted VirtualCluster to nothing. */
export const removalSteps: readonly Step[] = [
  leave,
  stopControlPlane,
  superNamespaces,
  superLeftovers,
  removeDatastore,
  removeControlPlane,
  removeReservations,
  removeSecrets,
  removeFinalizer,
];
