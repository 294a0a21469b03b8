import type { TenantInfo } from '../kinds/contract.ts';
import type { SyncerCondition } from './status-writer.ts';

const type = 'NetworkPoliciesEnforced';

/** What becomes of the NetworkPolicies of a tenant, for its operator to read. */
export function networkPoliciesCondition(
  tenant: Pick<TenantInfo, 'syncNetworkPolicies' | 'networkPoliciesEnforced'>,
): SyncerCondition {
  if (!tenant.syncNetworkPolicies) {
    const message = 'they stay in the tenant, as spec.sync.networkPolicies says';
    return { type, status: 'False', reason: 'NotSynced', message };
  }
  if (!tenant.networkPoliciesEnforced) {
    const message =
      'vc-syncer knows of nothing in the super cluster that acts on them; if something does, start vc-syncer with --network-policies enforced';
    return { type, status: 'False', reason: 'NoEngine', message };
  }
  const message = 'they are carried over to a super cluster that acts on them';
  return { type, status: 'True', reason: 'Enforced', message };
}
