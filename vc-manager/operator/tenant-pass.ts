import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { Connection, type ConnectionOptions, isNotFound, KubeClient, resources } from '../../kube/index.ts';
import type { Fence, Job, JobRun, Outcome } from '../jobs/index.ts';
import { explain } from './explain.ts';
import { assertLeads } from './leading.ts';
import { choose, provision } from './provision.ts';
import { remove } from './remove.ts';
import type { Services } from './services.ts';
import { isHeld, isUnsettled, settle } from './settle.ts';
import { StatusWriter } from './status-writer.ts';
import { Tenant } from './tenant.ts';

export interface TenantPassOptions extends JobRun {
  services: Services;
  /** Asked before anything is changed. */
  fence: Fence;
  connect?: ((options: ConnectionOptions) => KubeClient) | undefined;
}

/** Looks at a VirtualCluster as it stands and does what is missing. */
export async function tenantPass(job: Job, options: TenantPassOptions): Promise<Outcome> {
  const { services } = options;
  return withTenant(job, options, async (tenant) => {
    try {
      if (isUnsettled(tenant.vc)) await settle(tenant, services);
    } catch (error) {
      if (options.signal.aborted) throw error;
      services.logger.warn({ err: error, virtualCluster: job.key }, explain(error).message);
      return { kind: 'failed' };
    }
    const { metadata } = tenant.vc;
    if (metadata.deletionTimestamp !== undefined) return remove(tenant, services);
    if (isHeld(tenant.vc, 'provision', services.clock.now())) return { kind: 'done' };
    return provision(tenant, services, job.failures);
  });
}

/** Undefined when everything is chosen. */
export async function choosingPass(job: Job, options: TenantPassOptions): Promise<Outcome | undefined> {
  return withTenant(job, options, (tenant) => choose(tenant, options.services, job.failures));
}

async function withTenant<T>(
  { key, uid }: Job,
  { services, fence, connect, signal, onStep }: TenantPassOptions,
  work: (tenant: Tenant) => Promise<T>,
): Promise<T | Outcome> {
  const { client, clock, logger } = services;
  const [namespace = '', name = ''] = key.split('/');
  let current: VirtualCluster;
  try {
    current = await client.get<VirtualCluster>(resources.virtualClusters, { namespace, name }, { signal });
  } catch (error) {
    if (isNotFound(error)) return { kind: 'done' };
    if (signal.aborted) throw error;
    const { message, retryAfterMs } = explain(error);
    logger.warn({ virtualCluster: key }, message);
    return { kind: 'failed', ...(retryAfterMs === undefined ? {} : { retryAfterMs }) };
  }
  // A job that an earlier one of this name has left: what its worker holds is not this one's Lease.
  if (current.metadata.uid !== uid) return { kind: 'done' };
  const status = new StatusWriter({ client, clock, signal, current });
  const tenant = new Tenant({
    virtualCluster: current,
    status,
    signal,
    clock,
    onStep,
    connect: (each) => connectTo(each, fence, connect),
  });
  try {
    return await work(tenant);
  } finally {
    await tenant.close();
  }
}

function connectTo(
  tenant: Tenant,
  fence: Fence,
  connect: TenantPassOptions['connect'] = (options) => new KubeClient(new Connection(options)),
): KubeClient {
  const { servingCa, leafs } = tenant.required(tenant.pki, 'certificates');
  return connect({
    server: tenant.required(tenant.vc.status?.endpoint, 'endpoint'),
    ca: servingCa.certPem,
    cert: leafs.manager.certPem,
    key: leafs.manager.keyPem,
    userAgent: 'skerry-vc-manager',
    beforeWrite: () => assertLeads(fence),
  });
}
