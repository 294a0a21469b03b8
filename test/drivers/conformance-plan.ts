import { Connection, KubeClient } from '../../kube/index.ts';
import { defaultVersions } from '../../vc-manager/binaries/index.ts';
import {
  type ControlPlanePlan,
  loadTemplates,
  renderPlan,
  selectTemplate,
} from '../../vc-manager/control-plane/index.ts';
import { ensureTenantPki, type TenantPki } from '../../vc-manager/pki/index.ts';
import type { DriverWorld, ServerAddress } from './driver-world.ts';

const clusterDomain = 'cluster.local';

export interface PlanChanges {
  version?: string;
  extraArgs?: Record<string, Record<string, string>>;
}

/** One control plane of the conformance suite: its credentials, its plans, and a client of its API server. */
export class ConformancePlan {
  readonly id: string;
  readonly address: ServerAddress;
  readonly #world: DriverWorld;
  readonly #pki: TenantPki;
  readonly #template: ReturnType<typeof selectTemplate>['template'];

  private constructor(
    world: DriverWorld,
    id: string,
    address: ServerAddress,
    pki: TenantPki,
    template: ReturnType<typeof selectTemplate>['template'],
  ) {
    this.#world = world;
    this.id = id;
    this.address = address;
    this.#pki = pki;
    this.#template = template;
  }

  /** Makes room for it in the datastore, too. */
  static async prepare(world: DriverWorld, id: string): Promise<ConformancePlan> {
    await world.datastore.ensureTenant(id);
    const address = await world.locate(id);
    const { pki } = await ensureTenantPki(undefined, {
      id,
      clusterDomain,
      hosts: [address.host],
      etcdCa: world.pki.etcdCa,
      now: new Date(),
    });
    const { template } = selectTemplate(await loadTemplates(), {
      defaultVersion: defaultVersions.kubernetes,
    });
    return new ConformancePlan(world, id, address, pki, template);
  }

  /** Equal changes give equal plans. */
  plan({ version = defaultVersions.kubernetes, extraArgs = {} }: PlanChanges = {}): ControlPlanePlan {
    const { etcdCa, kubeletProxyCa } = this.#world.pki;
    const plan = renderPlan({
      id: this.id,
      template: this.#template.spec,
      version,
      serviceCIDR: '10.112.4.0/22',
      clusterDomain,
      ports: { 'kube-apiserver': this.address.bindPort },
      bindAddress: this.address.bindAddress,
      advertiseAddress: '192.0.2.10',
      etcd: { endpoint: this.#world.datastore.endpoint },
      pki: this.#pki,
      etcdCa: etcdCa.certPem,
      kubeletCa: kubeletProxyCa.certPem,
      extraArgs,
    });
    return this.#world.complete?.(plan) ?? plan;
  }

  /** With the manager's credentials, on a connection of its own. */
  async withClient<T>(use: (client: KubeClient) => Promise<T>): Promise<T> {
    const { host, port } = this.address;
    const { servingCa, leafs } = this.#pki;
    const connection = new Connection({
      server: `https://${host.includes(':') ? `[${host}]` : host}:${port}`,
      ca: servingCa.certPem,
      cert: leafs.manager.certPem,
      key: leafs.manager.keyPem,
    });
    try {
      return await use(new KubeClient(connection));
    } finally {
      await connection.close();
    }
  }

  /** As the API server itself says it: no driver can keep a restart from showing here. */
  async serverStartedAt(): Promise<number> {
    const metrics = String(await this.withClient((client) => client.raw('GET', '/metrics')));
    const line = /^process_start_time_seconds (\S+)$/m.exec(metrics);
    if (line === null) throw new Error('the API server does not say when it was started');
    return Number(line[1]);
  }
}
