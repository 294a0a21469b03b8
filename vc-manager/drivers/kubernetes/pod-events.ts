import { labelKeys } from '../../../api/labels.ts';
import {
  type Clock,
  type KubeClient,
  Reflector,
  resources,
  Store,
  type StoreEvent,
} from '../../../kube/index.ts';
import type { ComponentEvent, ComponentListener, OnProblem } from '../driver.ts';
import { type ContainerStatus, containerOf, isNamespaceOf, isReady, type Pod } from './types.ts';

interface PodEventsOptions {
  client: KubeClient;
  clock: Clock;
  onProblem: OnProblem;
}

/** As long as a StatefulSet waits until it calls such a pod available. */
const minReadyMs = 5_000;

/** Follows the pods of all control planes, from the first listener on until it is closed. */
export class PodEvents {
  readonly #o: PodEventsOptions;
  readonly #listeners = new Set<ComponentListener>();
  /** UIDs of pods that we end: their end is no news. They stay until the pod is gone. */
  readonly #asked = new Set<string>();
  #following: { ending: AbortController; done: Promise<void> } | undefined;

  constructor(options: PodEventsOptions) {
    this.#o = options;
  }

  listen(listener: ComponentListener): () => void {
    this.#listeners.add(listener);
    this.#following ??= this.#follow();
    return () => this.#listeners.delete(listener);
  }

  /** These end because we want it. */
  ask(pods: readonly Pod[]): void {
    if (this.#following === undefined) return;
    for (const { metadata } of pods) if (metadata.uid !== undefined) this.#asked.add(metadata.uid);
  }

  /** These are to go on after all. */
  askNoMore(pods: readonly Pod[]): void {
    for (const { metadata } of pods) this.#asked.delete(metadata.uid ?? '');
  }

  async close(): Promise<void> {
    const following = this.#following;
    this.#following = undefined;
    this.#listeners.clear();
    this.#asked.clear();
    following?.ending.abort();
    await following?.done;
  }

  #follow(): { ending: AbortController; done: Promise<void> } {
    const ending = new AbortController();
    const store = new Store<Pod>();
    store.subscribe((event) => {
      if (!ending.signal.aborted) this.#on(event, store);
    });
    const reflector = new Reflector<Pod>({
      client: this.#o.client,
      clock: this.#o.clock,
      resource: resources.pods,
      store,
      labelSelector: `${labelKeys.id},${labelKeys.component}`,
      cutManagedFields: true,
      onProblem: ({ error }) => this.#o.onProblem(error, 'cannot follow the pods of control planes'),
    });
    return { ending, done: reflector.run(ending.signal) };
  }

  /** Without a probe it is ready when the same one still runs after a moment. */
  #afterMinReady(pod: Pod, store: Store<Pod>, tell: () => void): void {
    const { namespace, name = '' } = pod.metadata;
    const signal = this.#following?.ending.signal;
    const stillRuns = this.#o.clock.sleep(minReadyMs, signal).then(() => {
      const now = store.get({ namespace, name });
      if (now !== undefined && startOf(now) === startOf(pod)) tell();
    });
    stillRuns.catch(() => undefined);
  }

  #on(event: StoreEvent<Pod>, store: Store<Pod>): void {
    const { labels = {}, namespace, uid = '' } = event.object.metadata;
    const [id, component] = [labels[labelKeys.id] ?? '', labels[labelKeys.component] ?? ''];
    // A user who may create pods in a namespace gives them any label.
    if (!isNamespaceOf(id, namespace)) return;
    const tell = (what: ComponentEvent): void => {
      for (const listener of this.#listeners) listener(id, component, what);
    };
    for (const what of eventsOf(event, this.#asked.has(uid))) {
      if (what === 'ready' && !hasProbe(event.object))
        this.#afterMinReady(event.object, store, () => tell(what));
      else tell(what);
    }
    if (event.type === 'deleted') this.#asked.delete(uid);
  }
}

/** What a change of a pod means for its component. `asked`: it ends because we want it. */
export function eventsOf(event: StoreEvent<Pod>, asked: boolean): ComponentEvent[] {
  const { type, object, previous } = event;
  // What is there when the watch begins is no news.
  if (type === 'added' && !event.watched) return [];
  if (type === 'deleted') return asked ? [] : ['exited'];
  const events: ComponentEvent[] = [];
  const [now, before] = [containerOf(object), previous === undefined ? undefined : containerOf(previous)];
  const end = endOf(now);
  if (end !== undefined && end !== endOf(before) && !asked) events.push('exited');
  const startedAt = now?.state?.running?.startedAt;
  const hasStarted = startedAt !== undefined && startedAt !== before?.state?.running?.startedAt;
  if (hasStarted) events.push('started');
  // A kubelet that is quick tells of the end of one container and of the next being ready in one word.
  if (isReady(object) && (hasStarted || previous === undefined || !isReady(previous))) events.push('ready');
  return events;
}

/** Which end of its container a pod tells of, at whatever stage of being started again; the same for the same end. */
function endOf(container: ContainerStatus | undefined): string | undefined {
  const end = container?.state?.terminated ?? container?.lastState?.terminated;
  return end === undefined ? undefined : `${end.containerID} ${end.finishedAt}`;
}

function startOf(pod: Pod): string | undefined {
  return containerOf(pod)?.state?.running?.startedAt;
}

function hasProbe(pod: Pod): boolean {
  const spec = pod['spec'] as { containers?: { readinessProbe?: unknown }[] } | undefined;
  return spec?.containers?.[0]?.readinessProbe !== undefined;
}
