import { randomBytes } from 'node:crypto';
import { labelKeys } from '../../api/labels.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { type KubeObject, type Resource, resources, systemClock, withClient } from '../../kube/index.ts';
import { allocateSlice, freePort } from '../../vc-manager/os/network.ts';
import { createOrFind, retryWhileBusy } from './busy-server.ts';
import type { Lab } from './lab.ts';
import { type TenantIdentity, tenantCopy } from './tenant-copy.ts';

const modelName = 'sleeper-0';
/** Tenants that are copied at once, each by several calls at once. */
const copiesAtOnce = 8;
const pollMs = 500;
/** Apart from the ranges of stacks, which may run on this machine too. */
const gatewayPorts = { first: 25_000, last: 31_999 };
const apiServerPortOffset = 10_000;
const servicePool = '10.112.0.0/12';
const slicePrefixLength = 22;

type Kept = readonly [Resource, KubeObject];

/** A tenant that was put to sleep, and all that it has in the super cluster. */
interface SleepingTenant {
  vc: VirtualCluster;
  identity: TenantIdentity;
  superNamespaces: string[];
  /** In stages: what is in one needs what is in those before it. */
  objects: readonly Kept[][];
}

/** Makes a tenant with one pod, which has been used through the gateway, and puts it to sleep. */
export async function makeSleeper(lab: Lab): Promise<SleepingTenant> {
  const { connection, namespace } = await lab.createTenant(modelName, { sleep: { afterIdle: '1h' } });
  const current = (): VirtualCluster | undefined => lab.tenants.get(modelName);
  const { metadata, status: { id = '' } = {} } = current() ?? { metadata: {} };
  const ofTenant = `${labelKeys.tenant}=${metadata.uid}`;
  await withClient({ ...connection, userAgent: 'skerry-bench' }, (client) =>
    client.create(resources.pods, standingPod(namespace), { signal: lab.signal }),
  );
  await untilRunning(lab, ofTenant, 1);
  await until(lab, 'the syncer counts its pod', async () => current()?.status?.usage?.pods === 1);
  await until(lab, 'the gateway says that it was used', async () => {
    const leases = await lab.client.list(resources.leases, activityOf(lab, id));
    return leases.items.length > 0;
  });
  await lab.tenants.putToSleep(modelName, lab.signal);
  const vc = current();
  const { serviceCIDR, endpoint, gateway } = vc?.status ?? {};
  if (vc === undefined || serviceCIDR === undefined || endpoint === undefined || !gateway?.port)
    throw new Error('the tenant to be copied has no addresses');
  const { uid = '' } = vc.metadata;
  const ports = [Number(new URL(endpoint).port), gateway.port] as const;
  const identity = { name: modelName, uid, id, serviceCIDR, ports };
  return { vc, identity, ...(await objectsOf(lab, identity, ofTenant)) };
}

function standingPod(namespace: string): KubeObject {
  return {
    metadata: { name: 'standing', namespace },
    spec: {
      containers: [{ name: 'main', image: 'example.com/bench' }],
      tolerations: [{ operator: 'Exists' }],
    },
  };
}

function activityOf({ signal }: Lab, id: string) {
  return { labelSelector: `${labelKeys.activity}=${id}`, signal };
}

async function objectsOf(
  lab: Lab,
  { name, id }: TenantIdentity,
  ofTenant: string,
): Promise<Pick<SleepingTenant, 'superNamespaces' | 'objects'>> {
  const { client, signal } = lab;
  const list = async (
    resource: Resource,
    options: { namespace?: string; labelSelector?: string },
  ): Promise<Kept[]> => {
    const { items } = await client.list(resource, { ...options, signal });
    return items.map((item) => [resource, item]);
  };
  const namespaces = await list(resources.namespaces, { labelSelector: ofTenant });
  const superNamespaces = namespaces.map(([, { metadata }]) => metadata.name ?? '');
  const atRoot = [
    ...namespaces,
    ...(await list(resources.ipAddresses, { labelSelector: ofTenant })),
    ...(await list(resources.secrets, { labelSelector: `${labelKeys.virtualCluster}=${name}` })),
    ...(await list(resources.leases, activityOf(lab, id))),
  ];
  const inNamespaces: Kept[] = [];
  // Which the super cluster gives to every namespace; what it has made itself is left to it.
  for (const namespace of superNamespaces)
    for (const resource of [resources.serviceAccounts, resources.configMaps])
      inNamespaces.push(...(await list(resource, { namespace })));
  const { secrets, services, endpointSlices, networkPolicies, pods } = resources;
  for (const resource of [secrets, services, endpointSlices, networkPolicies])
    inNamespaces.push(...(await list(resource, { labelSelector: ofTenant })));
  return {
    superNamespaces,
    objects: [atRoot, inNamespaces, await list(pods, { labelSelector: ofTenant })],
  };
}

