import type { KubeObject } from '../../../kube/index.ts';
import type { PlainApi } from './plain-api.ts';

/** What is compared. Plural names, as kubectl takes them. */
export const checkedPaths = {
  namespaces: '/api/v1/namespaces',
  pods: '/api/v1/pods',
  services: '/api/v1/services',
  endpointslices: '/apis/discovery.k8s.io/v1/endpointslices',
  configmaps: '/api/v1/configmaps',
  secrets: '/api/v1/secrets',
  serviceaccounts: '/api/v1/serviceaccounts',
  persistentvolumeclaims: '/api/v1/persistentvolumeclaims',
  persistentvolumes: '/api/v1/persistentvolumes',
  storageclasses: '/apis/storage.k8s.io/v1/storageclasses',
  priorityclasses: '/apis/scheduling.k8s.io/v1/priorityclasses',
  runtimeclasses: '/apis/node.k8s.io/v1/runtimeclasses',
  ingressclasses: '/apis/networking.k8s.io/v1/ingressclasses',
  customresourcedefinitions: '/apis/apiextensions.k8s.io/v1/customresourcedefinitions',
  ingresses: '/apis/networking.k8s.io/v1/ingresses',
  networkpolicies: '/apis/networking.k8s.io/v1/networkpolicies',
  poddisruptionbudgets: '/apis/policy/v1/poddisruptionbudgets',
  nodes: '/api/v1/nodes',
} as const;

/** Only the super cluster has these. */
export const superPaths = {
  ...checkedPaths,
  virtualclusters: '/apis/skerry.dev/v1alpha1/virtualclusters',
  ipaddresses: '/apis/networking.k8s.io/v1/ipaddresses',
} as const;

export type CheckedKind = keyof typeof checkedPaths;
export type SuperKind = keyof typeof superPaths;

/** All objects of one side, kind by kind. */
export type TenantSide = Readonly<Record<CheckedKind, readonly KubeObject[]>>;
export type SuperSide = Readonly<Record<SuperKind, readonly KubeObject[]>>;

export async function readTenant(
  api: PlainApi,
): Promise<{ side: TenantSide; versions: Map<string, string> }> {
  return read<TenantSide>(api, checkedPaths);
}

export async function readSuperCluster(
  api: PlainApi,
): Promise<{ side: SuperSide; versions: Map<string, string> }> {
  return read<SuperSide>(api, superPaths);
}

/** `versions`: path to the resourceVersion of its list. */
async function read<S>(
  api: PlainApi,
  paths: Readonly<Record<string, string>>,
): Promise<{ side: S; versions: Map<string, string> }> {
  const versions = new Map<string, string>();
  const lists = await Promise.all(
    Object.entries(paths).map(async ([kind, path]) => {
      const { items, resourceVersion } = await api.list(path);
      versions.set(path, resourceVersion);
      return [kind, items] as const;
    }),
  );
  return { side: Object.fromEntries(lists) as S, versions };
}
