import { expect, it } from 'vitest';
import { checkedPaths, type SuperSide, superPaths, type TenantSide, View } from '../view.ts';
import { compareEndpointSlices, compareServices } from './services.ts';

const metadata = { namespace: 'default', name: 'kubernetes', uid: 'its-uid' };
const uid = 'tenant-uid';

function nothing<Side>(paths: object): Side {
  return Object.fromEntries(Object.keys(paths).map((kind) => [kind, []])) as Side;
}

function differences(isService: boolean): string[] {
  const own: TenantSide = {
    ...nothing<TenantSide>(checkedPaths),
    services: [{ metadata, spec: { clusterIP: '10.112.4.1' } }],
    endpointslices: [{ metadata }],
  };
  const labels = { 'skerry.dev/tenant': uid, 'skerry.dev/namespace': 'default' };
  const superSide: SuperSide = {
    ...nothing<SuperSide>(superPaths),
    namespaces: [{ metadata: { name: 'super-default', labels } }],
  };
  const tenant = {
    uid,
    namespace: 'team',
    name: 'blue',
    serviceCIDR: '10.112.4.0/22',
    apiServer: { address: '10.96.0.7', port: 443, isService },
    nodes: 'all',
    nodesHidden: false,
    nodeSelector: {},
    configMaps: 'used',
    secrets: 'used',
    networkPolicies: true,
    ingresses: false,
    ingressHosts: [],
  } as const;
  const view = new View(tenant, own, superSide);
  return [...compareServices(view), ...compareEndpointSlices(view)];
}

it('expects a Service for the API server of a tenant and its slice, but where that has a Service of its own', () => {
  expect(differences(true)).toEqual([]);
  expect(differences(false)).toEqual([
    'Service default/kubernetes: is not in the super cluster',
    'EndpointSlice default/kubernetes: is not in the super cluster',
  ]);
});
