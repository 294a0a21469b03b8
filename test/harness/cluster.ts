import { writeFileSync } from 'node:fs';
import { execa } from 'execa';
import { stringify } from 'yaml';
import {
  Connection,
  connectionFromSecret,
  isNotFound,
  KubeClient,
  type KubeObject,
  type ObjectRef,
  type Resource,
  resources,
} from '../../kube/index.ts';
import { at, listAt } from './checker/view.ts';
import { patienceMs, patiently, patientRequests, poll } from './poll.ts';
import { type Question, until } from './until.ts';

export interface RunResult {
  readonly stdout: string;
  readonly stderr: string;
  readonly exitCode: number;
}

export interface ClusterOptions {
  /** For messages. */
  name: string;
  kubeconfig: string;
  /** Where the kubeconfig is written to, for kubectl. */
  kubeconfigFile: string;
  kubectl: string;
}

/** Later than its own `--timeout`, which says what did not come. */
const kubectlTimeoutMs = patienceMs + 30_000;

/** One API server, by kubectl and by a client of its own, with the rights of its kubeconfig. */
export class Cluster {
  readonly name: string;
  readonly kubeconfig: string;
  readonly kubeconfigFile: string;
  readonly client: KubeClient;
  readonly kubectlPath: string;

  constructor({ name, kubeconfig, kubeconfigFile, kubectl }: ClusterOptions) {
    this.name = name;
    this.kubeconfig = kubeconfig;
    this.kubeconfigFile = kubeconfigFile;
    this.kubectlPath = kubectl;
    writeFileSync(kubeconfigFile, kubeconfig, { mode: 0o600 });
    const connection = new Connection({
      ...connectionFromSecret(kubeconfig),
      ...patientRequests,
      userAgent: 'skerry-e2e',
    });
    this.client = new KubeClient(connection);
  }

  /** Runs kubectl and gives what it printed; throws when it fails. */
  async kubectl(...args: string[]): Promise<string> {
    const { stdout, stderr, exitCode } = await this.tryKubectl(args);
    if (exitCode !== 0)
      throw new Error(`kubectl ${args.join(' ')} (${this.name}) failed: ${stderr || stdout}`);
    return stdout;
  }

  /** Runs kubectl whatever comes of it. */
  async tryKubectl(
    args: readonly string[],
    { input, env }: { input?: string; env?: Record<string, string> } = {},
  ): Promise<RunResult> {
    const { stdout, stderr, exitCode } = await execa(
      this.kubectlPath,
      // By default it remembers what a server offers in the home directory, by a port that others get later.
      ['--kubeconfig', this.kubeconfigFile, `--cache-dir=${this.kubeconfigFile}.cache`, ...args],
      {
        reject: false,
        timeout: kubectlTimeoutMs,
        ...(input === undefined ? {} : { input }),
        ...(env && { env }),
      },
    );
    return { stdout, stderr, exitCode: exitCode ?? -1 };
  }

  /**
   * `kubectl apply` of objects, server-side so that no annotation is added. Namespaces come first, and have their service
   * account when it returns: admission waits two seconds for it at the most and then refuses a pod.
   */
  async apply(...objects: object[]): Promise<void> {
    const namespaces = (objects as KubeObject[]).filter(({ kind }) => kind === 'Namespace');
    if (namespaces.length > 0) {
      await this.#apply(namespaces);
      for (const { metadata } of namespaces) await this.#untilInhabitable(metadata.name ?? '');
    }
    const others = (objects as KubeObject[]).filter(({ kind }) => kind !== 'Namespace');
    if (others.length > 0) await this.#apply(others);
  }

