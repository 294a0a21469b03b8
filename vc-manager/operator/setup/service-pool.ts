import type { Logger } from 'pino';
import { labelKeys } from '../../../api/labels.ts';
import { isNotFound, type KubeClient, type KubeObject, resources } from '../../../kube/index.ts';
import { ensureObject, find } from '../objects.ts';
import type { OperatorSettings } from '../settings.ts';

interface ServiceCIDR extends KubeObject {
  spec?: { cidrs?: string[] };
}

/** Where tenants' service addresses come from. */
export interface ServicePool {
  cidr: string;
  /** `slice`: the super cluster serves the pool. `assigned`: it is too old to, and its addresses rule. */
  mode: 'slice' | 'assigned';
}

const name = 'skerry-tenants';

/** The pool that there is, or the one of the settings where there is none yet. */
export async function readServicePool(
  client: KubeClient,
  settings: OperatorSettings,
  signal: AbortSignal,
): Promise<ServicePool> {
  try {
    // A super cluster before 1.33 answers NotFound for the list, not only for the object.
    const { items } = await client.list<ServiceCIDR>(resources.serviceCidrs, { signal });
    const existing = items.find(({ metadata }) => metadata.name === name);
    return { cidr: existing?.spec?.cidrs?.[0] ?? settings.servicePool, mode: 'slice' };
  } catch (error) {
    if (!isNotFound(error)) throw error;
    return { cidr: settings.servicePool, mode: 'assigned' };
  }
}

/**
 * Tells the super cluster to serve the pool of service addresses. A pool that is there stays as it is,
 * whatever the setting says: tenants live in it, and its range cannot be changed.
 */
export async function ensureServicePool(
  client: KubeClient,
  settings: OperatorSettings,
  logger: Logger,
  signal: AbortSignal,
): Promise<ServicePool> {
  const wanted = settings.servicePool;
  let existing: ServiceCIDR | undefined;
  try {
    // A super cluster before 1.33 answers NotFound for the list, not only for the object.
    await client.list(resources.serviceCidrs, { signal });
    existing = await find<ServiceCIDR>(client, resources.serviceCidrs, { name }, signal);
  } catch (error) {
    if (!isNotFound(error)) throw error;
    logger.warn(
      'the super cluster has no ServiceCIDR: it assigns the address of every service, which is slower',
    );
    return { cidr: wanted, mode: 'assigned' };
  }
  const cidr = existing?.spec?.cidrs?.[0];
  if (cidr !== undefined) {
    if (cidr !== wanted)
      logger.warn({ pool: cidr, setting: wanted }, `ServiceCIDR ${name} has another range: it is used`);
    return { cidr, mode: 'slice' };
  }
  const object: ServiceCIDR = {
    metadata: { name, labels: { [labelKeys.managedBy]: 'skerry' } },
    spec: { cidrs: [wanted] },
  };
  await ensureObject(client, resources.serviceCidrs, object, { signal });
  return { cidr: wanted, mode: 'slice' };
}
