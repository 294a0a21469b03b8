import { apiVersion, kubeconfigKey } from '../../../api/names.ts';
import type { VirtualCluster } from '../../../api/virtual-cluster.ts';
import {
  type Condition,
  Connection,
  type ConnectionOptions,
  connectionFromSecret,
  isAlreadyExists,
  isNotFound,
  KubeClient,
  type KubeObject,
  Reflector,
  resources,
  Store,
  systemClock,
} from '../../../kube/index.ts';

const lookEveryMs = 25;

/** The VirtualClusters of one namespace of the super cluster, which belongs to this run alone. */
export class Tenants {
  readonly #client: KubeClient;
  readonly #namespace: string;
  readonly #store = new Store<VirtualCluster>();
  readonly #stop = new AbortController();
  #running: Promise<void> | undefined;
  readonly #reflector: Reflector<VirtualCluster>;

  constructor(client: KubeClient, namespace: string) {
    this.#client = client;
    this.#namespace = namespace;
    this.#reflector = new Reflector<VirtualCluster>({
      client,
      resource: resources.virtualClusters,
      store: this.#store,
      namespace,
      consistentStart: true,
    });
  }

  get(name: string): VirtualCluster | undefined {
    return this.#store.get({ namespace: this.#namespace, name });
  }

  async request(name: string, signal: AbortSignal): Promise<void> {
    // Not before: without a manager there is nothing to watch.
    this.#running ??= this.#reflector.run(this.#stop.signal);
    const vc = {
      apiVersion,
      kind: 'VirtualCluster',
      metadata: { name, namespace: this.#namespace },
      spec: {},
    };
    await this.#client.create(resources.virtualClusters, vc, { signal });
  }

  /** Resolves when the tenant's own API server has answered its admin for the first time. */
  async usable(name: string, signal: AbortSignal): Promise<ConnectionOptions> {
    await this.#when(
      name,
      (vc) => {
        throwIfFailed(vc);
        return vc?.status?.kubeconfigSecret !== undefined;
      },
      signal,
    );
    const options = await this.#kubeconfig(name, signal);
    const connection = new Connection({ ...options, requestTimeoutMs: 5_000 });
    try {
      const tenant = new KubeClient(connection);
      for (;;) {
        try {
          await tenant.list(resources.namespaces, { signal });
          return options;
        } catch {
          // Whatever it is, a person would try again.
        }
        throwIfFailed(this.get(name));
        await systemClock.sleep(lookEveryMs, signal);
      }
    } finally {
      await connection.close();
    }
  }

  /** Resolves when manager and syncer both say that they are done. */
  async joined(name: string, signal: AbortSignal): Promise<void> {
    await this.#when(
      name,
      (vc) => {
        throwIfFailed(vc);
        return isTrue(vc, 'Ready') && isTrue(vc, 'Synced');
      },
      signal,
    );
  }

  /** Resolves when nothing is left of them that the manager waits for. */
  async remove(names: readonly string[], signal: AbortSignal): Promise<void> {
    await Promise.all(
      names.map(async (name) => {
        try {
          await this.#client.delete(
            resources.virtualClusters,
            { namespace: this.#namespace, name },
            { signal },
          );
        } catch (error) {
          if (!isNotFound(error)) throw error;
        }
        await this.#when(name, (vc) => vc === undefined, signal);
      }),
    );
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  async #kubeconfig(name: string, signal: AbortSignal): Promise<ConnectionOptions> {
    const secret = this.get(name)?.status?.kubeconfigSecret ?? {
      name: `${name}-kubeconfig`,
      key: kubeconfigKey,
    };
    const { data } = await this.#client.get<KubeObject & { data?: Record<string, string> }>(
      resources.secrets,
      { namespace: this.#namespace, name: secret.name },
      { signal },
    );
    return connectionFromSecret(Buffer.from(data?.[secret.key] ?? '', 'base64').toString());
  }

  async #when(
    name: string,
    condition: (vc: VirtualCluster | undefined) => boolean,
    signal: AbortSignal,
  ): Promise<void> {
    await this.#reflector.synced(signal);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const look = (): void => {
      try {
        if (condition(this.get(name))) resolve();
      } catch (error) {
        reject(error);
      }
    };
    const aborted = (): void => reject(signal.reason);
    const unsubscribe = this.#store.subscribe(look);
    signal.addEventListener('abort', aborted, { once: true });
    try {
      signal.throwIfAborted();
      look();
      await promise;
    } finally {
      unsubscribe();
      signal.removeEventListener('abort', aborted);
    }
  }
}

/** Creates a namespace and waits until pods may be created in it. */
export async function prepareNamespace(client: KubeClient, name: string, signal: AbortSignal): Promise<void> {
  await client.create(resources.namespaces, { metadata: { name } }, { signal }).catch((error: unknown) => {
    if (!isAlreadyExists(error)) throw error;
  });
  for (;;) {
    try {
      await client.get(resources.serviceAccounts, { namespace: name, name: 'default' }, { signal });
      return;
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
    await systemClock.sleep(lookEveryMs, signal);
  }
}

function isTrue(vc: VirtualCluster | undefined, type: string): boolean {
  const conditions: Condition[] = vc?.status?.conditions ?? [];
  return conditions.some((condition) => condition.type === type && condition.status === 'True');
}

function throwIfFailed(vc: VirtualCluster | undefined): void {
  if (vc?.status?.phase !== 'Failed') return;
  const why = vc.status.conditions?.find(({ type }) => type === 'Ready')?.message ?? 'no reason given';
  throw new Error(`the tenant ${vc.metadata.name} has failed: ${why}`);
}
