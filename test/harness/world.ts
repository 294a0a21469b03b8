import { mkdtempSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import {
  Connection,
  connectionFromSecret,
  KubeClient,
  type KubeObject,
  resource,
  resources,
} from '../../kube/index.ts';
import { adminKubeconfig, isReady } from '../../vc-manager/cli/virtual-clusters.ts';
import { aggregateLabel } from '../../vc-manager/rights.ts';
import { Checker } from './checker/checker.ts';
import { at } from './checker/view.ts';
import { Cluster, type ClusterOptions, type RunResult } from './cluster.ts';
import { namespace } from './manifests.ts';
import { patienceMs, patientRequests } from './poll.ts';
import { componentProcess, type ProcessIdentity } from './processes.ts';
import { type CliOptions, cliOutput, runCli, type StackInfo } from './stack.ts';
import { listed, type Question } from './until.ts';

const clusterRoles = resource('rbac.authorization.k8s.io', 'v1', 'clusterroles', 'ClusterRole', false);

/** What an operator does whose tenants are to use custom resources of the super cluster: lets the syncer mirror them. */
export async function mayMirrorCustomResources(kubeconfig: string): Promise<void> {
  const connection = new Connection({ ...connectionFromSecret(kubeconfig), ...patientRequests });
  const role = {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRole',
    metadata: { name: 'suite-custom-resources', labels: { [aggregateLabel]: 'true' } },
    rules: [
      {
        apiGroups: ['suite.example.com'],
        resources: ['*'],
        verbs: ['get', 'list', 'watch', 'create', 'patch', 'delete'],
      },
    ],
  };
  try {
    await new KubeClient(connection).patch(clusterRoles, { name: role.metadata.name }, role, {
      type: 'apply',
      fieldManager: 'skerry-e2e',
    });
  } finally {
    await connection.close();
  }
}

/** A tenant's API server, with the kubeconfig that `vc-manager kubeconfig` prints for people. */
export class Tenant extends Cluster {
  readonly virtualCluster: VirtualCluster;
  readonly #superCluster: Cluster;

  constructor(options: ClusterOptions & { virtualCluster: VirtualCluster; superCluster: Cluster }) {
    super(options);
    this.virtualCluster = options.virtualCluster;
    this.#superCluster = options.superCluster;
  }

  override until<R, T extends KubeObject = KubeObject>(
    question: Omit<Question, 'client'>,
    answer: (objects: T[]) => R | undefined | false,
  ): Promise<R> {
    const explain = () => describeTracked(this, this.#superCluster, question);
    return super.until({ explain, ...question }, answer);
  }

  get ref(): { namespace: string; name: string } {
    const { namespace = '', name = '' } = this.virtualCluster.metadata;
    return { namespace, name };
  }

  get uid(): string {
    return this.virtualCluster.metadata.uid ?? '';
  }

  /** `status.id`: root of the names of its control plane. */
  get id(): string {
    return this.virtualCluster.status?.id ?? '';
  }
}

/** Exit code of `create` for a name that is taken. */
const conflict = 6;

/** Namespace c of the second is called as b-c of the first wherever both words are merely put together: see names.test.ts. */
const sharedNames = ['shared', 'shared-b'] as const;

/** What every cluster has. */
const ownNamespaces: readonly string[] = ['default', 'kube-node-lease', 'kube-public', 'kube-system'];

/** One suite's view of the shared stack. What it makes here goes with `close`. */
export class World {
  readonly stateDir: string;
  readonly superCluster: Cluster;
  readonly #stack: StackInfo;
  readonly #directory: string;
  readonly #tenants = new Map<string, Tenant>();
  /** Tenants that stay, and how each is left to the others. */
  readonly #shared = new Map<Tenant, () => Promise<void>>();

  constructor(stack: StackInfo) {
    this.#stack = stack;
    this.stateDir = stack.stateDir;
    this.#directory = mkdtempSync(join(dirname(stack.stateDir), 'suite-'));
    this.superCluster = new Cluster({
      name: 'super cluster',
      kubeconfig: stack.superKubeconfig,
      kubeconfigFile: join(this.#directory, 'super-cluster.kubeconfig'),
      kubectl: stack.kubectl,
    });
  }

  get tenants(): readonly Tenant[] {
    return [...this.#tenants.values()];
  }

  /** Runs `vc-manager`, whatever comes of it. */
  cli(args: readonly string[], options?: CliOptions): Promise<RunResult> {
    return runCli(this.stateDir, args, options);
  }

  /** Creates a tenant as a user would, and waits until it can be used. */
  async createTenant(name: string, ...options: string[]): Promise<Tenant> {
    const create = ['create', name, '--wait', ...options];
    const { exitCode, stderr } = await this.cli(create);
    if (exitCode === conflict) {
      // Of an earlier run, on a stack that outlived it.
      await cliOutput(this.stateDir, 'delete', name, '--wait', '--yes', '--ignore-not-found');
      await cliOutput(this.stateDir, ...create);
    } else if (exitCode !== 0)
      throw new Error(`vc-manager ${create.join(' ')} ended with ${exitCode}: ${stderr}`);
    return this.openTenant(name);
  }

  createTenants(...names: string[]): Promise<Tenant[]> {
    return Promise.all(names.map((name) => this.createTenant(name)));
  }

  /**
   * A tenant that all suites share, with a new namespace of this name, which no other suite has: for those that leave
   * its control plane and its credentials alone, as each costs seconds to start. Made by the first that asks. `close`
   * deletes every namespace of it, without waiting, and puts its spec back; what else a suite makes there, it deletes.
   */
  async sharedTenant(ofSuite: string): Promise<Tenant> {
    return this.#openWith(sharedNames[0], ofSuite);
  }

  /** As `sharedTenant`, and another one beside it. */
  async sharedTenants(ofSuite: string): Promise<[Tenant, Tenant]> {
    const [one, other] = sharedNames;
    return Promise.all([this.#openWith(one, ofSuite), this.#openWith(other, ofSuite)]);
  }

  /** As `sharedTenants`, for suites that run beside each other: `close` deletes these namespaces, which are not made. */
  async joinTenants(...namespaces: string[]): Promise<[Tenant, Tenant]> {
    const [one, other] = sharedNames;
    return Promise.all([this.#join(one, namespaces), this.#join(other, namespaces)]);
  }

  async #openWith(name: string, ofSuite: string): Promise<Tenant> {
    const tenant = await this.#openShared(name);
    this.#shared.set(tenant, () => this.#handBack(tenant));
    // Of an earlier run, on a stack that outlived it.
    await removeNamespaces(tenant, (each) => each === ofSuite);
    await tenant.untilGone(resources.namespaces, { name: ofSuite });
    await tenant.apply(namespace(ofSuite));
    return tenant;
  }

  async #join(name: string, namespaces: readonly string[]): Promise<Tenant> {
    const tenant = await this.#openShared(name);
    const remove = (): Promise<void> => removeNamespaces(tenant, (each) => namespaces.includes(each));
    this.#shared.set(tenant, remove);
    // Of an earlier run, on a stack that outlived it.
    await remove();
    for (const each of namespaces) await tenant.untilGone(resources.namespaces, { name: each });
    return tenant;
  }

  async #openShared(name: string): Promise<Tenant> {
    const ref = { namespace: 'default', name };
    const found = await this.superCluster.find(resources.virtualClusters, ref);
    if (found === undefined) {
      const { exitCode, stderr } = await this.cli(['create', name, '--wait']);
      // Another suite may be just creating it.
      if (exitCode !== 0 && exitCode !== conflict)
        throw new Error(`vc-manager create ${name} ended with ${exitCode}: ${stderr}`);
    }
    // The suite before has put its spec back and not waited.
    const virtualCluster = await this.superCluster.until<VirtualCluster, VirtualCluster>(
      {
        resource: resources.virtualClusters,
        ...ref,
        what: `the tenant ${name} to be Ready`,
      },
      ([vc]) => vc !== undefined && isReady(vc) && vc,
    );
    const signal = AbortSignal.timeout(patienceMs);
    const kubeconfig = await adminKubeconfig(this.superCluster.client, virtualCluster, signal);
    return this.#open(virtualCluster, kubeconfig);
  }

  /** Opens one that is there; `close` deletes it too. */
  async openTenant(name: string, namespace = 'default'): Promise<Tenant> {
    const kubeconfig = await cliOutput(this.stateDir, 'kubeconfig', name, '-n', namespace);
    return this.#open(await this.virtualCluster(name, namespace), kubeconfig);
  }

  async #open(virtualCluster: VirtualCluster, kubeconfig: string): Promise<Tenant> {
    const { name = '' } = virtualCluster.metadata;
    const tenant = new Tenant({
      name,
      kubeconfig,
      kubeconfigFile: this.file(`${name}.kubeconfig`),
      kubectl: this.#stack.kubectl,
      virtualCluster,
      superCluster: this.superCluster,
    });
    await this.#tenants.get(name)?.close();
    this.#tenants.set(name, tenant);
    return tenant;
  }

  virtualCluster(name: string, namespace = 'default'): Promise<VirtualCluster> {
    return this.superCluster.client.get<VirtualCluster>(resources.virtualClusters, { namespace, name });
  }

  /** As a user would; nothing of it is left afterwards. */
  async deleteTenant(name: string): Promise<void> {
    await this.#tenants.get(name)?.close();
    this.#tenants.delete(name);
    await cliOutput(this.stateDir, 'delete', name, '--wait', '--yes');
  }

  /** A path in the suite's own temporary directory. */
  file(name: string): string {
    return join(this.#directory, name);
  }

  /** A running component: of the stack, or of a tenant's control plane. */
  async process(component: string, tenant?: Tenant): Promise<ProcessIdentity> {
    const found = await componentProcess(this.stateDir, tenant ?? 'stack', component);
    if (found === undefined) throw new Error(`${component} of ${tenant?.name ?? 'the stack'} does not run`);
    return found;
  }

  /** A checker of these tenants, or of all of this world. To be closed. */
  checker(tenants: readonly Tenant[] = this.tenants): Checker {
    return new Checker({ superKubeconfig: this.superCluster.kubeconfig, tenants });
  }

  /** Waits, on events, until the checker finds no difference; rejects with those that remain. */
  async expectAgreement(tenants?: readonly Tenant[], timeoutMs?: number): Promise<void> {
    const checker = this.checker(tenants);
    try {
      await checker.untilAgreed(timeoutMs === undefined ? {} : { timeoutMs });
    } finally {
      checker.close();
    }
  }

  /** Asks for the deletion of its tenants, which the next suite need not wait for, and hands back those that are shared. */
  async close(): Promise<void> {
    const names = this.tenants.filter((tenant) => !this.#shared.has(tenant)).map(({ name }) => name);
    try {
      await Promise.all([...this.#shared.values()].map((handBack) => handBack()));
      if (names.length > 0) await cliOutput(this.stateDir, 'delete', '--yes', '--ignore-not-found', ...names);
    } finally {
      await Promise.all(this.tenants.map((tenant) => tenant.close()));
      this.#tenants.clear();
      await this.superCluster.close();
      rmSync(this.#directory, { recursive: true, force: true });
    }
  }

  async #handBack(tenant: Tenant): Promise<void> {
    await removeNamespaces(tenant, (name) => !ownNamespaces.includes(name));
    const { spec = {}, metadata } = tenant.virtualCluster;
    if ((await this.virtualCluster(tenant.name)).metadata.generation === metadata.generation) return;
    const asBefore = [{ op: 'replace', path: '/spec', value: spec }];
    await this.superCluster.client.patch(resources.virtualClusters, tenant.ref, asBefore, { type: 'json' });
  }
}

/** Asks for their deletion; one that is on its way out already may not be asked again. */
async function removeNamespaces({ client }: Tenant, isToGo: (name: string) => boolean): Promise<void> {
  const { items } = await client.list(resources.namespaces);
  const names = items
    .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
    .map(({ metadata }) => metadata.name ?? '');
  await Promise.all(names.filter(isToGo).map((name) => client.delete(resources.namespaces, { name })));
}

const events = resource('', 'v1', 'events', 'Event', true);
const maxWarnings = 10;

/** What the super cluster has of a tenant's objects, and what Warning events tell the tenant: for who waited in vain. */
async function describeTracked(
  tenant: Cluster & { readonly uid: string },
  superCluster: Cluster,
  question: Pick<Question, 'resource' | 'namespace'>,
): Promise<string> {
  const { namespace } = question;
  const selectors = [
    `skerry.dev/tenant=${tenant.uid}`,
    ...(namespace === undefined ? [] : [`skerry.dev/namespace=${namespace}`]),
  ];
  const [there, warnings] = await Promise.all([
    superCluster.client.list(question.resource, { labelSelector: selectors.join() }),
    namespace === undefined
      ? []
      : tenant.client
          .list(events, { namespace, fieldSelector: 'type=Warning' })
          .then(({ items }) => items.slice(-maxWarnings)),
  ]);
  return `in the super cluster: ${listed(there.items)}; warnings: ${warnings.map(told).join('; ') || 'none'}`;
}

function told(event: KubeObject): string {
  return `${at(event, 'involvedObject', 'name')} ${at(event, 'reason')}: ${at(event, 'message')}`;
}
