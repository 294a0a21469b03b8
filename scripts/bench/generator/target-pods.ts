import { Connection, type KubeObject, resources, systemClock } from '../../../kube/index.ts';
import type { Removal, Target } from './protocol.ts';
import { eventName, isReadyPod, RawWatch } from './watch.ts';

/** The pods of one target as one watch shows them: which there are, and which are Ready. */
export class TargetPods {
  readonly name: string;
  readonly calls: ApiCalls;
  readonly #lines: RawWatch;
  readonly #stop = new AbortController();
  #running: Promise<void> | undefined;
  /** Name to whether it is Ready. */
  readonly #pods = new Map<string, boolean>();
  /** Callbacks by pod name, for when it is Ready or gone. */
  readonly #untilReady = new Map<string, () => void>();
  readonly #untilGone = new Map<string, () => void>();
  #whenEmpty: (() => void) | undefined;
  #podJson: readonly [string, string];

  constructor(target: Target) {
    this.name = target.name;
    this.calls = new ApiCalls(target);
    this.#podJson = podTemplate(false);
    this.#lines = new RawWatch({
      connection: this.calls.connection,
      resource: resources.pods,
      namespace: target.namespace,
      onList: (pods) => this.#replace(pods),
      onEvent: (type, line) => {
        const name = eventName(line);
        if (name === undefined) return;
        if (type === 'DELETED') this.#gone(name);
        // Ready once is enough: what comes after is not looked at.
        else if (this.#pods.get(name) !== true) this.#seen(name, isReadyPod(line));
      },
    });
  }

  /** Creates that were repeated after 429 or 5xx. */
  get retries(): number {
    return this.calls.retries;
  }

  set withTokens(withTokens: boolean) {
    this.#podJson = podTemplate(withTokens);
  }

  async open(): Promise<void> {
    this.#running = this.#lines.run(this.#stop.signal);
    await this.#lines.listed;
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#running;
    await this.calls.connection.close();
  }

  /** Calls back once, when the watch shows the pod Ready. To be called before the pod is created. */
  whenReady(name: string, ready: () => void): void {
    this.#untilReady.set(name, ready);
  }

  forget(): void {
    this.#untilReady.clear();
  }

  /** Creates a pod; waits and tries again when the server is busy. */
  create(name: string, signal: AbortSignal): Promise<void> {
    const [before, after] = this.#podJson;
    return this.calls.create('pods', before + name + after, signal);
  }

  names(): string[] {
    return [...this.#pods.keys()];
  }

  isReady(name: string): boolean {
    return this.#pods.get(name) === true;
  }

  /** Resolves when the pod is Ready; at once if it is. Never, if aborted. */
  ready(name: string): Promise<void> {
    return new Promise((resolve) => {
      if (this.isReady(name)) resolve();
      else this.whenReady(name, resolve);
    });
  }

  /** Deletes a pod by a call of its own; resolves when the watch shows that it is gone, or when `over` does. */
  async remove(
    name: string,
    elapsed: () => number,
    { signal, over }: { signal: AbortSignal; over: Promise<void> },
  ): Promise<Removal> {
    const removal: Removal = { target: this.name, deletedMs: elapsed() };
    const gone = new Promise<void>((resolve) => {
      this.#untilGone.set(name, () => {
        removal.goneMs = elapsed();
        resolve();
      });
    });
    const deleted = this.calls.delete('pods', name, signal).then(() => gone);
    try {
      await Promise.race([deleted, over]);
    } finally {
      deleted.catch(() => undefined);
      this.#untilGone.delete(name);
    }
    return removal;
  }

  /** Deletes all pods with grace, in one call, and waits until they are gone. */
  async clear(signal: AbortSignal): Promise<void> {
    if (this.#pods.size === 0) return;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const late = (): void => reject(new Error(`${this.#pods.size} pods of ${this.name} are still there`));
    signal.addEventListener('abort', late, { once: true });
    this.#whenEmpty = resolve;
    try {
      await this.calls.deleteAll('pods', undefined, signal);
      if (this.#pods.size > 0) await promise;
    } finally {
      this.#whenEmpty = undefined;
      signal.removeEventListener('abort', late);
    }
  }

  #replace(pods: readonly KubeObject[]): void {
    const listed = new Map(
      pods.map(({ metadata, ...pod }) => [metadata.name ?? '', hasReady(pod['status'])]),
    );
    for (const name of this.names()) if (!listed.has(name)) this.#gone(name);
    for (const [name, ready] of listed) this.#seen(name, ready);
  }

  #seen(name: string, ready: boolean): void {
    this.#pods.set(name, ready);
    if (!ready) return;
    const callback = this.#untilReady.get(name);
    this.#untilReady.delete(name);
    callback?.();
  }

  #gone(name: string): void {
    this.#pods.delete(name);
    this.#untilGone.get(name)?.();
    if (this.#pods.size === 0) this.#whenEmpty?.();
  }
}

