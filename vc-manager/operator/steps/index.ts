import { address } from './address.ts';
import { bootstrap } from './bootstrap.ts';
import { certificates } from './certificates.ts';
import { controllers, controlPlane } from './control-plane.ts';
import { credentials } from './credentials.ts';
import { datastore } from './datastore.ts';
import { dns } from './dns.ts';
import { identity } from './identity.ts';
import { policy } from './policy.ts';
import { reservations, serviceSlice } from './service-slice.ts';
import { type Stage, sideBySide } from './side-by-side.ts';
import { version } from './version.ts';

export { uidOfKubeSystem } from './bootstrap.ts';
export { runStages, type Stage, StepFailed } from './side-by-side.ts';
export type { Step } from './step.ts';

/** What there may be only one of: chosen, and written down, before anything is made. */
export const choosingStages: readonly Stage[] = [policy, identity, version, address, serviceSlice];

/**
 * From a VirtualCluster to a control plane that can be used. Who waits for one waits for its API server: controllers
 * start while the rest is done, and are waited for at the end.
 */
export const provisionStages: readonly Stage[] = [
  ...choosingStages,
  sideBySide([reservations, certificates], [datastore]),
  controlPlane,
  bootstrap,
  dns,
  credentials,
  controllers,
];
