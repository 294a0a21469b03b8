import { isTakenUp } from '../../../api/conditions.ts';
import { driverChanged } from '../errors.ts';
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

/** First, so that nothing is half removed: what another driver runs can be neither seen nor ended here. */
const ownDriver: Step = {
  name: 'own-driver',
  doing: 'Looking which driver runs it',
  async run(tenant, { settings }) {
    const has = tenant.vc.status?.driver ?? 'process';
    if (tenant.wasStarted && has !== settings.driver) throw driverChanged(has, settings.driver);
  },
};

export { ownsId } from './owns-id.ts';
export { isTakenUp };

/** From a deleted VirtualCluster to nothing. */
export const removalSteps: readonly Step[] = [
  ownDriver,
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
