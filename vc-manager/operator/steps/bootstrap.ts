import {
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

/** What a new tenant has to have before somebody uses it. */
const awaited: readonly { resource: Resource; ref: ObjectRef }[] = [
  { resource: resources.namespaces, ref: { name: 'kube-system' } },
  { resource: resources.serviceAccounts, ref: { namespace: 'default', name: 'default' } },
];

/** Inside the tenant: its administrators, the way to its own API server, and who it is. */
export const bootstrap: Step = {
  name: 'bootstrap',
  doing: 'Waiting for the first namespaces and accounts',
  condition: 'APIServerReady',
  async run(tenant, services) {
    const { signal } = tenant;
    const { bootstrapTimeoutMs } = services.settings;
    // The server makes it itself, a moment after it is ready.
    await eventually(tenant, bootstrapTimeoutMs, resources.namespaces, { name: 'default' });
    for (const { resource, object } of apiServerEndpoints(tenant)) {
      await ensureObject(tenant.client, resource, object, { signal });
    }
    if (tenant.wasReady) return;
    // Only once: an administrator may take the right away later, and it stays away.
    await ensureObject(tenant.client, resources.clusterRoleBindings, adminBinding(), { signal });
    for (const { resource, ref } of awaited) await eventually(tenant, bootstrapTimeoutMs, resource, ref);
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

function adminBinding(): KubeObject {
  return {
    metadata: { name: adminGroup },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
    subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'Group', name: adminGroup }],
  };
}

async function eventually(
  tenant: Tenant,
  timeoutMs: number,
  resource: Resource,
  ref: ObjectRef,
): Promise<void> {
  const { client, clock, signal } = tenant;
  const start = clock.monotonic();
  while ((await find(client, resource, ref, signal)) === undefined) {
    const waitedMs = clock.monotonic() - start;
    if (waitedMs > timeoutMs) {
      const name = ref.namespace === undefined ? ref.name : `${ref.namespace}/${ref.name}`;
      throw tenantNotBootstrapped(`${resource.kind} ${name}`, waitedMs);
    }
    await clock.sleep(pollMs, signal);
  }
}
