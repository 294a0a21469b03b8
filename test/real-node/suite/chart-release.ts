import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type KubeObject, resources } from '../../../kube/index.ts';
import { packageChart } from '../../../scripts/release.ts';
import { type HelmResult, provideHelm, runHelm } from '../../harness/helm.ts';
import { patiently } from '../../harness/poll.ts';
import { send } from '../../harness/processes.ts';
import { Reader } from '../../harness/reader.ts';
import type { World } from '../../harness/world.ts';

const programs = ['skerry-manager', 'skerry-syncer', 'skerry-syncer-custom-resources', 'skerry-gateway'];

/**
 * Makes a local stack's super cluster one that has never had Skerry: its programs are halted, and what they have
 * made there is removed as docs/kubernetes-install.md says, with their roles.
 */
export async function removeSkerry(world: World): Promise<void> {
  for (const program of ['vc-manager', 'vc-syncer', 'vc-gateway'])
    send(await world.process(program), 'SIGSTOP');
  const { superCluster } = world;
  const remove = (...what: string[]): Promise<string> =>
    superCluster.kubectl('delete', ...what, '--ignore-not-found', patiently);
  await Promise.all([
    remove('clusterroles,clusterrolebindings', ...programs),
    remove('namespace', 'skerry-system'),
    remove('servicecidr', 'skerry-tenants'),
    remove(
      'crd',
      ...['virtualclusters', 'virtualclusterpolicies', 'controlplanetemplates'].map(
        (each) => `${each}.skerry.dev`,
      ),
    ),
  ]);
}

const root = join(import.meta.dirname, '..', '..', '..');

interface ReleasePod extends KubeObject {
  spec?: { nodeName?: string };
  status?: {
    phase?: string;
    podIP?: string;
    containerStatuses?: {
      ready: boolean;
      restartCount: number;
      state?: { waiting?: { reason?: string; message?: string } };
    }[];
  };
}

/** The release `skerry` of the chart, in the namespace that docs/kubernetes-install.md names. */
export class ChartRelease {
  readonly namespace = 'skerry-system';
  readonly #world: World;
  readonly #program: string;
  readonly #home: string;
  /** With kubectl as the admin of the cluster, and helm. */
  readonly reader: Reader;
  #chart = join(root, 'deploy', 'chart');

  private constructor(world: World, program: string) {
    this.#world = world;
    this.#program = program;
    this.#home = mkdtempSync(join(tmpdir(), 'skerry-helm-'));
    const { kubectlPath, kubeconfigFile } = world.superCluster;
    const programs = { kubectl: kubectlPath, helm: program };
    this.reader = new Reader(join(this.#home, 'reader'), programs, {
      KUBECONFIG: kubeconfigFile,
      // A newer npm is no complaint.
      npm_config_loglevel: 'error',
    });
  }

  static async prepare(world: World): Promise<ChartRelease> {
    return new ChartRelease(world, await provideHelm((line) => console.log(line)));
  }

  /** Path of the chart that is installed. */
  get chart(): string {
    return this.#chart;
  }

  /** Takes the chart as `npm run release` packs it from now on. Returns the name that its image has. */
  async pack(registry: string): Promise<string> {
    const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
    this.#chart = await packageChart({ registry, version }, this.#home, this.#program);
    return `${registry}/skerry:${version}`;
  }

  install(...args: string[]): Promise<HelmResult> {
    return this.#helm('install', 'skerry', this.#chart, ...args);
  }

  upgrade(...args: string[]): Promise<HelmResult> {
    return this.#helm('upgrade', 'skerry', this.#chart, ...args);
  }

  rollback(...args: string[]): Promise<HelmResult> {
    return this.#helm('rollback', 'skerry', ...args);
  }

  uninstall(...args: string[]): Promise<HelmResult> {
    return this.#helm('uninstall', 'skerry', ...args);
  }

  async pods(component: 'manager' | 'syncer' | 'etcd' | 'gateway'): Promise<ReleasePod[]> {
    const place = { namespace: this.namespace, labelSelector: this.#selector(component) };
    return (await this.#world.superCluster.client.list<ReleasePod>(resources.pods, place)).items;
  }

  /** Waits, on events, for something of a component's pods. */
  untilPods<R>(
    component: 'manager' | 'syncer' | 'etcd' | 'gateway',
    what: string,
    answer: (pods: ReleasePod[]) => R | undefined | false,
  ): Promise<R> {
    const place = { namespace: this.namespace, labelSelector: this.#selector(component) };
    return this.#world.superCluster.until<R, ReleasePod>(
      { resource: resources.pods, ...place, what },
      answer,
    );
  }

  /** As NOTES.txt says to wait. */
  async untilRolledOut(): Promise<void> {
    await this.#world.superCluster.kubectl(
      ...[
        '-n',
        this.namespace,
        'rollout',
        'status',
        'deployment/skerry-manager',
        'statefulset/skerry-syncer',
      ],
      patiently,
    );
  }

  /** Name of the pod of the manager that leads; empty when none does. */
  async leader(): Promise<string> {
    const lease = await this.#world.superCluster.find(resources.leases, {
      namespace: this.namespace,
      name: 'skerry-vc-manager',
    });
    return (lease?.['spec'] as { holderIdentity?: string } | undefined)?.holderIdentity ?? '';
  }

  close(): void {
    rmSync(this.#home, { recursive: true, force: true });
  }

  #selector(component: string): string {
    return `app.kubernetes.io/instance=skerry,app.kubernetes.io/component=${component}`;
  }

  #helm(command: string, ...args: string[]): Promise<HelmResult> {
    return runHelm(this.#program, [command, ...args, '--namespace', this.namespace], {
      home: this.#home,
      kubeconfig: this.#world.superCluster.kubeconfigFile,
    });
  }
}
