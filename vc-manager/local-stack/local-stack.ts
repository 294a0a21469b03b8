import { rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { labelKeys } from '../../api/labels.ts';
import {
  type Clock,
  connectionFromSecret,
  type KubeClient,
  resources,
  systemClock,
  withClient,
} from '../../kube/index.ts';
import { type Binaries, defaultVersions } from '../binaries/index.ts';
import type { ComponentPlan, ControlPlanePlan } from '../control-plane/plan.ts';
import { localAddress } from '../control-plane/render-plan.ts';
import type { ControlPlaneDriver, StopOptions } from '../drivers/driver.ts';
import { ProcessDriver } from '../drivers/process/process-driver.ts';
import { replaceFile } from '../os/files.ts';
import { addressAt } from '../os/network.ts';
import { ensureManagerPki, ensureSuperClusterPki, type ManagerPki } from '../pki/index.ts';
import { datastorePlan } from './datastore-plan.ts';
import { createSimulatedNodes } from './simulated-nodes.ts';
import { createSimulatedStorage, storagePlan } from './simulated-storage.ts';
import { type StackPorts, stackPorts } from './stack-ports.ts';
import {
  type Audited,
  type SuperClusterPlanOptions,
  superClusterKubeconfig,
  superClusterPlan,
  superClusterServer,
} from './super-cluster-plan.ts';

interface LocalStackOptions {
  stateDir: string;
  binaries: Pick<Binaries, 'ensure'>;
  /** An address of this machine that is not loopback. */
  advertiseAddress: string;
  /** Without: only the datastore, for a super cluster of the user's own. */
  superCluster?: {
    /** Simulated nodes to have at least; 0: no simulation, neither of nodes nor of storage. */
    nodes: number;
    /** Where its API server listens, 127.0.0.1 by default. Kubelets and pods that reach it there may use it. */
    bindAddress?: string;
    /** Whose every request its API server records. */
    audited?: Audited;
    /** Its service addresses, 10.96.0.0/16 by default. */
    serviceCIDR?: string;
    /** Of namespaces that name no level. */
    podSecurity?: SuperClusterPlanOptions['podSecurity'];
  };
  versions?: { kubernetes: string; etcd: string; kwok: string };
  /** Instead of ports that are chosen once and kept in the state directory. */
  ports?: StackPorts;
  /** Of this package: what runs of its own programs is restarted when it changes. */
  packageVersion?: string;
  /**
   * What the super cluster has to have before any of `components` is started anew. Called at every start, with an
   * admin's client.
   */
  prepare?: (client: KubeClient, signal: AbortSignal) => Promise<void>;
  /** Further components, which may depend on those of the stack, such as manager and syncer. */
  components?: (parts: LocalStackParts) => ComponentPlan[];
  /** For tests: etcd does not wait for the disk. */
  unsafeNoFsync?: boolean | undefined;
  clock?: Clock;
  driver?: ControlPlaneDriver;
}

/** What there is to connect to. */
export interface LocalStackParts {
  /** Admin's, as a file and as text; absent without a local super cluster. */
  superCluster?: {
    server: string;
    kubeconfigFile: string;
    kubeconfig: string;
    /** Of Skerry's programs, which may do what roles of the super cluster let them do. */
    managerKubeconfig: string;
    syncerKubeconfig: string;
    gatewayKubeconfig: string;
  };
  datastore: {
    /** For API servers. */
    endpoint: string;
    /** Of the JSON gateway. */
    httpEndpoint: string;
    pki: ManagerPki;
    pkiDirectory: string;
  };
}

interface LocalStackStart {
  signal: AbortSignal;
  onProgress?: ((message: string) => void) | undefined;
}

const stackId = 'stack';
const defaultServiceCIDR = '10.96.0.0/16';
const clusterDomain = 'cluster.local';
const nodesReadyTimeoutMs = 180_000;

/**
 * Everything that a machine of its own needs: a local super cluster with simulated nodes and storage,
 * and the tenants' datastore. All of it outlives this object; a new one on the same directory takes it over.
 */
export class LocalStack {
  readonly driver: ControlPlaneDriver;
  readonly #o: LocalStackOptions;
  readonly #clock: Clock;
  readonly #stateDir: string;

  constructor(options: LocalStackOptions) {
    this.#o = options;
    this.#clock = options.clock ?? systemClock;
    this.#stateDir = resolve(options.stateDir);
    // Its one control plane is called `stack`, so that its files lie in <state>/stack.
    this.driver =
      options.driver ??
      new ProcessDriver({ root: this.#stateDir, binaries: options.binaries, clock: this.#clock });
  }

  /** Brings up what does not run, adopts what does, and returns when the nodes are ready. */
  async start({ signal, onProgress }: LocalStackStart): Promise<LocalStackParts> {
    const { plan, parts, ours } = await this.plan();
    const running = await this.#running();
    // What runs is not stopped for a program that may turn out not to be had.
    const startAsFetched = running.size === 0;
    const { prepare } = this.#o;
    if (parts.superCluster !== undefined && prepare !== undefined) {
      // What runs is kept running: no component may be missing from the plan.
      const first = plan.components.filter(({ name }) => !ours.has(name) || running.has(name));
      await this.driver.ensure({ ...plan, components: first }, { signal, startAsFetched, onProgress });
      await this.#asAdmin(parts.superCluster.kubeconfig, (client) => prepare(client, signal));
    }
    await this.driver.ensure(plan, { signal, startAsFetched, onProgress });
    if (parts.superCluster !== undefined && (this.#o.superCluster?.nodes ?? 0) > 0)
      await this.simulate(parts, { signal, onProgress });
    return parts;
  }

  /** Simulated nodes and storage of a super cluster that serves; returns when the nodes are ready. */
  async simulate(
    { superCluster }: Pick<LocalStackParts, 'superCluster'>,
    { signal, onProgress }: LocalStackStart,
  ): Promise<void> {
    if (superCluster === undefined) return;
    await this.#asAdmin(superCluster.kubeconfig, async (client) => {
      await createSimulatedStorage(client, signal);
      const count = this.#o.superCluster?.nodes ?? 0;
      const { kubernetes } = this.#o.versions ?? defaultVersions;
      onProgress?.(`waiting for ${count} simulated nodes`);
      const address = this.#o.advertiseAddress;
      await createSimulatedNodes(client, { count, address, kubernetesVersion: kubernetes, signal });
      await this.#nodesReady(client, count, signal);
    });
  }

  /** Stops every process of the stack, or those named, first what depends on others; the state stays. */
  async stop(options: StopOptions): Promise<void> {
    await this.driver.stop(stackId, options);
  }

  /** Stops it and removes its state, certificates included. */
  async remove(options: { signal: AbortSignal }): Promise<void> {
    await this.driver.remove(stackId, options);
    for (const part of ['super-cluster', 'datastore']) {
      await rm(join(this.#stateDir, part), { recursive: true, force: true });
    }
  }

  observe(): ReturnType<ControlPlaneDriver['observe']> {
    return this.driver.observe(stackId);
  }

  logs(
    component: string,
    options: Parameters<ControlPlaneDriver['logs']>[2],
  ): ReturnType<ControlPlaneDriver['logs']> {
    return this.driver.logs(stackId, component, options);
  }

  async #running(): Promise<Set<string>> {
    const { components } = await this.observe();
    return new Set(components.filter(({ state }) => state === 'running').map(({ name }) => name));
  }

  /**
   * What `start` carries out, and what there will be to connect to. Makes certificates and kubeconfigs that are not
   * there yet, and starts nothing. `ours`: names of the further components.
   */
  async plan(): Promise<{ plan: ControlPlanePlan; parts: LocalStackParts; ours: Set<string> }> {
    const { advertiseAddress, unsafeNoFsync } = this.#o;
    const versions = this.#o.versions ?? defaultVersions;
    const now = new Date(this.#clock.now());
    const ports = this.#o.ports ?? (await stackPorts(join(this.#stateDir, 'datastore', 'ports.json')));

    const pkiDirectory = join(this.#stateDir, 'datastore', 'pki');
    const managerPki = await ensureManagerPki(pkiDirectory, {
      kubeletProxyHosts: ['127.0.0.1', 'localhost', advertiseAddress],
      now,
    });
    const components = datastorePlan({ etcdVersion: versions.etcd, pki: managerPki, ports, unsafeNoFsync });
    const parts: LocalStackParts = {
      datastore: {
        endpoint: `https://127.0.0.1:${ports['datastore-client']}`,
        httpEndpoint: `https://127.0.0.1:${ports['datastore-http']}`,
        pki: managerPki,
        pkiDirectory,
      },
    };
    const { superCluster } = this.#o;
    if (superCluster !== undefined) {
      const { bindAddress = '127.0.0.1', serviceCIDR = defaultServiceCIDR, podSecurity } = superCluster;
      const isSimulated = superCluster.nodes > 0;
      const directory = join(this.#stateDir, 'super-cluster');
      const pki = await ensureSuperClusterPki(join(directory, 'pki'), {
        serviceAddress: addressAt(serviceCIDR, 1),
        clusterDomain,
        hosts: [advertiseAddress, localAddress(bindAddress)],
        now,
      });
      const options = {
        versions,
        pki,
        ports,
        serviceCIDR,
        clusterDomain,
        advertiseAddress,
        bindAddress,
        isSimulated,
        audited: superCluster.audited,
        podSecurity,
        unsafeNoFsync,
      };
      const { packageVersion } = this.#o;
      components.push(...superClusterPlan(options));
      if (isSimulated) components.push(...storagePlan({ ...options, packageVersion }));
      const kubeconfig = superClusterKubeconfig(options, 'system:admin', pki.admin);
      const kubeconfigFile = join(directory, 'admin.kubeconfig');
      await replaceFile(kubeconfigFile, kubeconfig);
      parts.superCluster = {
        server: superClusterServer(options),
        kubeconfigFile,
        kubeconfig,
        managerKubeconfig: superClusterKubeconfig(options, 'skerry-manager', pki.manager),
        syncerKubeconfig: superClusterKubeconfig(options, 'skerry-syncer', pki.syncer),
        gatewayKubeconfig: superClusterKubeconfig(options, 'skerry-gateway', pki.gateway),
      };
    }
    const further = this.#o.components?.(parts) ?? [];
    const plan = { id: stackId, labels: {}, components: [...components, ...further] };
    return { plan, parts, ours: new Set(further.map(({ name }) => name)) };
  }

  #asAdmin<T>(kubeconfig: string, work: (client: KubeClient) => Promise<T>): Promise<T> {
    return withClient({ ...connectionFromSecret(kubeconfig), userAgent: 'skerry-local-stack' }, work);
  }

  async #nodesReady(client: KubeClient, count: number, signal: AbortSignal): Promise<void> {
    const deadline = this.#clock.monotonic() + nodesReadyTimeoutMs;
    for (;;) {
      const nodes = await client.list<NodeObject>(resources.nodes, {
        labelSelector: `${labelKeys.simulated}=true`,
        signal,
      });
      const ready = nodes.items.filter(isSchedulable).length;
      if (ready >= count) return;
      if (this.#clock.monotonic() > deadline) {
        throw new Error(
          `only ${ready} of ${count} simulated nodes became ready within ${nodesReadyTimeoutMs / 1000} s: see the logs of kwok and kube-controller-manager in ${join(this.#stateDir, stackId, 'logs')}`,
        );
      }
      await this.#clock.sleep(200, signal);
    }
  }
}

type NodeObject = Awaited<ReturnType<KubeClient['get']>> & {
  spec?: { taints?: { key: string }[] };
  status?: { conditions?: { type: string; status: string }[] };
};

// Ready alone is not enough: the taint that a new node carries goes a little later.
function isSchedulable(node: NodeObject): boolean {
  const ready = node.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True');
  const tainted = node.spec?.taints?.some(({ key }) => key === 'node.kubernetes.io/not-ready');
  return ready === true && tainted !== true;
}
