import { readdir } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { type KubeClient, type Resource, resources } from '../../kube/index.ts';
import type { VirtualCluster } from '../../vc-manager/api/index.ts';
import { tenantPrefix } from '../../vc-manager/etcd/index.ts';
import { openDatastore } from './datastore.ts';
import { processesOf } from './processes.ts';
import type { Tenant, World } from './world.ts';

/** What a tenant has on the machine and in the super cluster, as counts. */
export interface Footprint {
  processes: number;
  /** 1 while its API server's port accepts connections, unless it is another tenant's by now. */
  ports: number;
  files: number;
  etcdKeys: number;
  etcdUsers: number;
  etcdRoles: number;
  superObjects: number;
  ipAddresses: number;
  secrets: number;
}

export const noFootprint: Footprint = {
  processes: 0,
  ports: 0,
  files: 0,
  etcdKeys: 0,
  etcdUsers: 0,
  etcdRoles: 0,
  superObjects: 0,
  ipAddresses: 0,
  secrets: 0,
};

/** What has to be known of a tenant in order to look for it when it is gone. */
export interface Traces {
  id: string;
  uid: string;
  name: string;
  port: number;
}

export function tracesOf({ id, uid, name, virtualCluster }: Tenant): Traces {
  return { id, uid, name, port: virtualCluster.status?.advertisedPort ?? 0 };
}

const marked: readonly Resource[] = [
  resources.namespaces,
  resources.pods,
  resources.services,
  resources.endpointSlices,
  resources.configMaps,
  resources.secrets,
  resources.serviceAccounts,
  resources.persistentVolumeClaims,
];

export async function footprint(world: World, { id, uid, name, port }: Traces): Promise<Footprint> {
  const { client } = world.superCluster;
  const count = async (resource: Resource, labelSelector: string): Promise<number> =>
    (await client.list(resource, { labelSelector })).items.length;
  const datastore = await openDatastore(world.stateDir);
  try {
    const { users, roles } = await datastore.listTenants();
    const ofTenant = `skerry.dev/tenant=${uid}`;
    const objects = await Promise.all(marked.map((resource) => count(resource, ofTenant)));
    const directory = join(world.stateDir, 'control-planes', id);
    const processes = processesOf(directory).size;
    // Another stack on this machine hands out the same ports; without a process nobody of ours can hold one.
    const isForeign = process.platform === 'linux' && processes === 0;
    return {
      processes,
      ports: isForeign || (await isOthers(client, port, uid)) || !(await accepts(port)) ? 0 : 1,
      files: (await readdir(directory, { recursive: true }).catch(() => [])).length,
      etcdKeys: await datastore.countKeys(tenantPrefix(id)),
      etcdUsers: users.filter((user) => user === id).length,
      etcdRoles: roles.filter((role) => role === id).length,
      superObjects: objects.reduce((sum, each) => sum + each, 0),
      ipAddresses: await count(resources.ipAddresses, ofTenant),
      secrets: await count(resources.secrets, `skerry.dev/virtualcluster=${name}`),
    };
  } finally {
    await datastore.close();
  }
}

/** A port that was given back may be in use again, by another tenant. */
async function isOthers(client: KubeClient, port: number, uid: string): Promise<boolean> {
  const { items } = await client.list<VirtualCluster>(resources.virtualClusters);
  return items.some(({ metadata, status }) => status?.advertisedPort === port && metadata.uid !== uid);
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: '127.0.0.1', port });
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}
