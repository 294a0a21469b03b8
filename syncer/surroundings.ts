import type { Logger } from 'pino';
import type { KubeClient } from '../kube/index.ts';
import { networkPoliciesAreEnforced } from './network-policy-engine.ts';
import { protectedRanges } from './protected-ranges.ts';
import type { SyncerOptions } from './settings.ts';

/** What the syncer finds out about the super cluster at its start. */
export interface Surroundings {
  readonly networkPoliciesEnforced: boolean;
  readonly protectedCIDRs: readonly string[];
}

/** What cannot be found out is taken to be as bad as it can be. Throws only the signal's reason. */
export async function findSurroundings(
  options: Pick<SyncerOptions, 'networkPolicies' | 'protectedCIDRs'>,
  superClient: KubeClient,
  logger: Logger,
  signal: AbortSignal,
): Promise<Surroundings> {
  const or = async <T>(finding: Promise<T>, worst: T, message: string): Promise<T> => {
    try {
      return await finding;
    } catch (error) {
      if (signal.aborted) throw error;
      logger.warn({ err: error }, message);
      return worst;
    }
  };
  const [networkPoliciesEnforced, protectedCIDRs] = await Promise.all([
    or(
      networkPoliciesAreEnforced(options.networkPolicies, superClient, signal),
      false,
      'cannot find out who enforces NetworkPolicies; nobody does, tenants are told',
    ),
    or(
      protectedRanges(superClient, signal).then((found) => [...options.protectedCIDRs, ...found]),
      ['0.0.0.0/0', '::/0'],
      'cannot find out where the super cluster itself is; tenants may point no EndpointSlice beyond their own pods',
    ),
  ]);
  return { networkPoliciesEnforced, protectedCIDRs };
}
