import type { ManagerConditionType } from '../../../api/conditions.ts';
import type { Services } from '../services.ts';
import type { Tenant } from '../tenant.ts';

/**
 * One part of making or removing a control plane. Steps run in the order of their list, may run any number
 * of times, and do only what is missing: after a crash a pass begins with the first one.
 */
export interface Step {
  readonly name: string;
  /** What people read while it runs. */
  readonly doing: string;
  /** The condition that tells how it went. A step that succeeds sets it itself, if it has more to say. */
  readonly condition?: ManagerConditionType;
  /** Throws what `explain` understands, or NotYet. */
  run(tenant: Tenant, services: Services): Promise<void>;
}
