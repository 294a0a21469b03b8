import {
  ApiError,
  Connection,
  KubeClient,
  type KubeObject,
  Reflector,
  resources,
  Store,
  systemClock,
} from '../../../kube/index.ts';
import type { Target } from './protocol.ts';

/** All that is kept of a pod: the generator shares a machine with what it measures. */
type SeenPod = KubeObject & { ready?: boolean };

const attempts = 20;

/** The pods of one target as one watch shows them. */
export class TargetPods {
  readonly name: string;
  /** Creates sent again because the server asked for it. */
  retries = 0;
  readonly #namespace: string;
  readonly #connection: Connection;
  readonly #client: KubeClient;
  readonly #store = new Store<SeenPod>({ transform: keep });
  readonly #reflector: Reflector<SeenPod>;
  readonly #stop = new AbortController();
  #running: Promise<void> | undefined;
  /** Pod name to whoever waits for it to be Ready. */
  readonly #waiting = new Map<string, () => void>();
  #whenEmpty: (() => void) | undefined;

  constructor(target: Target) {
    this.name = target.name;
    this.#namespace = target.namespace;
    this.#connection = new Connection({ ...target.connection, userAgent: 'skerry-bench' });
    this.#client = new KubeClient(this.#connection);
    this.#reflector = new Reflector<SeenPod>({
      client: this.#client,
      resource: resources.pods,
      store: this.#store,
      namespace: target.namespace,
      consistentStart: true,
    });
    this.#store.subscribe(({ type, object }) => {
      if (type === 'deleted') {
        if (this.#store.size === 0) this.#whenEmpty?.();
      } else if (object.ready === true) {
        this.#waiting.get(object.metadata.name ?? '')?.();
      }
    });
  }

  async open(): Promise<void> {
    this.#running = this.#reflector.run(this.#stop.signal);
    await this.#reflector.synced(this.#stop.signal);
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#running;
    await this.#connection.close();
  }

  /** Calls back once, when the watch shows the pod Ready. To be called before the pod is created. */
  whenReady(name: string, ready: () => void): void {
    this.#waiting.set(name, () => {
      this.#waiting.delete(name);
      ready();
    });
  }

  forget(): void {
    this.#waiting.clear();
  }

  /** Creates a pod; waits and tries again when the server is busy. */
  async create(name: string, signal: AbortSignal): Promise<void> {
    const pod = benchPod(name, this.#namespace);
    for (let attempt = 1; ; attempt++) {
      try {
        await this.#client.create(resources.pods, pod, { signal });
        return;
      } catch (error) {
        const isBusy = error instanceof ApiError && (error.code === 429 || error.code >= 500);
        if (!isBusy || attempt === attempts) throw error;
        this.retries++;
        await systemClock.sleep(error.retryAfterMs ?? 100, signal);
      }
    }
  }

  /** Deletes all pods as one does, with grace, and waits until they are gone. */
  async clear(signal: AbortSignal): Promise<void> {
    if (this.#store.size === 0) return;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const late = (): void => reject(new Error(`${this.#store.size} pods of ${this.name} are still there`));
    signal.addEventListener('abort', late, { once: true });
    this.#whenEmpty = resolve;
    try {
      const path = `/api/v1/namespaces/${this.#namespace}/pods`;
      await this.#client.raw('DELETE', path, { timeoutMs: 60_000 });
      if (this.#store.size > 0) await promise;
    } finally {
      this.#whenEmpty = undefined;
      signal.removeEventListener('abort', late);
    }
  }
}

function keep({ metadata, ...pod }: SeenPod): SeenPod {
  const { name, namespace, uid, resourceVersion } = metadata;
  const kept = Object.fromEntries(
    Object.entries({ name, namespace, uid, resourceVersion }).filter(([, value]) => value !== undefined),
  );
  return { metadata: kept, ready: isReady(pod['status']) };
}

function isReady(status: unknown): boolean {
  const { conditions } = (status ?? {}) as { conditions?: { type: string; status: string }[] };
  return conditions?.some(({ type, status: value }) => type === 'Ready' && value === 'True') === true;
}

function benchPod(name: string, namespace: string): KubeObject {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace, labels: { app: 'bench' } },
    spec: {
      automountServiceAccountToken: false,
      containers: [{ name: 'main', image: 'example.com/bench' }],
      tolerations: [{ operator: 'Exists' }],
    },
  };
}
