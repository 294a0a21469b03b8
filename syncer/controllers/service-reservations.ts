import ipaddr from 'ipaddr.js';
import { labelKeys } from '../../api/labels.ts';
import { reservedOffsets } from '../../api/tenant-state.ts';
import { ignoreNotFound, type KubeClient, resources } from '../../kube/index.ts';
import type { TenantInfo } from '../context.ts';
import type { ActionGate } from '../reconcile/execute.ts';

/** Releases the reservation of the address that a Service is about to ask for. */
export function serviceReservationGate(superClient: KubeClient): ActionGate {
  return async ({ tenant, signal }, action) => {
    if (action.do === 'deleteTenant' || action.do === 'deleteSuper') return action;
    const service = action.do === 'createSuper' ? action.object : action.patch;
    await releaseReservation(superClient, tenant.info, service, signal);
    return action;
  };
}

/**
 * Some addresses of a tenant's slice (`reservedOffsets`) are held by an IPAddress object that the manager made. When the
 * Service comes for which one is held, the reservation makes room just before the write.
 */
export async function releaseReservation(
  client: KubeClient,
  tenant: TenantInfo,
  service: Readonly<Record<string, unknown>>,
  signal: AbortSignal,
): Promise<void> {
  const address = (service['spec'] as { clusterIP?: string } | undefined)?.clusterIP;
  if (address === undefined || !isReservable(address, tenant.serviceCidrs)) return;
  const ref = { name: address };
  const held = await ignoreNotFound(client.get(resources.ipAddresses, ref, { signal }));
  const { uid, labels } = held?.metadata ?? {};
  if (labels?.[labelKeys.tenant] !== tenant.uid || labels[labelKeys.reserved] === undefined) return;
  await ignoreNotFound(client.delete(resources.ipAddresses, ref, { signal, uid }));
}

const offsets: readonly number[] = Object.values(reservedOffsets);

/** Whether the manager keeps the address in one of the slices. */
function isReservable(address: string, cidrs: readonly string[]): boolean {
  return cidrs.some((cidr) => {
    const base = toNumber(cidr.split('/')[0] ?? '');
    const number = toNumber(address);
    return base !== undefined && number !== undefined && offsets.includes(number - base);
  });
}

function toNumber(address: string): number | undefined {
  if (!ipaddr.IPv4.isValidFourPartDecimal(address)) return undefined;
  return Buffer.from(ipaddr.IPv4.parse(address).toByteArray()).readUInt32BE();
}