function hasReady(status: unknown): boolean {
  const { conditions } = (status ?? {}) as { conditions?: { type: string; status: string }[] };
  return conditions?.some(({ type, status: value }) => type === 'Ready' && value === 'True') === true;
}

/** A pod as JSON, in front of its name and behind it. */
function podTemplate(withTokens: boolean): readonly [string, string] {
  const pod = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: '\n', labels: { app: 'bench' } },
    spec: {
      ...(withTokens ? {} : { automountServiceAccountToken: false }),
      containers: [{ name: 'main', image: 'example.com/bench' }],
    },
  };
  const [before = '', after = ''] = JSON.stringify(pod).split('\\n');
  return [before, after];
}

const attempts = 20;

type WritePlural = 'pods' | 'configmaps' | 'services';

interface Write {
  method: 'POST' | 'PATCH' | 'DELETE';
  path: string;
  resource: WritePlural;
  body?: string;
}

/**
 * Writes to one namespace of one API server. Answers are not parsed; what a busy server refuses is sent again,
 * until the signal is aborted. A call that is under way then is not.
 */
class ApiCalls {
  readonly connection: Connection;
  readonly namespace: string;
  /** Calls sent again because the server asked for it. */
  retries = 0;

  constructor({ connection, namespace }: Target) {
    this.connection = new Connection({ ...connection, userAgent: 'skerry-bench' });
    this.namespace = namespace;
  }

  /** `body`: the object as JSON. */
  create(resource: WritePlural, body: string, signal: AbortSignal): Promise<void> {
    return this.#send({ method: 'POST', path: this.#path(resource), resource, body }, signal);
  }

  /** `body`: a merge patch as JSON. */
  patch(resource: WritePlural, name: string, body: string, signal: AbortSignal): Promise<void> {
    return this.#send({ method: 'PATCH', path: `${this.#path(resource)}/${name}`, resource, body }, signal);
  }

  /** With the usual grace period. A pod that does not exist is not a failure. */
  delete(resource: WritePlural, name: string, signal: AbortSignal): Promise<void> {
    return this.#send({ method: 'DELETE', path: `${this.#path(resource)}/${name}`, resource }, signal);
  }

  deleteAll(resource: WritePlural, labelSelector: string | undefined, signal: AbortSignal): Promise<void> {
    const query = labelSelector === undefined ? '' : `?labelSelector=${encodeURIComponent(labelSelector)}`;
    return this.#send({ method: 'DELETE', path: this.#path(resource) + query, resource }, signal);
  }

  #path(resource: WritePlural): string {
    return `/api/v1/namespaces/${this.namespace}/${resource}`;
  }

  async #send({ method, path, resource, body }: Write, signal: AbortSignal): Promise<void> {
    const contentType = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json';
    const verb = ({ POST: 'create', PATCH: 'patch', DELETE: 'delete' } as const)[method];
    const call = { method, path, verb, resource, body, contentType: body && contentType };
    for (let attempt = 1; ; attempt++) {
      const { status, text, retryAfter } = await this.connection.request({ ...call, timeoutMs: 60_000 });
      if (status < 300 || (status === 404 && method === 'DELETE')) return;
      const isBusy = status === 429 || status >= 500;
      if (!isBusy || attempt === attempts || signal.aborted)
        throw refusal(status, `${verb} ${resource}`, text);
      this.retries++;
      await systemClock.sleep(Number(retryAfter ?? 0) * 1000 || 100, signal);
    }
  }
}

function refusal(status: number, call: string, text: string): Error {
  const message = /"message":"((?:[^"\\]|\\.)*)"/.exec(text)?.[1];
  return new Error(`${call}: HTTP ${status}${message === undefined ? '' : `, ${message}`}`);
}
