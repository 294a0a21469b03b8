import { labelKeys } from '../../../api/labels.ts';
import {
  apiVersionOf,
  type Clock,
  deleteIfPresent,
  ignoreNotFound,
  isAlreadyExists,
  type KubeClient,
  type KubeObject,
  type ObjectRef,
  Reflector,
  type Resource,
  resources,
  Store,
} from '../../../kube/index.ts';
import type { OnProblem } from '../driver.ts';
import { namespaceWillNotGo, notOurs } from '../errors.ts';
import { fieldManager, namespaceOf, type Pod, type StatefulSet } from './types.ts';

/** How this driver reads and writes the objects of control planes. */
export class SuperObjects {
  readonly client: KubeClient;

  constructor(client: KubeClient) {
    this.client = client;
  }

  /** What we write is ours alone, field by field; what others add to an object stays. */
  async apply<T extends KubeObject = KubeObject>(
    resource: Resource,
    object: KubeObject,
    signal: AbortSignal,
  ): Promise<T> {
    const { name = '', namespace } = object.metadata;
    const typed = { apiVersion: apiVersionOf(resource), kind: resource.kind, ...object };
    const options = { type: 'apply', fieldManager, force: true, signal } as const;
    return this.client.patch<T>(resource, { name, namespace }, typed, options);
  }

  /** Undefined instead of NotFound. */
  find(resource: Resource, ref: ObjectRef, signal: AbortSignal): Promise<KubeObject | undefined> {
    return ignoreNotFound(this.client.get(resource, ref, { signal }));
  }

  /** One that is gone, or another one by now, is as good as deleted. */
  delete(
    resource: Resource,
    ref: ObjectRef,
    options: { signal: AbortSignal; uid?: string | undefined; gracePeriodSeconds?: number },
  ): Promise<void> {
    return deleteIfPresent(this.client, resource, ref, { ...options, propagationPolicy: 'Background' });
  }

  async deletePods(pods: readonly Pod[], gracePeriodSeconds: number, signal: AbortSignal): Promise<void> {
    await Promise.all(
      pods.map(({ metadata }) => {
        const { namespace, name = '', uid } = metadata;
        return this.delete(resources.pods, { namespace, name }, { signal, uid, gracePeriodSeconds });
      }),
    );
  }

  async pods(id: string, component: string, signal: AbortSignal): Promise<Pod[]> {
    const labelSelector = `${labelKeys.id}=${id},${labelKeys.component}=${component}`;
    const place = { namespace: namespaceOf(id), labelSelector, signal };
    return (await this.client.list<Pod>(resources.pods, place)).items;
  }

  async statefulSets(id: string, signal: AbortSignal): Promise<StatefulSet[]> {
    const labelSelector = `${labelKeys.id}=${id},${labelKeys.component}`;
    const place = { namespace: namespaceOf(id), labelSelector, signal };
    return (await this.client.list<StatefulSet>(resources.statefulSets, place)).items;
  }
}

const removalTimeoutMs = 180_000;
const lookEveryMs = 250;

/** The namespace of a control plane; undefined when there is none, or one that bears no label of ours. */
export async function ownNamespace(
  objects: SuperObjects,
  id: string,
  signal: AbortSignal,
): Promise<KubeObject | undefined> {
  const found = await objects.find(resources.namespaces, { name: namespaceOf(id) }, signal);
  return found?.metadata.labels?.[labelKeys.id] === id ? found : undefined;
}

/** Makes it, or puts its labels right. Throws `NotOurs` for one that carries no label of ours. */
export async function ensureNamespace(
  objects: SuperObjects,
  wanted: KubeObject,
  signal: AbortSignal,
): Promise<void> {
  const { client } = objects;
  const id = wanted.metadata.labels?.[labelKeys.id] ?? '';
  const name = namespaceOf(id);
  let current = await objects.find(resources.namespaces, { name }, signal);
  if (current === undefined) {
    try {
      current = await client.create(resources.namespaces, wanted, { signal, fieldManager });
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
      current = await client.get(resources.namespaces, { name }, { signal });
    }
  }
  const { labels = {}, annotations = {}, deletionTimestamp, uid } = current.metadata;
  if (labels[labelKeys.id] !== id) throw notOurs(id, name);
  if (deletionTimestamp !== undefined) {
    throw namespaceWillNotGo(id, name, ' and is being deleted; it is made anew when it is gone');
  }
  const { labels: wantedLabels, annotations: wantedAnnotations } = wanted.metadata;
  if (includes(labels, wantedLabels) && includes(annotations, wantedAnnotations)) return;
  const patch = { metadata: { uid, labels: wantedLabels, annotations: wantedAnnotations } };
  await client.patch(resources.namespaces, { name }, patch, { type: 'merge', fieldManager, signal });
}

