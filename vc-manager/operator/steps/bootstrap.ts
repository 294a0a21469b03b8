import {
  ConnectionError,
  type KubeClient,
  type KubeObject,
  type ObjectRef,
  type Resource,
  resources,
} from '../../../kube/index.ts';
import { adminGroup } from '../../pki/index.ts';
import { tenantNotBootstrapped } from '../errors.ts';
import { ensureObject, find } from '../objects.ts';
import type { Tenant } from '../tenant.ts';
import { apiServerEndpoints } from './api-server-endpoints.ts';
import type { Step } from './step.ts';

const pollMs = 100;

/** Made once only: an administrator may take them away later, and they stay away. */
const firstObjects: readonly { resource: Resource; object: KubeObject }[] = [
  {
    resource: resources.clusterRoleBindings,
    object: {
      metadata: { name: adminGroup },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
      subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'Group', name: adminGroup }],
    },
  },
  // Without it no pod can be made. The tenant's controllers would make it, a second or two later.
  {
    resource: resources.serviceAccounts,
    object: { metadata: { namespace: 'default', name: 'default' } },
  },
];

/** Inside the tenant: its administrators, the way to its own API server, and who it is. */
export const bootstrap: Step = {
  name: 'bootstrap',
  doing: 'Waiting for the first namespaces',
  condition: 'APIServerReady',
  async run(tenant, services) {
    const { signal } = tenant;
    const { bootstrapTimeoutMs } = services.settings;
    // The server makes it itself, a moment after it is ready.
    await eventually(tenant, bootstrapTimeoutMs, resources.namespaces, { name: 'default' });
    const { wasReady } = tenant;
    const objects = wasReady ? apiServerEndpoints(tenant) : [...apiServerEndpoints(tenant), ...firstObjects];
    const likely = wasReady ? 'there' : 'absent';
    await Promise.all(
      objects.map(({ resource, object }) =>
        ensureObject(tenant.client, resource, object, { signal, likely }),
      ),
    );
    if (wasReady) return;
    await eventually(tenant, bootstrapTimeoutMs, resources.namespaces, { name: 'kube-system' });
    const identity = await uidOfKubeSystem(tenant.client, signal);
    tenant.status.set((status) => ({
      ...status,
      identities: { tenant: identity, superCluster: services.superIdentity, ...status.identities },
    }));
    await tenant.status.flush();
  },
};

export async function uidOfKubeSystem(client: KubeClient, signal: AbortSignal): Promise<string> {
  const { metadata } = await client.get(resources.namespaces, { name: 'kube-system' }, { signal });
  return metadata.uid ?? '';
}

export async function eventually(
  tenant: Tenant,
  timeoutMs: number,
  resource: Resource,
  ref: ObjectRef,
): Promise<void> {
  const { client, clock, signal } = tenant;
  const start = clock.monotonic();
  for (;;) {
    const found = await find(client, resource, ref, signal).catch((error: unknown) => {
      // An address that others make is not there in the moment in which the server behind it is ready.
      if (tenant.location === undefined || !(error instanceof ConnectionError)) throw error;
      return error;
    });
    if (found !== undefined && !(found instanceof ConnectionError)) return;
    const waitedMs = clock.monotonic() - start;
    if (waitedMs > timeoutMs) {
      if (found !== undefined) throw found;
      const name = ref.namespace === undefined ? ref.name : `${ref.namespace}/${ref.name}`;
      throw tenantNotBootstrapped(`${resource.kind} ${name}`, waitedMs);
    }
    await clock.sleep(pollMs, signal);
  }
}
