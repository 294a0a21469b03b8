import { BlockList, isIPv4 } from 'node:net';
import type { KubeObject } from '../../../../kube/index.ts';
import { compareDown, type DownRules, type Expectation } from '../down.ts';
import { type KindChecks, type SeededDifference, setField } from '../seeded-differences.ts';
import { at, isApiServers, isEmpty, label, listAt, nameOf, unequal, type View } from '../view.ts';

const sameFields = [
  'type',
  'clusterIP',
  'clusterIPs',
  'ports',
  'selector',
  'externalName',
  'sessionAffinity',
  'externalTrafficPolicy',
  'internalTrafficPolicy',
  'publishNotReadyAddresses',
  'healthCheckNodePort',
  'allocateLoadBalancerNodePorts',
];

const serviceRules: DownRules = {
  kind: 'services',
  what: 'Service',
  expected: (own, { tenant }) =>
    isOutside(own, tenant.serviceCIDR) ||
    label(own, 'skerry.dev/sync') === 'false' ||
    (isApiServers(own) && tenant.apiServer.isService)
      ? 'no'
      : 'yes',
  compare(own, superObject, { tenant }) {
    const found = sameFields.flatMap((field) =>
      unequal(wantedField(own, field, tenant.apiServer.port), at(superObject, 'spec', field), field),
    );
    for (const field of ['externalIPs', 'loadBalancerIP', 'loadBalancerSourceRanges', 'loadBalancerClass']) {
      if (!isEmpty(at(superObject, 'spec', field))) found.push(`${field} went down`);
    }
    found.push(
      ...unequal(
        at(own, 'status', 'loadBalancer'),
        at(superObject, 'status', 'loadBalancer'),
        'load balancer',
      ),
    );
    return found;
  },
};

/** In the tenant that of its API server has the port at which this listens, where pods may go to the gateway. */
function wantedField(own: KubeObject, field: string, apiServerPort: number): unknown {
  if (field !== 'ports' || !isApiServers(own)) return at(own, 'spec', field);
  return listAt(own, 'spec', 'ports').map((port) => ({ ...port, targetPort: apiServerPort }));
}

export function compareServices(view: View): string[] {
  return [...compareDown(serviceRules, view), ...compareEndpoints(view)];
}

function isOutside(service: KubeObject, cidr: string): boolean {
  const address = at<string>(service, 'spec', 'clusterIP');
  if (isEmpty(address) || address === 'None' || address === undefined) return false;
  const [network = '', bits = ''] = cidr.split('/');
  const slice = new BlockList();
  slice.addSubnet(network, Number(bits), isIPv4(network) ? 'ipv4' : 'ipv6');
  return !slice.check(address, isIPv4(address) ? 'ipv4' : 'ipv6');
}

/** Each side makes the slices of a Service with a selector for itself: they must lead to the same pods. */
function compareEndpoints(view: View): string[] {
  return view.own.services.flatMap((service) => {
    const { namespace = '', name = '', deletionTimestamp } = service.metadata;
    const superNamespace = view.superNamespaceName(namespace);
    const hasNone = isEmpty(at(service, 'spec', 'selector')) || superNamespace === undefined;
    if (hasNone || deletionTimestamp !== undefined) return [];
    if (view.superObject('services', namespace, name) === undefined) return [];
    const own = readyAddresses(view.own.endpointslices, namespace, name);
    const others = readyAddresses(view.superSide.endpointslices, superNamespace, name);
    return unequal(own, others, `Service ${nameOf(service)}: ready endpoints`);
  });
}

function readyAddresses(slices: readonly KubeObject[], namespace: string, service: string): string[] {
  return slices
    .filter(
      ({ metadata }) =>
        metadata.namespace === namespace && metadata.labels?.['kubernetes.io/service-name'] === service,
    )
    .flatMap((slice) => listAt(slice, 'endpoints'))
    .filter((endpoint) => at(endpoint, 'conditions', 'ready') !== false)
    .flatMap((endpoint) => listAt<string>(endpoint, 'addresses'))
    .sort();
}

const serviceName = 'kubernetes.io/service-name';
const managedBy = 'endpointslice.kubernetes.io/managed-by';
/** Writes the slices of Services with a selector, on each side for itself. */
const selectorController = 'endpointslice-controller.k8s.io';

const endpointSliceRules: DownRules = {
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
  return compareDown(endpointSliceRules, view);
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

/** Sync rule `kubernetes-service`: whatever the tenant writes, it leads to the tenant's API server. */
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

const inServices: SeededDifference[] = [
  {
    what: 'a ClusterIP differs',
    plant: (c) => setField(c.superObject('services', 'web'), ['spec', 'clusterIP'], '10.0.0.1'),
    message: /Service shop\/web: clusterIP/,
  },
  {
    what: 'ports of a Service differ',
    plant: (c) => setField(c.superObject('services', 'web'), ['spec', 'ports', 0, 'port'], 81),
    message: /Service shop\/web: ports/,
  },
  {
    what: 'a Service leads to other pods',
    plant(c) {
      const slice = c.superSide.endpointslices.find(({ metadata }) => metadata.name?.startsWith('web-'));
      setField(slice as KubeObject, ['endpoints'], []);
    },
    message: /Service shop\/web: ready endpoints/,
  },
  {
    what: 'a Service outside of its slice is down',
    plant: (c) => setField(c.tenantObject('services', 'web'), ['spec', 'clusterIP'], '192.0.2.1'),
    message: /Service shop\/web: is in the super cluster and should not be/,
  },
  {
    what: 'a slice leads elsewhere',
    plant: (c) =>
      setField(c.superObject('endpointslices', 'manual'), ['endpoints', 0, 'addresses'], ['1.2.3.4']),
    message: /EndpointSlice shop\/manual-1: endpoints/,
  },
  {
    what: "default/kubernetes leads to somebody else's API server",
    plant: (c) => setField(c.superObject('endpointslices', 'kubernetes', 'default'), ['ports', 0, 'port'], 1),
    message: /port of the API server/,
  },
];

export const serviceChecks: KindChecks = {
  compare: [compareServices, compareEndpointSlices],
  seeded: [...inServices],
};
