import { address } from './address.ts';
import { bootstrap } from './bootstrap.ts';
import { certificates } from './certificates.ts';
import { controlPlane } from './control-plane.ts';
import { credentials } from './credentials.ts';
import { datastore } from './datastore.ts';
import { dns } from './dns.ts';
import { identity } from './identity.ts';
import { policy } from './policy.ts';
import { serviceSlice } from './service-slice.ts';
import type { Step } from './step.ts';
import { version } from './version.ts';

export { uidOfKubeSystem } from './bootstrap.ts';
export type { Step } from './step.ts';

/** From a VirtualCluster to a control plane that can be used. */
export const provisionSteps: readonly Step[] = [
  policy,
  identity,
  version,
  serviceSlice,
  address,
  certificates,
  datastore,
  controlPlane,
  bootstrap,
  dns,
  credentials,
];
