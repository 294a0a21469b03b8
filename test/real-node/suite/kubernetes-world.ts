import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  Connection,
  connectionFromSecret,
  KubeClient,
  type KubeObject,
  resources,
} from '../../../kube/index.ts';
import { Binaries, defaultCacheDirectory } from '../../../vc-manager/binaries/index.ts';
import { KubernetesDriver } from '../../../vc-manager/drivers/kubernetes/kubernetes-driver.ts';
import { ensureManagerPki } from '../../../vc-manager/pki/index.ts';
import type { DriverWorld } from '../../drivers/driver-world.ts';
import { patientRequests } from '../../harness/poll.ts';
import { kill, type ProcessIdentity } from '../../harness/processes.ts';
import type { ClusterInfo } from '../cluster/cluster-info.ts';
import { otherPatch } from '../images/recipes.ts';
import { run } from '../machine/machine.ts';
import { BridgeDatastore } from './bridge-datastore.ts';
import { processOfPod } from './pods.ts';

/**
 * Leads this machine, which has no kube-proxy, to single service addresses by way of a node that has one. Only to those
 * that are asked for: other clusters on this machine have the same range.
 */
export class ServiceRoutes {
  readonly #via: string;
  readonly #addresses = new Set<string>();

  constructor(node: { address: string }) {
    this.#via = node.address;
  }

  async add(address: string): Promise<void> {
    if (this.#addresses.has(address)) return;
    this.#addresses.add(address);
    await run('ip', ['route', 'replace', `${address}/32`, 'via', this.#via]);
  }

  async close(): Promise<void> {
    for (const address of this.#addresses) {
      // With the cluster its link goes, and the route with that.
      await run('ip', ['route', 'delete', `${address}/32`, 'via', this.#via]).catch(() => undefined);
    }
    this.#addresses.clear();
  }
}

const { signal } = new AbortController();

/** The kubernetes driver on the super cluster of real nodes, with a tenants' etcd that pods reach. */
export interface KubernetesWorld extends DriverWorld {
  readonly client: KubeClient;
  podsOf(id: string, component: string): Promise<KubeObject[]>;
  processOf(pod: KubeObject): ProcessIdentity;
}

export async function kubernetesWorld(cluster: ClusterInfo): Promise<KubernetesWorld> {
  const directory = mkdtempSync(join(tmpdir(), 'skerry-kubernetes-driver-'));
  const binaries = new Binaries({ cacheDir: defaultCacheDirectory(process.env), env: process.env });
  const pki = await ensureManagerPki(join(directory, 'pki'), {
    etcdHosts: [cluster.address, '127.0.0.1', 'localhost'],
    now: new Date(),
  });
  const datastore = await BridgeDatastore.start({ address: cluster.address, directory, pki, binaries });
  const client = new KubeClient(
    new Connection({
      ...connectionFromSecret(readFileSync(cluster.superKubeconfigFile, 'utf8')),
      ...patientRequests,
    }),
  );
  const [node] = cluster.nodes;
  if (node === undefined) throw new Error('the cluster has no node');
  const routes = new ServiceRoutes(node);
  const locator = new KubernetesDriver({ client });
  const addresses = new Map<string, string>();

  const podsOf = async (id: string, component: string): Promise<KubeObject[]> => {
    const labelSelector = `skerry.dev/id=${id},skerry.dev/component=${component}`;
    const { items } = await client.list(resources.pods, { labelSelector });
    return items.toSorted((a, b) => ((a.metadata.name ?? '') < (b.metadata.name ?? '') ? -1 : 1));
  };
  const processOf = ({ metadata }: KubeObject): ProcessIdentity =>
    processOfPod(metadata.uid ?? '', metadata.labels?.['skerry.dev/component'] ?? '');

  return {
    client,
    podsOf,
    processOf,
    makeDriver: () => new KubernetesDriver({ client }),
    datastore: {
      endpoint: datastore.endpoint,
      ensureTenant: (id) => datastore.admin.ensureTenant(id),
      removeTenant: (id) => datastore.admin.removeTenant(id),
    },
    pki,
    otherVersion: otherPatch,
    locate: async (id) => {
      const location = await locator.locate(id, { signal });
      await routes.add(location.host);
      addresses.set(id, location.host);
      return location;
    },
    // As the manager names it: no API server may dial what no policy knows of.
    complete: (plan) => ({
      ...plan,
      network: { tenantUid: 'none', serviceCIDR: '10.112.4.0/22', datastore: datastore.endpoint },
      // The other components share no machine with the API server.
      components: plan.components.map((component) => ({
        ...component,
        files: component.files.map((file) => ({
          ...file,
          content: file.content.replace('https://127.0.0.1:6443', `https://${addresses.get(plan.id)}:443`),
        })),
      })),
    }),
    crash: async (id, component) => {
      const [pod] = await podsOf(id, component);
      if (pod === undefined) throw new Error(`${component} of ${id} has no pod`);
      await kill(processOf(pod));
    },
    traces: async (id) => {
      const namespaces = await client.list(resources.namespaces, { labelSelector: `skerry.dev/id=${id}` });
      const pods = await client.list(resources.pods, { labelSelector: `skerry.dev/id=${id}` });
      const volumes = await client.list(resources.persistentVolumes);
      return [
        ...namespaces.items.map(({ metadata }) => `namespace ${metadata.name}`),
        ...pods.items.map(({ metadata }) => `pod ${metadata.name}`),
        ...volumes.items
          .filter(({ spec }) =>
            (spec as { claimRef?: { namespace?: string } }).claimRef?.namespace?.endsWith(id),
          )
          .map(({ metadata }) => `volume ${metadata.name}`),
      ];
    },
    close: async () => {
      await locator.close();
      await routes.close();
      await datastore.close();
      await client.connection.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}
