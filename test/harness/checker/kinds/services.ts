import { BlockList, isIPv4 } from 'node:net';
import type { KubeObject } from '../../../../kube/index.ts';
import { compareDown, type DownRules } from '../down.ts';
import { at, isApiServers, isEmpty, label, listAt, nameOf, unequal } from '../raw.ts';
import type { View } from '../view.ts';

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

const rules: DownRules = {
  kind: 'services',
  what: 'Service',
  expected: (own, { tenant }) =>
    isOutside(own, tenant.serviceCIDR) ||
    label(own, 'skerry.dev/sync') === 'false' ||
    (isApiServers(own) && tenant.apiServer.isService)
      ? 'no'
      : 'yes',
  compare(own, superObject) {
    const found = sameFields.flatMap((field) =>
      unequal(at(own, 'spec', field), at(superObject, 'spec', field), field),
    );
    for (const field of ['externalIPs', 'loadBalancerIP', 'loadBalancerSourceRanges']) {
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

export function compareServices(view: View): string[] {
  return [...compareDown(rules, view), ...compareEndpoints(view)];
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