/** Deletes this very namespace and waits until it is gone, with everything in it. */
export async function deleteNamespace(
  objects: SuperObjects,
  { metadata }: KubeObject,
  { id, clock, signal }: { id: string; clock: Clock; signal: AbortSignal },
): Promise<void> {
  const { name = '', uid } = metadata;
  await objects.delete(resources.namespaces, { name }, { signal, uid });
  const deadline = clock.monotonic() + removalTimeoutMs;
  for (;;) {
    const left = await objects.find(resources.namespaces, { name }, signal);
    if (left === undefined || left.metadata.uid !== uid) return;
    if (clock.monotonic() > deadline) throw namespaceWillNotGo(id, name, whyIsItThere(left));
    await clock.sleep(lookEveryMs, signal);
  }
}

function includes(all: Record<string, string>, some: Record<string, string> = {}): boolean {
  return Object.entries(some).every(([key, value]) => all[key] === value);
}

/** What the server says about a namespace that does not go. */
function whyIsItThere(namespace: KubeObject): string {
  const status = namespace['status'] as { conditions?: { status: string; message?: string }[] } | undefined;
  const stuck = status?.conditions?.find((condition) => condition.status === 'True');
  return stuck?.message === undefined ? '' : `: ${stuck.message}`;
}

interface NamespaceViewOptions {
  client: KubeClient;
  namespace: string;
  clock: Clock;
  onProblem: OnProblem;
}

/** What runs in one namespace, kept up to date until it is closed. */
export class NamespaceView implements AsyncDisposable {
  readonly #statefulSets = new Store<StatefulSet>();
  readonly #pods = new Store<Pod>();
  readonly #ending = new AbortController();
  readonly #running: Promise<unknown>;
  readonly #synced: Promise<unknown>;
  #changed = Promise.withResolvers<void>();

  constructor({ client, namespace, clock, onProblem }: NamespaceViewOptions) {
    const follow = <T extends KubeObject>(resource: Resource, store: Store<T>): Reflector<T> => {
      store.subscribe(() => this.#tell());
      return new Reflector<T>({
        client,
        clock,
        resource,
        store,
        namespace,
        labelSelector: labelKeys.component,
        consistentStart: true,
        onProblem: ({ error }) => onProblem(error, `cannot follow ${resource.plural} of ${namespace}`),
      });
    };
    const { signal } = this.#ending;
    const reflectors = [
      follow(resources.statefulSets, this.#statefulSets),
      follow(resources.pods, this.#pods),
    ];
    this.#running = Promise.all(reflectors.map((reflector) => reflector.run(signal)));
    this.#synced = Promise.all(reflectors.map((reflector) => reflector.synced(signal)));
    this.#synced.catch(() => undefined);
  }

  statefulSet(component: string): StatefulSet | undefined {
    return [...this.#statefulSets.list()].find(({ metadata }) => metadata.name === component);
  }

  pods(component: string): Pod[] {
    return [...this.#pods.list()]
      .filter(({ metadata }) => metadata.labels?.[labelKeys.component] === component)
      .sort((a, b) => ((a.metadata.name ?? '') < (b.metadata.name ?? '') ? -1 : 1));
  }

  /** Looks now and after every change, until `look` gives something; undefined when it has not within `timeoutMs`. */
  async until<T>(
    look: () => T | undefined,
    { signal, clock, timeoutMs }: { signal: AbortSignal; clock: Clock; timeoutMs: () => number },
  ): Promise<T | undefined> {
    const over = new AbortController();
    const either = AbortSignal.any([signal, over.signal]);
    try {
      await Promise.race([this.#synced, aborted(either)]);
      for (;;) {
        signal.throwIfAborted();
        const { promise } = this.#changed;
        const found = look();
        if (found !== undefined) return found;
        const leftMs = timeoutMs();
        if (leftMs <= 0) return undefined;
        const waiting = new AbortController();
        const late = clock.sleep(leftMs, AbortSignal.any([either, waiting.signal]));
        late.catch(() => undefined);
        await Promise.race([promise, late]).finally(() => waiting.abort());
      }
    } finally {
      over.abort();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ending.abort();
    await this.#running;
  }

  #tell(): void {
    const { resolve } = this.#changed;
    this.#changed = Promise.withResolvers<void>();
    // While a list is taken over, the store is neither the old state nor the new one.
    queueMicrotask(resolve);
  }
}

function aborted(signal: AbortSignal): Promise<never> {
  const { promise, reject } = Promise.withResolvers<never>();
  promise.catch(() => undefined);
  if (signal.aborted) reject(signal.reason);
  else signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  return promise;
}
