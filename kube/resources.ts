import type { Resource } from './types.ts';

function core(plural: string, kind: string, namespaced = true): Resource {
  return { group: '', version: 'v1', plural, kind, namespaced };
}

/** The built-in resources that Skerry reads or writes. */
export const resources = {
  namespaces: core('namespaces', 'Namespace', false),
  pods: core('pods', 'Pod'),
  services: core('services', 'Service'),
  configMaps: core('configmaps', 'ConfigMap'),
  secrets: core('secrets', 'Secret'),
  serviceAccounts: core('serviceaccounts', 'ServiceAccount'),
  persistentVolumeClaims: core('persistentvolumeclaims', 'PersistentVolumeClaim'),
  persistentVolumes: core('persistentvolumes', 'PersistentVolume', false),
  nodes: core('nodes', 'Node', false),
  events: core('events', 'Event'),
  endpoints: core('endpoints', 'Endpoints'),
  endpointSlices: resource('discovery.k8s.io', 'v1', 'endpointslices', 'EndpointSlice', true),
  storageClasses: resource('storage.k8s.io', 'v1', 'storageclasses', 'StorageClass', false),
  priorityClasses: resource('scheduling.k8s.io', 'v1', 'priorityclasses', 'PriorityClass', false),
  runtimeClasses: resource('node.k8s.io', 'v1', 'runtimeclasses', 'RuntimeClass', false),
  ingressClasses: resource('networking.k8s.io', 'v1', 'ingressclasses', 'IngressClass', false),
  ingresses: resource('networking.k8s.io', 'v1', 'ingresses', 'Ingress', true),
  networkPolicies: resource('networking.k8s.io', 'v1', 'networkpolicies', 'NetworkPolicy', true),
  podDisruptionBudgets: resource('policy', 'v1', 'poddisruptionbudgets', 'PodDisruptionBudget', true),
  jobs: resource('batch', 'v1', 'jobs', 'Job', true),
  cronJobs: resource('batch', 'v1', 'cronjobs', 'CronJob', true),
  leases: resource('coordination.k8s.io', 'v1', 'leases', 'Lease', true),
  serviceCidrs: resource('networking.k8s.io', 'v1', 'servicecidrs', 'ServiceCIDR', false),
  ipAddresses: resource('networking.k8s.io', 'v1', 'ipaddresses', 'IPAddress', false),
  clusterRoleBindings: resource(
    'rbac.authorization.k8s.io',
    'v1',
    'clusterrolebindings',
    'ClusterRoleBinding',
    false,
  ),
  customResourceDefinitions: resource(
    'apiextensions.k8s.io',
    'v1',
    'customresourcedefinitions',
    'CustomResourceDefinition',
    false,
  ),
  validatingAdmissionPolicies: resource(
    'admissionregistration.k8s.io',
    'v1',
    'validatingadmissionpolicies',
    'ValidatingAdmissionPolicy',
    false,
  ),
  validatingAdmissionPolicyBindings: resource(
    'admissionregistration.k8s.io',
    'v1',
    'validatingadmissionpolicybindings',
    'ValidatingAdmissionPolicyBinding',
    false,
  ),
  deployments: resource('apps', 'v1', 'deployments', 'Deployment', true),
  statefulSets: resource('apps', 'v1', 'statefulsets', 'StatefulSet', true),
  virtualClusters: resource('skerry.dev', 'v1alpha1', 'virtualclusters', 'VirtualCluster', true),
  virtualClusterPolicies: resource(
    'skerry.dev',
    'v1alpha1',
    'virtualclusterpolicies',
    'VirtualClusterPolicy',
    false,
  ),
  controlPlaneTemplates: resource(
    'skerry.dev',
    'v1alpha1',
    'controlplanetemplates',
    'ControlPlaneTemplate',
    false,
  ),
} as const;

/** Describes a resource that is not in `resources`. */
export function resource(
  group: string,
  version: string,
  plural: string,
  kind: string,
  namespaced: boolean,
): Resource {
  return { group, version, plural, kind, namespaced };
}

/** `plural.group`, or the plural name alone of one in the core group. */
export function groupResource({ group, plural }: Pick<Resource, 'group' | 'plural'>): string {
  return group === '' ? plural : `${plural}.${group}`;
}

/** `v1` for the core group, else `group/version`. */
export function apiVersionOf(resource: Resource): string {
  return resource.group === '' ? resource.version : `${resource.group}/${resource.version}`;
}
