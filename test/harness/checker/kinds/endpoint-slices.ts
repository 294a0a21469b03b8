import type { KubeObject } from '../../../../kube/index.ts';
import { compareDown, type DownRules, type Expectation } from '../down.ts';
import { at, isApiServers, isEmpty, label, listAt, unequal } from '../raw.ts';
import type { View } from '../view.ts';

const serviceName = 'kubernetes.io/service-name';
const managedBy = 'endpointslice.kubernetes.io/managed-by';
/** Writes the slices of Services with a selector, on each side for itself. */
const selectorController = 'endpointslice-controller.k8s.io';

const rules: DownRules = {
  kind: 'endpointslices',
  what: 'EndpointSlice',
  expected,
  compare(own, superObject, view) {
    const found = isApiServers(own)
      ? compareApiServer(superObject, view)
      : [
          ...unequal(allowed(own, view), endpoints(superObject), 'endpoints'),
          ...unequal(own['ports'], superObject['ports'], 'ports'),
        ];
    if (listAt(superObject, 'endpoints').some((endpoint) => endpoint['targetRef'] !== undefined)) {
      found.push('an endpoint refers to an object of the tenant');
    }
    if (label(superObject, managedBy) === label(own, managedBy)) found.push(`${managedBy} is not rewritten`);
    return found;
  },
  exceptKeys: [managedBy, serviceName],
  // The super cluster's controller copies the labels of the Service, marks included.
  isForeign: (superObject) => label(superObject, managedBy) === selectorController,
};

export function compareEndpointSlices(view: View): string[] {
  return compareDown(rules, view);
}

/** Only slices of Services without selector, with at least one of the tenant's own pods in them. */
function expected(own: KubeObject, view: View): Expectation {
  if (isApiServers(own)) return view.tenant.apiServer.isService ? 'no' : 'yes';
  const service = label(own, serviceName);
  if (service === undefined || label(own, managedBy) === selectorController) return 'no';
  const owner = view.ownObject('services', own.metadata.namespace, service);
  if (owner === undefined || !isEmpty(at(owner, 'spec', 'selector'))) return 'no';
  if (allowed(own, view).length > 0) return 'yes';
  return listAt(own, 'endpoints').length === 0 ? 'may' : 'no';
}

/** Sync rule 24: whatever the tenant writes, it leads to the tenant's API server. */
function compareApiServer(superObject: KubeObject, { tenant }: View): string[] {
  const { address, port } = tenant.apiServer;
  const addresses = endpoints(superObject).map(({ addresses: all }) => all);
  return [
    ...unequal([[address]], addresses, 'address of the API server'),
    ...unequal(
      [port],
      listAt(superObject, 'ports').map((each) => each['port']),
      'port of the API server',
    ),
    ...unequal('kubernetes', label(superObject, serviceName), 'Service'),
  ];
}

interface Endpoint {
  addresses: readonly string[];
  ready: boolean;
}

function endpoints(slice: KubeObject): Endpoint[] {
  return listAt(slice, 'endpoints')
    .map((endpoint) => ({
      addresses: listAt<string>(endpoint, 'addresses'),
      ready: at(endpoint, 'conditions', 'ready') !== false,
    }))
    .sort((a, b) => (String(a.addresses) < String(b.addresses) ? -1 : 1));
}

/** Endpoints all of whose addresses are pods of this tenant, by what the super cluster says. */
function allowed(own: KubeObject, view: View): Endpoint[] {
  const pods = view.marked('pods').filter((pod) => at(pod, 'spec', 'hostNetwork') !== true);
  const known = new Set(
    pods.flatMap((pod) => listAt<{ ip: string }>(pod, 'status', 'podIPs').map(({ ip }) => ip)),
  );
  return endpoints(own).filter(({ addresses }) => addresses.every((address) => known.has(address)));
}
