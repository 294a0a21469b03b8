import type { VirtualCluster } from '../../../api/virtual-cluster.ts';
import {
  type Clock,
  type Condition,
  findCondition,
  type KubeObject,
  renderKubeconfig,
  resources,
} from '../../../kube/index.ts';
import { fastClock } from '../../../kube/testing/fast-clock.ts';
import {
  type FakeCluster,
  sharedTestCertificates,
  startFakeCluster,
  type TestCertificates,
} from '../../../kube/testing/index.ts';
import { SyncEngine } from '../../engine.ts';
import { allKinds } from '../../kinds/registry.ts';
import { SuperSide } from '../../super-side.ts';
import { TenantDirectory, type TenantFilter } from '../directory.ts';
import type { SyncerSettings } from '../tenant-info.ts';

const namespace = 'acme';
/** Skerry's own namespace in the super cluster. */
export const systemNamespace = 'skerry-system';

/** Of the only replica. */
const everyTenant: TenantFilter = {
  serves: () => true,
  seesAll: true,
  see: () => undefined,
  subscribe: () => () => undefined,
};

interface WorldOptions {
  clock?: Clock;
  /** False: nothing runs but the servers; for somebody who brings a syncer along. */
  serves?: boolean;
  gate?: TenantFilter;
}

/** A directory that serves VirtualClusters of a fake super cluster, each with a fake API server of its own. */
export class DirectoryWorld implements AsyncDisposable {
  readonly super: FakeCluster;
  readonly engine: SyncEngine;
  readonly directory: TenantDirectory;
  /** `joined acme/blue`, `left acme/blue`. */
  readonly told: string[] = [];
  /** `serving acme/blue <authority>`, `leaving <uid>`. */
  readonly served: string[] = [];
  /** Messages of the log. */
  readonly warnings: string[] = [];
  readonly superSide: SuperSide;
  /** Others are taken over when `directory.reconsider` is called. */
  settings: SyncerSettings = {
    kubelet: { address: '127.0.0.1', port: 10450 },
    nodeLabels: [],
    protectedCIDRs: [],
    allowedAnnotations: [],
    deniedKeyPrefixes: [],
    transparentKeyPrefixes: [],
    networkPoliciesEnforced: true,
    ingressAnnotations: [],
    tenantCacheMiB: 128,
    totalCacheMiB: 1_024,
  };
  readonly #certificates: TestCertificates;
  readonly #tenants = new Map<string, FakeCluster>();
  readonly #stop = new AbortController();
  #running: Promise<void>[] = [];

  private constructor(
    superCluster: FakeCluster,
    certificates: TestCertificates,
    clock: Clock,
    gate: TenantFilter = everyTenant,
  ) {
    this.super = superCluster;
    this.#certificates = certificates;
    const client = superCluster.client;
    this.superSide = new SuperSide({ client, kinds: allKinds, clock, onProblem: () => undefined });
    const report = (error: unknown): void => void this.warnings.push(String(error));
    this.engine = new SyncEngine({
      kinds: allKinds,
      superClient: client,
      superCaches: this.superSide.caches,
      superIdentity: this.superSide.identity,
      clock,
      workers: 8,
      onMismatch: (tenant, side) =>
        void this.directory.session(tenant.info.uid)?.mismatch(side).catch(report),
      onHeld: (tenant) => void this.directory.session(tenant.info.uid)?.held().catch(report),
    });
    this.directory = new TenantDirectory({
      superClient: client,
      systemNamespace,
      superCaches: this.superSide.caches,
      customResources: this.superSide.customResources,
      superIdentity: this.superSide.identity,
      engine: this.engine,
      kinds: allKinds,
      settings: () => this.settings,
      clock,
      gate,
      logger: { info: () => undefined, warn: (_fields, message) => this.warnings.push(message) },
      hooks: {
        joined: (tenant) => this.told.push(`joined ${tenant}`),
        held: (tenant) => this.told.push(`held ${tenant}`),
        left: (tenant) => this.told.push(`left ${tenant}`),
        serving: (session, authorities) =>
          this.served.push(`serving ${session.state.label} ${authorities?.kubeletClient ?? 'unproven'}`),
        leaving: (uid) => this.served.push(`leaving ${uid}`),
      },
    });
  }

