import { resources } from '../../../kube/index.ts';
import type { SyncContext } from '../context.ts';
import { isApiServerService, type Service } from '../services/index.ts';
import { apiServerAddress, serviceAddress } from './service-address.ts';
import { serviceVariables } from './service-variables.ts';
import type { Pod } from './types.ts';

/**
 * What kubelet would put into each container of T beside what that asks for itself: where the API server
 * is, and the Services of T's namespace as they are now (sync rules 8 and 9). In an order that depends on
 * nothing but names, and under a name that two Services share, always with the value of the same.
 */
export function clusterVariables(pod: Pod, context: SyncContext): ReadonlyMap<string, string> {
  const address = apiServerAddress(context);
  // Whatever the tenant makes of that Service: these are the names that the super cluster's kubelet sets too.
  const apiServer = address === undefined ? [] : serviceVariables('kubernetes', address, [apiServerPort]);
  const variables = new Map(apiServer);
  if (pod.spec?.enableServiceLinks === false) return variables;
  for (const service of servicesBeside(pod, context)) {
    const where = serviceAddress(service, context);
    if (where === undefined) continue;
    const { metadata, spec } = service;
    for (const [name, value] of serviceVariables(metadata.name ?? '', where, spec?.ports ?? [])) {
      variables.set(name, value);
    }
  }
  return variables;
}

const apiServerPort = { name: 'https', port: 443 };

function servicesBeside({ metadata }: Pod, { tenantObjects }: SyncContext): Service[] {
  return tenantObjects
    .byIndex<Service>(resources.services, 'byNamespace', metadata.namespace ?? '')
    .filter((service) => !isApiServerService(service))
    .sort((a, b) => ((a.metadata.name ?? '') < (b.metadata.name ?? '') ? -1 : 1));
}
