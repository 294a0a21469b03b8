import type { EffectivePolicy, TenantPolicy } from './policy.ts';
import type { Quota } from './quota.ts';

/** What a tenant may as long as no VirtualClusterPolicy allows more. */
export const defaultEffectivePolicy: EffectivePolicy = {
  podSecurity: 'baseline',
  daemonSets: 'deny',
  volumeTypes: [],
  schedulerNames: [],
  externalIPs: false,
  loadBalancerOptions: false,
  endpointCIDRs: [],
  ingressHosts: [],
  nodeSelector: {},
  hideNodes: false,
};

const { nodeSelector: _everyNode, hideNodes: _shown, ...tenantsDefault } = defaultEffectivePolicy;
export const defaultPolicy: TenantPolicy = tenantsDefault;

/** What a tenant may have in the super cluster as long as no VirtualClusterPolicy allows more. */
export const defaultQuota: Quota = {
  pods: '5000',
  'requests.cpu': '2000',
  'requests.memory': '8Ti',
  'requests.ephemeral-storage': '8Ti',
  services: '2000',
  'services.nodeports': '200',
  'services.loadbalancers': '20',
  persistentvolumeclaims: '2000',
  'requests.storage': '50Ti',
  'count/namespaces': '1000',
  'count/ingresses.networking.k8s.io': '1000',
  configmaps: '10000',
  secrets: '10000',
  customresources: '10000',
  objects: '50000',
  'objects.bytes': '1Gi',
  'writes.bytes-per-minute': '64Mi',
  'datastore.keys': '100000',
  'datastore.bytes': '512Mi',
};
