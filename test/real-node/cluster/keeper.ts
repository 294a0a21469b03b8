import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  Connection,
  connectionFromSecret,
  KubeClient,
  type KubeObject,
  resources,
} from '../../../kube/index.ts';
import { addressAt } from '../../../vc-manager/os/network.ts';
import { patientRequests, poll } from '../../harness/poll.ts';
import { runCli } from '../../harness/stack.ts';
import { until } from '../../harness/until.ts';
import { createAddons } from '../addons.ts';
import { Cache, type Tell } from '../build/programs.ts';
import type { ImageName } from '../images/recipes.ts';
import { type ClusterClaim, listClaims, makeClaim, prepareSysctls } from '../machine/machine.ts';
import { Network } from '../machine/network.ts';
import { Credentials } from '../node/node-files.ts';
import { RealNode } from '../node/real-node.ts';
import { PolicyEngine } from '../policies/policy-engine.ts';
import { cgroupOf, cleanUp, cleanUpAbandoned } from './clean-up.ts';
import type { ClusterInfo } from './cluster-info.ts';
import { OutsideDns } from './outside-dns.ts';
import { prepareCluster } from './prepare.ts';

export interface KeeperOptions {
  /** Made here; of an earlier cluster, or empty, or not there. */
  directory: string;
  nodes: number;
  images: readonly ImageName[];
  /** The super cluster's own DNS, which tenants do not need. */
  withDns: boolean;
  /** Of the super cluster's Services; by default as "vc-manager up" has it. */
  serviceRange?: string;
  /** Pod Security level of all namespaces but kube-system that name none; by default none is enforced. */
  podSecurity?: 'baseline' | 'restricted';
  env: Readonly<Record<string, string | undefined>>;
  tell: Tell;
}

const upTimeoutMs = 600_000;
const usualServiceRange = '10.96.0.0/16';
const marker = 'SKERRY-REAL-NODE';

/** Brings up a super cluster with real nodes, and takes it away again. */
export class Keeper {
  readonly #o: KeeperOptions;
  readonly #nodes: RealNode[] = [];
  #claim: ClusterClaim | undefined;
  #outsideDns: OutsideDns | undefined;
  #policyEngine: PolicyEngine | undefined;

  constructor(options: KeeperOptions) {
    this.#o = options;
  }

