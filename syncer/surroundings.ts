import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import type { Clock, KubeClient } from '../kube/index.ts';
import { networkPoliciesAreEnforced } from './network-policy-engine.ts';
import { protectedRanges } from './protected-ranges.ts';
import type { SyncerOptions } from './settings.ts';

/** What the syncer finds out about the super cluster. */
export interface Surroundings {
  readonly networkPoliciesEnforced: boolean;
  readonly protectedCIDRs: readonly string[];
}

export interface SurroundingsOptions {
  options: Pick<SyncerOptions, 'networkPolicies' | 'protectedCIDRs'>;
  superClient: KubeClient;
  clock: Clock;
  logger: Pick<Logger, 'info' | 'warn'>;
}

/** API servers move, ServiceCIDRs are added, engines installed: rarely, and nobody tells. */
const lookEveryMs = 60_000;

const worst: Surroundings = { networkPoliciesEnforced: false, protectedCIDRs: ['0.0.0.0/0', '::/0'] };

/**
 * What cannot be found out is what it was before; at first it is taken to be as bad as it can be. Throws only the
 * signal's reason.
 */
export async function findSurroundings(
  { options, superClient, logger }: SurroundingsOptions,
  signal: AbortSignal,
  before: Surroundings = worst,
): Promise<Surroundings> {
  const or = async <T>(finding: Promise<T>, otherwise: T, message: string): Promise<T> => {
    try {
      return await finding;
    } catch (error) {
      if (signal.aborted) throw error;
      logger.warn({ err: error }, message);
      return otherwise;
    }
  };
  const [networkPoliciesEnforced, protectedCIDRs] = await Promise.all([
    or(
      networkPoliciesAreEnforced(options.networkPolicies, superClient, signal),
      before.networkPoliciesEnforced,
      'cannot find out who enforces NetworkPolicies; what was found before holds, at first that nobody does',
    ),
    or(
      protectedRanges(superClient, signal).then((found) => [...options.protectedCIDRs, ...found]),
      before.protectedCIDRs,
      'cannot find out where the super cluster itself is; what was found before holds, at first that tenants may point no EndpointSlice beyond their own pods',
    ),
  ]);
  return { networkPoliciesEnforced, protectedCIDRs };
}

/** Looks again once a minute until aborted, and tells what has changed. */
export async function followSurroundings(
  options: SurroundingsOptions,
  first: Surroundings,
  onChange: (surroundings: Surroundings) => void,
  signal: AbortSignal,
): Promise<void> {
  const { clock, logger } = options;
  let known = first;
  for (;;) {
    await clock.sleep(lookEveryMs, signal).catch(() => undefined);
    if (signal.aborted) return;
    const found = await findSurroundings(options, signal, known);
    if (isDeepStrictEqual(found, known)) continue;
    known = found;
    logger.info(found, 'the super cluster has changed: all tenants are looked at');
    onChange(found);
  }
}
