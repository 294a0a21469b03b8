import { type KubeClient, type Resource, resource, resources } from '../../kube/index.ts';
import { rightsManifests } from './manifests.ts';
import { loadRights, programs } from './rights.ts';

const group = 'rbac.authorization.k8s.io';
const kinds: Record<string, Resource> = {
  ClusterRole: resource(group, 'v1', 'clusterroles', 'ClusterRole', false),
  ClusterRoleBinding: resource(group, 'v1', 'clusterrolebindings', 'ClusterRoleBinding', false),
  Role: resource(group, 'v1', 'roles', 'Role', true),
  RoleBinding: resource(group, 'v1', 'rolebindings', 'RoleBinding', true),
};

const apply = { type: 'apply', fieldManager: 'skerry-local-stack', force: true } as const;

export interface GrantOptions {
  /** Of the chart, which says what the programs may do. */
  chartDirectory: string;
  /** Skerry's own; made where it is missing. */
  namespace: string;
  labels: Record<string, string>;
  signal: AbortSignal;
}

/** Lets the users of manager and syncer do what the chart would let their ServiceAccounts do, and no more. */
export async function grantRights(client: KubeClient, options: GrantOptions): Promise<void> {
  const { chartDirectory, namespace, labels, signal } = options;
  const own = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace, labels } };
  await client.patch(resources.namespaces, { name: namespace }, own, { ...apply, signal });
  for (const program of programs) {
    const rights = await loadRights(chartDirectory, program);
    for (const object of rightsManifests({ program, rights, namespace, labels })) {
      const { name = '', namespace: place } = object.metadata;
      const ref = place === undefined ? { name } : { name, namespace: place };
      await client.patch(kinds[object.kind ?? ''] as Resource, ref, object, { ...apply, signal });
    }
  }
}