/**
 * Copies it until so many sleep, itself included: objects as manager, syncer and gateway have left those of the first. What
 * nobody reads of a tenant that sleeps is left out: files of its control plane and what it has in the datastore. To be
 * called while neither of them runs, as they would begin to make what they see without a status.
 */
export async function copySleeper(lab: Lab, model: SleepingTenant, count: number): Promise<void> {
  const identities = await identitiesBeside(model.identity, count - 1);
  const waiting = identities.values();
  const copies: VirtualCluster[] = [];
  await Promise.all(
    Array.from({ length: copiesAtOnce }, async () => {
      for (const identity of waiting) {
        copies.push(await copyOne(lab, model, identity));
        if (copies.length % 100 === 0) lab.log(`${copies.length} of ${identities.length} tenants are copied`);
      }
    }),
  );
  await untilRunning(lab, labelKeys.tenant, count);
  // Pods count that ran when their tenant fell asleep.
  const since = new Date().toISOString();
  const unwritten = copies.values();
  await Promise.all(
    Array.from({ length: copiesAtOnce }, async () => {
      for (const { metadata, status } of unwritten) {
        const patch = { status: { ...status, sleep: { ...status?.sleep, since } } };
        const ref = { namespace: metadata.namespace, name: metadata.name ?? '' };
        const options = { type: 'merge', subresource: 'status', signal: lab.signal } as const;
        await retryWhileBusy(
          () => lab.client.patch(resources.virtualClusters, ref, patch, options),
          lab.signal,
        );
      }
    }),
  );
}

type NewIdentity = Omit<TenantIdentity, 'uid'>;

async function identitiesBeside(model: TenantIdentity, count: number): Promise<NewIdentity[]> {
  const identities: NewIdentity[] = [];
  const slices = [model.serviceCIDR];
  let { first } = gatewayPorts;
  for (let index = 1; index <= count; index++) {
    const serviceCIDR = allocateSlice(servicePool, slicePrefixLength, slices);
    if (serviceCIDR === undefined)
      throw new Error(`${servicePool} has room for ${slices.length} tenants: give fewer --sleepers`);
    slices.push(serviceCIDR);
    const port = await freePort({ host: '127.0.0.1', range: [first, gatewayPorts.last] });
    first = port + 1;
    identities.push({
      name: `sleeper-${index}`,
      id: randomBytes(8).toString('hex'),
      serviceCIDR,
      ports: [port + apiServerPortOffset, port],
    });
  }
  return identities;
}

/** Returns the VirtualCluster with the status that it is to have and has not yet. */
async function copyOne(
  lab: Lab,
  { vc, identity: model, superNamespaces, objects }: SleepingTenant,
  identity: NewIdentity,
): Promise<VirtualCluster> {
  const superCluster = vc.status?.identities?.superCluster;
  const shared = superCluster === undefined ? [] : [superCluster];
  const copyFor = (uid: string) => tenantCopy({ model, superNamespaces, shared }, { ...identity, uid });
  const { status: _, ...bare } = copyFor(model.uid)(vc);
  const { client, signal } = lab;
  const made = await createOrFind<VirtualCluster>(client, resources.virtualClusters, bare, signal);
  const copy = copyFor(made.metadata.uid ?? '');
  for (const stage of objects)
    await Promise.all(stage.map(([resource, object]) => create(lab, resource, copy(object))));
  return { ...made, status: copy(vc).status ?? {} };
}

/** Some of these the super cluster makes in every namespace. */
async function create({ client, signal }: Lab, resource: Resource, object: KubeObject): Promise<void> {
  const { status: _, ...bare } = object;
  await createOrFind(client, resource, bare as KubeObject, signal);
}

async function untilRunning(lab: Lab, labelSelector: string, count: number): Promise<void> {
  await until(lab, `${count} pods run`, async () => {
    const { items } = await lab.client.list(resources.pods, { labelSelector, signal: lab.signal });
    const running = items.filter(({ status }) => (status as { phase?: string })?.phase === 'Running');
    return running.length >= count;
  });
}

async function until(lab: Lab, what: string, condition: () => Promise<boolean>): Promise<void> {
  lab.log(`sleepers: waiting until ${what}`);
  const deadline = performance.now() + lab.timeoutMs;
  while (!(await retryWhileBusy(condition, lab.signal))) {
    if (performance.now() > deadline) throw new Error(`waited in vain until ${what}`);
    await systemClock.sleep(pollMs, lab.signal);
  }
}