  async #untilInhabitable(namespace: string): Promise<void> {
    const what = `the service account of namespace ${namespace}`;
    const account = { resource: resources.serviceAccounts, namespace, name: 'default', what };
    await this.until(account, ([found]) => found !== undefined);
  }

  async #apply(objects: readonly object[]): Promise<void> {
    const input = objects.map((object) => stringify(object)).join('---\n');
    const { stderr, exitCode } = await this.tryKubectl(['apply', '--server-side', '-f', '-'], { input });
    if (exitCode !== 0) throw new Error(`kubectl apply (${this.name}) failed: ${stderr}`);
  }

  /** Admission and allocators learn what there is by watches of their own: until a dry run has the wanted end. */
  async untilAdmitted(object: KubeObject, holds: (made: KubeObject) => boolean = () => true): Promise<void> {
    const input = stringify(object);
    const dryRun = ['create', '--dry-run=server', '-o', 'json', '-f', '-'];
    let said = '';
    await poll(`${object.kind} ${object.metadata.name} to be admitted (${this.name})`, async () => {
      const { stdout, stderr, exitCode } = await this.tryKubectl(dryRun, { input });
      said = stderr || stdout;
      return exitCode === 0 && holds(JSON.parse(stdout) as KubeObject);
    }).catch((error: Error) => {
      throw new Error(`${error.message}: ${said}`, { cause: error });
    });
  }

  /** A claim has its volume: no pod has to use it for that. */
  async untilBound(namespace: string, name: string): Promise<void> {
    const bound = '--for=jsonpath={.status.phase}=Bound';
    await this.kubectl('-n', namespace, 'wait', `pvc/${name}`, bound, patiently);
  }

  /** So many ready endpoints stand in the slices of a Service, whose controller works by itself. */
  async untilEndpoints(namespace: string, service: string, count: number): Promise<void> {
    const labelSelector = `kubernetes.io/service-name=${service}`;
    const isReady = (endpoint: Record<string, unknown>): boolean =>
      at(endpoint, 'conditions', 'ready') === true;
    await this.until(
      {
        resource: resources.endpointSlices,
        namespace,
        labelSelector,
        what: `${count} endpoints of ${service}`,
      },
      (slices) => slices.flatMap((slice) => listAt(slice, 'endpoints')).filter(isReady).length === count,
    );
  }

  /** The kinds of a definition are served a moment after it is `Established`. */
  async untilServed(groupVersion: string, plural: string): Promise<void> {
    await poll(`${plural} to be served (${this.name})`, async () => {
      const found = (await this.client.raw('GET', `/apis/${groupVersion}`).catch((error: unknown) => {
        if (!isNotFound(error)) throw error;
      })) as { resources: { name: string }[] } | undefined;
      return found?.resources.some(({ name }) => name === plural);
    });
  }

  until<R, T extends KubeObject = KubeObject>(
    question: Omit<Question, 'client'>,
    answer: (objects: T[]) => R | undefined | false,
  ): Promise<R> {
    return until<R, T>({ client: this.client, ...question, what: `${question.what} (${this.name})` }, answer);
  }

  /** Undefined instead of NotFound. */
  async find<T extends KubeObject = KubeObject>(resource: Resource, ref: ObjectRef): Promise<T | undefined> {
    try {
      return await this.client.get<T>(resource, ref);
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }

  async untilGone(resource: Resource, { namespace, name }: ObjectRef, timeoutMs?: number): Promise<void> {
    const what = `${resource.kind} ${name} to go`;
    const question = { resource, namespace, name, what, timeoutMs };
    await this.until(question, (objects) => objects.length === 0);
  }

  /** All objects that are being deleted, with what keeps them, for messages: a line each. */
  async terminating(): Promise<string> {
    const { stdout: kinds } = await this.tryKubectl(['api-resources', '--verbs=list', '-o', 'name']);
    const all = ['get', kinds.trim().split('\n').join(','), '--all-namespaces', '-o', 'json'];
    // Fails when a kind goes meanwhile, and still prints the others.
    const { stdout, stderr } = await this.tryKubectl(all);
    if (stdout === '') throw new Error(`kubectl get (${this.name}) failed: ${stderr}`);
    const { items } = JSON.parse(stdout) as { items: (KubeObject & { status?: { conditions?: unknown } })[] };
    return items
      .filter(({ metadata }) => metadata.deletionTimestamp !== undefined)
      .map(({ kind, metadata: { namespace, name, deletionTimestamp, finalizers }, status }) => {
        const conditions = status?.conditions;
        return JSON.stringify({ kind, namespace, name, deletionTimestamp, finalizers, conditions });
      })
      .join('\n');
  }

  async close(): Promise<void> {
    await this.client.connection.close();
  }
}
