import { Connection, connectionFromSecret, KubeClient, resource } from '../../kube/index.ts';
import { aggregateLabel } from '../../vc-manager/rights.ts';

const clusterRoles = resource('rbac.authorization.k8s.io', 'v1', 'clusterroles', 'ClusterRole', false);

/** What an operator does whose tenants are to use custom resources of the super cluster: lets the syncer mirror them. */
export async function mayMirrorCustomResources(kubeconfig: string): Promise<void> {
  const connection = new Connection(connectionFromSecret(kubeconfig));
  const role = {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRole',
    metadata: { name: 'suite-custom-resources', labels: { [aggregateLabel]: 'true' } },
    rules: [
      {
        apiGroups: ['suite.example.com'],
        resources: ['*'],
        verbs: ['get', 'list', 'watch', 'create', 'patch', 'delete'],
      },
    ],
  };
  try {
    await new KubeClient(connection).patch(clusterRoles, { name: role.metadata.name }, role, {
      type: 'apply',
      fieldManager: 'skerry-e2e',
    });
  } finally {
    await connection.close();
  }
}