  async up(signal: AbortSignal): Promise<ClusterInfo> {
    const { directory, tell, env } = this.#o;
    await this.#refuseTaken();
    await cleanUpAbandoned(tell);
    const cache = new Cache({ env, signal, tell });
    const { programs, imageStore } = await prepareCluster(cache, this.#o.images);

    const since = performance.now();
    const step = (what: string): void =>
      tell(`${((performance.now() - since) / 1000).toFixed(1)} s: ${what}`);
    await mkdir(directory, { recursive: true, mode: 0o755 });
    await writeFile(join(directory, marker), '');
    const claim = await makeClaim(directory);
    this.#claim = claim;
    await prepareSysctls();
    const network = new Network(claim.number);
    await network.up();
    const outsideDns = new OutsideDns({
      host: network.address,
      suffix: 'outside.test',
      address: network.address,
    });
    await outsideDns.listen();
    this.#outsideDns = outsideDns;
    const stateDir = join(directory, 'state');
    const starting = this.#startStack(stateDir, network.address).then(() => step('the stack is up'));
    const indexes = Array.from({ length: this.#o.nodes }, (_, index) => index + 1);
    const booting = Promise.all(
      indexes.map(async (index) => {
        const node = new RealNode({
          index,
          directory: join(directory, 'nodes', `node-${index}`),
          network,
          cgroup: cgroupOf(claim),
          programs,
          imageStore,
          dnsAddress: this.#dnsAddress,
          tell,
        });
        this.#nodes.push(node);
        await node.boot(indexes.filter((other) => other !== index));
        step(`${node.name} is booted`);
      }),
    );
    const joined = booting.then(() => this.#join({ stateDir, network }, starting, step));
    await Promise.all([starting, joined]);
    const info: ClusterInfo = {
      directory,
      stateDir,
      superKubeconfigFile: superKubeconfigOf(stateDir),
      address: network.address,
      podRange: network.podRange,
      nodes: this.#nodes.map(({ name, index, pid }) => ({ name, address: network.nodeAddress(index), pid })),
      keeper: process.pid,
    };
    await writeFile(join(directory, 'cluster.json'), JSON.stringify(info, null, 2));
    return info;
  }

  async down(): Promise<void> {
    await this.#policyEngine?.close();
    await Promise.all(this.#nodes.map((node) => node.stop()));
    await this.#outsideDns?.close();
    if (this.#claim !== undefined) await cleanUp(this.#claim);
  }

  get #dnsAddress(): string {
    return addressAt(this.#o.serviceRange ?? usualServiceRange, 10);
  }

  async #refuseTaken(): Promise<void> {
    const { directory } = this.#o;
    const other = (await listClaims()).find((claim) => claim.directory === directory && claim.isLive);
    if (other !== undefined) {
      throw new Error(
        `a cluster is up in ${directory} already, kept by process ${other.keeper.pid}: take it down first`,
      );
    }
    const entries: string[] = await readdir(directory).catch(() => []);
    if (entries.length > 0 && !entries.includes(marker)) {
      throw new Error(
        `${directory} is not empty and holds no cluster of this harness: name another directory`,
      );
    }
    if (/^\/(run|var\/run|var\/lib|var\/log)\//.test(directory)) {
      throw new Error(
        `${directory}: nodes have their own /run, /var/lib and /var/log; name a directory elsewhere`,
      );
    }
  }

  async #startStack(stateDir: string, address: string): Promise<void> {
    const { serviceRange, podSecurity } = this.#o;
    const { exitCode, stdout, stderr } = await runCli(
      stateDir,
      [
        ...[
          'up',
          '--detach',
          '--state-dir',
          stateDir,
          '--nodes',
          '0',
          '--audit',
          '--tenants',
          '0',
          '--no-samples',
        ],
        // By the engine of this harness, which brings no API group along.
        ...['--network-policies', 'enforced'],
        ...['--bind-address', address, '--advertise-address', address, '--super-bind-address', address],
        '--unsafe-no-fsync',
        ...(serviceRange === undefined ? [] : ['--super-service-cidr', serviceRange]),
        ...(podSecurity === undefined ? [] : ['--super-pod-security', podSecurity]),
      ],
      { timeoutMs: upTimeoutMs },
    );
    if (exitCode !== 0) throw new Error(`"vc-manager up" ended with ${exitCode}:\n${stdout}\n${stderr}`);
  }

  /** As soon as the super cluster's API server answers, which is before the whole stack is up. */
  async #join(
    { stateDir, network }: { stateDir: string; network: Network },
    starting: Promise<void>,
    step: (what: string) => void,
  ): Promise<void> {
    let failure: unknown;
    starting.catch((error: unknown) => {
      failure = error;
    });
    const kubeconfig = await poll(
      'the kubeconfig of the super cluster',
      async () => {
        if (failure !== undefined) throw failure;
        return readFile(superKubeconfigOf(stateDir), 'utf8').catch(() => undefined);
      },
      { timeoutMs: upTimeoutMs },
    );
    const options = connectionFromSecret(kubeconfig);
    const client = new KubeClient(
      new Connection({ ...options, ...patientRequests, userAgent: 'skerry-real-node' }),
    );
    try {
      await poll(
        'the API server of the super cluster',
        async () => {
          if (failure !== undefined) throw failure;
          return client.raw('GET', '/readyz').then(
            () => true,
            () => false,
          );
        },
        { timeoutMs: upTimeoutMs },
      );
      step('the API server is ready');
      const credentials = await Credentials.read(stateDir, options.server);
      await Promise.all(this.#nodes.map((node) => node.join(credentials)));
      this.#policyEngine = new PolicyEngine({
        connection: { ...options, userAgent: 'network-policies' },
        nodes: this.#nodes.map(({ pid }) => pid),
        tell: this.#o.tell,
      });
      await poll(
        'the namespace kube-system, which the API server makes when it is ready',
        () =>
          client.get(resources.namespaces, { name: 'kube-system' }).then(
            () => true,
            () => false,
          ),
        { timeoutMs: upTimeoutMs },
      );
      await createAddons(client, { dnsAddress: this.#dnsAddress, withDns: this.#o.withDns });
      await until<true, NodeObject>(
        {
          client,
          resource: resources.nodes,
          what: `${this.#o.nodes} ready nodes`,
        },
        (nodes) => nodes.filter(isReady).length === this.#o.nodes || undefined,
      );
      // As the node IPAM controller would do, which this cluster has none of.
      for (const { name, index } of this.#nodes) {
        const podCIDR = network.nodeRange(index);
        await client.patch(
          resources.nodes,
          { name },
          { spec: { podCIDR, podCIDRs: [podCIDR] } },
          { type: 'merge' },
        );
      }
      step(`${this.#o.nodes} nodes are ready`);
    } finally {
      await client.connection.close();
    }
  }
}

interface NodeObject extends KubeObject {
  spec?: { taints?: { key: string }[] };
  status?: { conditions?: { type: string; status: string }[] };
}

function isReady({ spec, status }: NodeObject): boolean {
  const ready = status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True');
  return ready === true && !spec?.taints?.some(({ key }) => key === 'node.kubernetes.io/not-ready');
}

function superKubeconfigOf(stateDir: string): string {
  return join(stateDir, 'super-cluster', 'admin.kubeconfig');
}