  static async start(
    prepare?: (world: DirectoryWorld) => Promise<void>,
    options: WorldOptions = {},
  ): Promise<DirectoryWorld> {
    const superCluster = await startFakeCluster();
    superCluster.server.put(resources.namespaces, { metadata: { name: 'kube-system', uid: 'super' } });
    const world = new DirectoryWorld(
      superCluster,
      await sharedTestCertificates(),
      options.clock ?? fastClock(100),
      options.gate,
    );
    await prepare?.(world);
    if (options.serves === false) return world;
    const { signal } = world.#stop;
    world.#running.push(world.superSide.run(signal));
    await world.superSide.synced(signal);
    world.#running.push(world.engine.run(signal), world.directory.run(signal));
    return world;
  }

  /** A VirtualCluster that is ready to be served, with its API server and its Secret. */
  async make(
    name: string,
    parts: { uid?: string; status?: object; annotations?: Record<string, string> } = {},
  ): Promise<FakeCluster> {
    const cluster = await startFakeCluster({ certificates: this.#certificates });
    this.#tenants.set(name, cluster);
    cluster.server.put(resources.namespaces, { metadata: { name: 'kube-system', uid: `tenant-${name}` } });
    this.issue(name, cluster);
    this.super.server.put(resources.virtualClusters, {
      metadata: {
        name,
        namespace,
        ...(parts.uid && { uid: parts.uid }),
        ...(parts.annotations && { annotations: parts.annotations }),
      },
      spec: {},
      status: {
        id: `${name}0000000000`.slice(0, 10),
        phase: 'Ready',
        advertisedAddress: '192.0.2.1',
        serviceCIDR: '10.112.4.0/22',
        syncerSecret: { namespace: systemNamespace, name: `${name}-syncer`, key: 'kubeconfig' },
        identities: { tenant: `tenant-${name}`, superCluster: 'super' },
        ...parts.status,
      },
    });
    return cluster;
  }

  /** The API server of one that was made. */
  tenantOf(name: string): FakeCluster {
    return this.#tenants.get(name) as FakeCluster;
  }

  /** Writes the Secret with the syncer's credentials; `user` makes them new ones. */
  issue(name: string, cluster: FakeCluster, user = 'vc-syncer', authority?: string): void {
    const { ca, client } = this.#certificates;
    const kubeconfig = renderKubeconfig({
      clusterName: name,
      server: cluster.server.url,
      ca,
      user,
      ...client,
    });
    this.super.server.put(resources.secrets, {
      metadata: {
        name: `${name}-syncer`,
        namespace: systemNamespace,
        annotations: { 'skerry.dev/tenant-name': `${namespace}/${name}` },
      },
      data: Object.fromEntries(
        Object.entries({
          kubeconfig,
          ...(authority && { 'kubelet-client-ca.crt': authority, 'front-proxy-ca.crt': authority }),
        }).map(([key, text]) => [key, Buffer.from(text).toString('base64')]),
      ),
    });
  }

  vc(name: string): VirtualCluster {
    return this.super.server.get(resources.virtualClusters, { namespace, name }) as VirtualCluster;
  }

  /** Changes a VirtualCluster as its owner or the manager would. */
  change(name: string, change: (vc: VirtualCluster) => VirtualCluster): void {
    this.super.server.put(resources.virtualClusters, change(this.vc(name)));
  }

  annotate(name: string, annotations: Record<string, string>): void {
    this.change(name, (vc) => ({
      ...vc,
      metadata: { ...vc.metadata, annotations: { ...vc.metadata.annotations, ...annotations } },
    }));
  }

  remove(name: string): void {
    this.super.server.remove(resources.virtualClusters, { namespace, name });
  }

  condition(name: string, type: string): Condition | undefined {
    return findCondition(this.vc(name)?.status?.conditions, type);
  }

  /** Resolves when a condition says so: its status and its reason. */
  async says(name: string, type: string, status: string, reason: string): Promise<Condition> {
    const holds = (): boolean => {
      const condition = this.condition(name, type);
      return condition?.status === status && condition.reason === reason;
    };
    await this.super.server.until(holds);
    return this.condition(name, type) as Condition;
  }

  /** Super objects of a resource that carry the mark of this VirtualCluster. */
  objectsOf(name: string, resource: typeof resources.pods): KubeObject[] {
    const { uid } = this.vc(name).metadata;
    return this.super.server
      .list(resource)
      .filter(({ metadata }) => metadata.labels?.['skerry.dev/tenant'] === uid);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new Error('test is over'));
    await Promise.all(this.#running);
    for (const tenant of this.#tenants.values()) await tenant[Symbol.asyncDispose]();
    await this.super[Symbol.asyncDispose]();
  }
}
