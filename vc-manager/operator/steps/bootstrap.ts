import { isIPv6 } from 'node:net';
import { labelKeys } from '../../../api/labels.ts';
import { podEndpoint } from '../../../api/tenant-state.ts';
import {
  ConnectionError,
  createIfAbsent,
  ignoreNotFound,
  type KubeObject,
  type ObjectRef,
  type Resource,
  resources,
} from '../../../kube/index.ts';
import { adminGroup } from '../../pki/index.ts';
import { tenantNotBootstrapped } from '../errors.ts';
import { ensureObject } from '../objects.ts';
import type { Services } from '../services.ts';
import { uidOfKubeSystem } from '../setup.ts';
import type { Step } from '../step-runner.ts';
import type { Tenant } from '../tenant.ts';

const pollMs = 100;
/** How long what was there once may be missing. */
const longestMissingMs = 10_000;

/** Created once: an administrator of the tenant may delete them later. */
const firstObjects: readonly { resource: Resource; object: KubeObject }[] = [
  {
    resource: resources.clusterRoleBindings,
    object: {
      metadata: { name: adminGroup },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
      subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'Group', name: adminGroup }],
    },
  },
  // No pod can be created without it. The tenant's controllers would create it a second or two later.
  {
    resource: resources.serviceAccounts,
    object: { metadata: { namespace: 'default', name: 'default' } },
  },
];

/** Inside the tenant: the rights of its administrators, the endpoints of its API server, and its identity. */
export const bootstrap: Step = {
  name: 'bootstrap',
  doing: 'Waiting for the first namespaces',
  condition: 'APIServerReady',
  async run(tenant, services) {
    const { bootstrapTimeoutMs } = services.settings;
    // The API server creates it a moment after it is ready.
    const { wasReady } = tenant;
    await waitForObject(
      tenant,
      bootstrapTimeoutMs,
      resources.namespaces,
      { name: 'default' },
      wasReady ? { missingMs: Math.min(longestMissingMs, bootstrapTimeoutMs) } : {},
    );
    await acceptAssigned(tenant, services);
    if (wasReady) return publishAddress(tenant);
    await ensureObjects(tenant, [...apiServerEndpoints(tenant), ...firstObjects], 'absent');
    await waitForObject(tenant, bootstrapTimeoutMs, resources.namespaces, { name: 'kube-system' });
    const identity = await uidOfKubeSystem(tenant.client, tenant.signal);
    tenant.status.set((status) => ({
      ...status,
      identities: { tenant: identity, superCluster: services.superIdentity, ...status.identities },
    }));
    await tenant.status.flush();
  },
};

/** Tells the tenant's pods where its API server is. */
export async function publishAddress(tenant: Tenant): Promise<void> {
  await ensureObjects(tenant, apiServerEndpoints(tenant), 'there');
}

/**
 * Where the super cluster assigns addresses, the tenant's API server has to accept them. A range that is there stays as
 * it is: it cannot be changed, and what the tenant makes of it is the tenant's.
 */
async function acceptAssigned(tenant: Tenant, { pool }: Services): Promise<void> {
  const { vc, client } = tenant;
  if (vc.status?.serviceIPMode !== 'assigned') return;
  await tenant.answerTime.within(tenant.signal, (signal) =>
    Promise.all(
      pool.superRanges.map(async (cidr) => {
        const name = `assigned-${cidr.replaceAll(/[./]/g, '-')}`;
        if ((await ignoreNotFound(client.get(resources.serviceCidrs, { name }, { signal }))) !== undefined)
          return;
        const metadata = { name, labels: { [labelKeys.managedBy]: 'skerry' } };
        const range = { metadata, spec: { cidrs: [cidr] } };
        await createIfAbsent(client, resources.serviceCidrs, range, { signal });
      }),
    ),
  );
}

async function ensureObjects(
  tenant: Tenant,
  objects: readonly { resource: Resource; object: KubeObject }[],
  likely: 'there' | 'absent',
): Promise<void> {
  await tenant.answerTime.within(tenant.signal, (signal) =>
    Promise.all(
      objects.map(({ resource, object }) =>
        ensureObject(tenant.client, resource, object, { signal, likely }),
      ),
    ),
  );
}

/**
 * `mayComeUp`: its address may lead to it later than it is ready. Default: for one that the driver has made. `missingMs`:
 * how long an API server that answers may say that there is no such object; default: `timeoutMs`.
 */
export async function waitForObject(
  tenant: Tenant,
  timeoutMs: number,
  resource: Resource,
  ref: ObjectRef,
  {
    mayComeUp = tenant.location !== undefined,
    missingMs = timeoutMs,
  }: { mayComeUp?: boolean; missingMs?: number } = {},
): Promise<void> {
  const { client, clock, signal } = tenant;
  const start = clock.monotonic();
  for (;;) {
    const found = await ignoreNotFound(client.get(resource, ref, { signal })).catch((error: unknown) => {
      if (!mayComeUp || !(error instanceof ConnectionError)) throw error;
      return error;
    });
    if (found !== undefined && !(found instanceof ConnectionError)) return;
    const waitedMs = clock.monotonic() - start;
    if (waitedMs > (found === undefined ? missingMs : timeoutMs)) {
      if (found !== undefined) throw found;
      const name = ref.namespace === undefined ? ref.name : `${ref.namespace}/${ref.name}`;
      throw tenantNotBootstrapped(`${resource.kind} ${name}`, waitedMs);
    }
    await clock.sleep(pollMs, signal);
  }
}

const ref = { namespace: 'default', name: 'kubernetes' };

/**
 * The endpoints of the Service `kubernetes` in a tenant. The API server's own reconciler is off, as it would publish the
 * address that it is bound to. Endpoints and EndpointSlice are written, the former marked so that the tenant's controllers
 * do not mirror it into a second slice.
 */
function apiServerEndpoints(tenant: Tenant): { resource: Resource; object: KubeObject }[] {
  const endpoint = podEndpoint(tenant.vc);
  const address = tenant.required(endpoint.address, 'address');
  const port = tenant.required(endpoint.port, 'port');
  const ports = [{ name: 'https', port, protocol: 'TCP' }];
  return [
    {
      resource: resources.endpoints,
      object: {
        metadata: { ...ref, labels: { 'endpointslice.kubernetes.io/skip-mirror': 'true' } },
        subsets: [{ addresses: [{ ip: address }], ports }],
      },
    },
    {
      resource: resources.endpointSlices,
      object: {
        metadata: { ...ref, labels: { 'kubernetes.io/service-name': ref.name } },
        addressType: isIPv6(address) ? 'IPv6' : 'IPv4',
        endpoints: [{ addresses: [address], conditions: { ready: true } }],
        ports,
      },
    },
  ];
}
