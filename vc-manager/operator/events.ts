import { randomBytes } from 'node:crypto';
import { apiVersion } from '../../api/names.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { type KubeObject, metaTime, printable, resources } from '../../kube/index.ts';
import type { Services } from './services.ts';
import type { Tenant } from './tenant.ts';

interface VirtualClusterEvent {
  reason: string;
  message: string;
  now: Date;
  /** End of its name; default: another one for each. */
  suffix?: string;
}

/** What `describe` and `events` show of a VirtualCluster. */
export function virtualClusterEvent(
  { metadata }: Pick<VirtualCluster, 'metadata'>,
  { reason, message, now, suffix = randomBytes(8).toString('hex') }: VirtualClusterEvent,
): KubeObject {
  const { name = '', namespace = '', uid = '' } = metadata;
  const { kind } = resources.virtualClusters;
  return {
    metadata: { namespace, name: `${name}.${suffix}` },
    involvedObject: { apiVersion, kind, namespace, name, uid },
    type: 'Normal',
    reason,
    message: printable(message, 1_000),
    source: { component: 'vc-manager' },
    firstTimestamp: metaTime(now),
    lastTimestamp: metaTime(now),
    count: 1,
  };
}

/** Says so once. One that cannot be written is left out: the status has it as well. */
export async function recordEvent(
  tenant: Tenant,
  { client, clock, logger }: Pick<Services, 'client' | 'clock' | 'logger'>,
  event: { reason: string; message: string },
): Promise<void> {
  const { signal } = tenant;
  try {
    const now = new Date(clock.now());
    await client.create(resources.events, virtualClusterEvent(tenant.vc, { ...event, now }), { signal });
  } catch (error) {
    signal.throwIfAborted();
    logger.warn({ err: error, virtualCluster: tenant.key }, `the event ${event.reason} cannot be written`);
  }
}
