import { isTakenUp } from '../../../api/conditions.ts';
import { NotYet } from '../errors.ts';
import type { Step } from '../steps/index.ts';

/**
 * The syncer leaves first: what it still writes would come back. One that is not there to leave is not
 * waited for longer than a moment, on this manager's own clock.
 */
export const leave: Step = {
  name: 'leave',
  doing: 'Waiting for the syncer to leave',
  async run(tenant, { settings, clock, leaving }) {
    if (!isTakenUp(tenant.vc)) return;
    const now = clock.monotonic();
    const since = leaving.get(tenant.uid) ?? now;
    leaving.set(tenant.uid, since);
    const leftMs = since + settings.leaveTimeoutMs - now;
    if (leftMs > 0) throw new NotYet(leave.doing, leftMs);
  },
};
