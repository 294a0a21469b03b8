import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { connect } from 'node:tls';
import { connectionFromSecret, type Resource, resources } from '../../kube/index.ts';
import { tenantPrefix } from '../../vc-manager/etcd/grants.ts';
import { openDatastore } from './datastore.ts';
import { processesOf } from './processes.ts';
import type { Tenant, World } from './world.ts';

/** What a tenant has on the machine and in the super cluster, as counts. */
export interface Footprint {
  processes: number;
  /** 1 while its API server answers. */
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
  /** Unknown of one that never had a kubeconfig. */
  api?: { port: number; ca: string };
}

export function tracesOf({ id, uid, name, kubeconfig, virtualCluster }: Tenant): Traces {
  const { ca = '' } = connectionFromSecret(kubeconfig);
  return { id, uid, name, api: { port: virtualCluster.status?.advertisedPort ?? 0, ca } };
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

export async function footprint(world: World, { id, uid, name, api }: Traces): Promise<Footprint> {
  const { client } = world.superCluster;
  const count = async (resource: Resource, labelSelector: string): Promise<number> =>
    (await client.list(resource, { labelSelector })).items.length;
  const datastore = await openDatastore(world.stateDir);
  try {
    const { users, roles } = await datastore.listTenants();
    const ofTenant = `skerry.dev/tenant=${uid}`;
    const objects = await Promise.all(marked.map((resource) => count(resource, ofTenant)));
    const directory = join(world.stateDir, 'control-planes', id);
    return {
      processes: processesOf(directory).size,
      ports: api !== undefined && (await answers(api.port, api.ca)) ? 1 : 0,
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

/** Whether the tenant's own API server answers: a port that was given back may be anybody's by now. */
function answers(port: number, ca: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: '127.0.0.1', port, ca });
    socket.once('secureConnect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}
