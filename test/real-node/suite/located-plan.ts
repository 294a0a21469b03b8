import { Connection, type ConnectionOptions, KubeClient } from '../../../kube/index.ts';
import { defaultVersions } from '../../../vc-manager/binaries/index.ts';
import type { ControlPlanePlan } from '../../../vc-manager/control-plane/plan.ts';
import { renderPlan } from '../../../vc-manager/control-plane/render-plan.ts';
import { loadTemplates } from '../../../vc-manager/control-plane/template.ts';
import type { Location } from '../../../vc-manager/drivers/driver.ts';
import { KubernetesDriver } from '../../../vc-manager/drivers/kubernetes/kubernetes-driver.ts';
import { ensureEncryption, ensureTenantPki, type TenantPki } from '../../../vc-manager/pki/index.ts';
import { patientRequests } from '../../harness/poll.ts';
import type { KubernetesWorld } from './kubernetes-world.ts';

const { signal } = new AbortController();
const clusterDomain = 'cluster.local';

/** Plans of one control plane as the manager makes them for this driver, and the way to its API server. */
export class LocatedPlan {
  readonly id: string;
  readonly #world: KubernetesWorld;
  readonly #location: Location;
  readonly #pki: TenantPki;
  /** Made once, as the manager does. */
  readonly #encryption = ensureEncryption(undefined, { wasStarted: false });
  readonly #template: string;

  private constructor(
    world: KubernetesWorld,
    { id, location, pki, template }: { id: string; location: Location; pki: TenantPki; template: string },
  ) {
    this.id = id;
    this.#world = world;
    this.#location = location;
    this.#pki = pki;
    this.#template = template;
  }

  static async prepare(world: KubernetesWorld, id: string, template = 'v1-36'): Promise<LocatedPlan> {
    const withDatastore = template.endsWith('own-etcd');
    if (!withDatastore) await world.datastore.ensureTenant(id);
    await world.locate(id);
    const location = await new KubernetesDriver({ client: world.client }).locate(id, {
      signal,
      withDatastore,
    });
    const { pki } = await ensureTenantPki(undefined, {
      id,
      clusterDomain,
      hosts: [location.host, ...location.names],
      etcdCa: world.pki.etcdCa,
      ...(location.datastore && { ownDatastore: { hosts: [location.datastore.host] } }),
      now: new Date(),
    });
    return new LocatedPlan(world, { id, location, pki, template });
  }

  async plan(
    options: { replicas?: number; version?: string; extraArgs?: Record<string, Record<string, string>> } = {},
  ): Promise<ControlPlanePlan> {
    const { replicas = 1, version = defaultVersions.kubernetes, extraArgs = {} } = options;
    const template = (await loadTemplates()).find(({ metadata }) => metadata.name === this.#template);
    if (template === undefined) throw new Error(`no template ${this.#template}`);
    const { host, datastore, bindAddress, bindPort } = this.#location;
    const { pki, datastore: shared } = this.#world;
    return renderPlan({
      id: this.id,
      template: template.spec,
      version,
      serviceCIDR: '10.112.8.0/22',
      clusterDomain,
      ports: { ...datastore?.ports, 'kube-apiserver': bindPort },
      bindAddress,
      advertiseAddress: host,
      apiServer: this.#location,
      replicas,
      etcd: {
        endpoint: datastore === undefined ? shared.endpoint : `https://${datastore.host}:${datastore.port}`,
      },
      network: {
        tenantUid: 'none',
        serviceCIDR: '10.112.8.0/22',
        ...(datastore === undefined && { datastore: shared.endpoint }),
      },
      pki: this.#pki,
      encryption: this.#encryption,
      etcdCa: pki.etcdCa.certPem,
      kubeletCa: pki.kubeletProxyCa.certPem,
      extraArgs,
    });
  }

  get connectionOptions(): ConnectionOptions {
    const { servingCa, leafs } = this.#pki;
    return {
      server: `https://${this.#location.host}:${this.#location.port}`,
      ca: servingCa.certPem,
      cert: leafs.manager.certPem,
      key: leafs.manager.keyPem,
    };
  }

  async withClient<T>(use: (client: KubeClient) => Promise<T>): Promise<T> {
    const connection = new Connection({ ...this.connectionOptions, ...patientRequests });
    try {
      return await use(new KubeClient(connection));
    } finally {
      await connection.close();
    }
  }
}
