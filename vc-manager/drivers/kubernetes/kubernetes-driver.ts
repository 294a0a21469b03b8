import {
  type Clock,
  KeyedMutex,
  type KubeClient,
  type KubeObject,
  resources,
  systemClock,
} from '../../../kube/index.ts';
import {
  type ComponentPlan,
  type ControlPlanePlan,
  startOrder,
  validatePlan,
} from '../../control-plane/plan.ts';
import { runInDependencyOrder } from '../dependency-order.ts';
import type {
  ComponentListener,
  ControlPlaneDriver,
  ControlPlaneObservation,
  EnsureOptions,
  LocateOptions,
  Location,
  LogOptions,
  StopOptions,
} from '../driver.ts';
import { unknownComponent } from '../errors.ts';
import { apiServerBindPort, locateControlPlane, routeToApiServers } from './api-server-route.ts';
import { componentLog } from './logs.ts';
import {
  disruptionBudget,
  filesSecret,
  type NetworkOptions,
  namespaceManifest,
  networkPolicies,
  type Storage,
  serviceManifest,
  statefulSetManifest,
} from './manifests.ts';
import { PodEvents } from './pod-events.ts';
import { awaitRollout, forgetComponent, isSettled, observationOf, stopComponents } from './rollout.ts';
import {
  deleteNamespace,
  ensureNamespace,
  NamespaceView,
  ownNamespace,
  SuperObjects,
} from './super-objects.ts';
import { componentLabel, idLabel, isNamespaceOf, namespaceOf, type Pod, type StatefulSet } from './types.ts';

interface KubernetesDriverOptions {
  /** The super cluster. */
  client: KubeClient;
  clock?: Clock;
  /** In place of the upstream registry. */
  imageRegistry?: string;
  /** For components that keep data. Absent: what a pod has, which goes with the pod. */
  storage?: Storage;
  network?: Partial<NetworkOptions>;
}

/**
 * Runs control planes in the super cluster, each in a namespace of its own. All that it knows is written there, so
 * another driver object takes over by reading it, and nothing is restarted for that.
 */
export class KubernetesDriver implements ControlPlaneDriver {
  readonly isShared = true;
  readonly #client: KubeClient;
  readonly #clock: Clock;
  readonly #o: KubernetesDriverOptions;
  readonly #network: NetworkOptions;
  readonly #objects: SuperObjects;
  readonly #events: PodEvents;
  readonly #lock = new KeyedMutex();

  constructor(options: KubernetesDriverOptions) {
    this.#o = options;
    this.#client = options.client;
    this.#clock = options.clock ?? systemClock;
    this.#network = { systemNamespace: 'skerry-system', egress: [], ...options.network };
    this.#objects = new SuperObjects(this.#client);
    this.#events = new PodEvents({ client: this.#client, clock: this.#clock });
  }

  async locate(id: string, options: LocateOptions): Promise<Location> {
    const hasStorage = this.#o.storage !== undefined;
    return this.#lock.run(id, options.signal, () =>
      locateControlPlane(this.#objects, id, { ...options, hasStorage }),
    );
  }

  async lead(id: string, address: string, { signal }: { signal: AbortSignal }): Promise<boolean> {
    return this.#lock.run(id, signal, () =>
      routeToApiServers(this.#objects, id, { address, targetPort: apiServerBindPort, signal }),
    );
  }

  async ensure(plan: ControlPlanePlan, options: EnsureOptions): Promise<void> {
    validatePlan(plan);
    await this.#lock.run(plan.id, options.signal, () => this.#ensure(plan, options));
  }

  async observe(id: string): Promise<ControlPlaneObservation> {
    const place = { namespace: namespaceOf(id), labelSelector: `${idLabel}=${id},${componentLabel}` };
    const [sets, pods] = await Promise.all([
      this.#client.list<StatefulSet>(resources.statefulSets, place),
      this.#client.list<Pod>(resources.pods, place),
    ]);
    const components = sets.items.map((set) =>
      observationOf(
        set,
        pods.items.filter(({ metadata }) => metadata.labels?.[componentLabel] === set.metadata.name),
      ),
    );
    return { id, components: components.sort((a, b) => (a.name < b.name ? -1 : 1)) };
  }

  watch(listener: ComponentListener): () => void {
    return this.#events.listen(listener);
  }

  async stop(id: string, options: StopOptions): Promise<void> {
    await this.#lock.run(id, options.signal, async () => {
      if (await ownNamespace(this.#objects, id, options.signal)) await this.#stop(id, options);
    });
  }

  async remove(id: string, { signal }: { signal: AbortSignal }): Promise<void> {
    await this.#lock.run(id, signal, async () => {
      const namespace = await ownNamespace(this.#objects, id, signal);
      if (namespace === undefined) return;
      await this.#stop(id, { signal });
      await deleteNamespace(this.#objects, namespace, { id, clock: this.#clock, signal });
    });
  }

  async list(): Promise<string[]> {
    const { items } = await this.#client.list(resources.namespaces, { labelSelector: idLabel });
    return items
      .map(({ metadata }) => ({ name: metadata.name, id: metadata.labels?.[idLabel] ?? '' }))
      .filter(({ name, id }) => isNamespaceOf(id, name))
      .map(({ id }) => id)
      .sort();
  }

  async *logs(id: string, component: string, options: LogOptions): AsyncGenerator<string> {
    const known = await this.#objects.statefulSets(id, options.signal);
    const names = known.map(({ metadata }) => metadata.name ?? '').sort();
    if (!names.includes(component)) throw unknownComponent({ id, component }, names);
    yield* componentLog({ client: this.#client, clock: this.#clock, id, component }, options);
  }

  /** Looks away from what runs. */
  async close(): Promise<void> {
    await this.#events.close();
  }

  async #ensure(plan: ControlPlanePlan, options: EnsureOptions): Promise<void> {
    const { signal, onProgress, onReady, beforeWrite } = options;
    const { id, labels, components } = plan;
    const virtualCluster = `${labels['skerry.dev/namespace'] ?? ''}/${labels['skerry.dev/virtualcluster'] ?? ''}`;
    await ensureNamespace(this.#objects, namespaceManifest(id, virtualCluster), signal);
    // Before there is anything that they are about.
    await Promise.all([
      ...networkPolicies(plan, this.#network).map((policy) =>
        this.#objects.apply(resources.networkPolicies, policy, signal),
      ),
      ...components.flatMap((component) => {
        const [port] = component.ports.toSorted((a, b) => rank(component, a.name) - rank(component, b.name));
        if (port === undefined) return [];
        const service = serviceManifest(id, component.name, port.port);
        return [this.#objects.apply(resources.services, service, signal)];
      }),
    ]);
    const existing = await this.#objects.statefulSets(id, signal);
    const wanted = new Set(components.map(({ name }) => name));
    const others = existing.map(({ metadata }) => metadata.name ?? '').filter((name) => !wanted.has(name));
    if (others.length > 0) await this.#stop(id, { signal, components: others });
    await Promise.all(others.map((name) => forgetComponent(this.#objects, id, name, signal)));
    await runInDependencyOrder(startOrder(components), signal, async (component, startSignal) => {
      const before = existing.find(({ metadata }) => metadata.name === component.name);
      onProgress?.(`starting ${component.name}`);
      await this.#start(id, component, before, {
        signal: startSignal,
        beforeWrite: () => beforeWrite?.(),
        onProgress: (message) => onProgress?.(message),
      });
      onProgress?.(`${component.name} is ready`);
      onReady?.(component.name);
    });
  }

  async #start(
    id: string,
    component: ComponentPlan,
    before: StatefulSet | undefined,
    { signal, onProgress, beforeWrite }: Required<Omit<EnsureOptions, 'onReady' | 'beside'>>,
  ): Promise<void> {
    const objects = this.#objects;
    const place = { namespace: namespaceOf(id), name: component.name };
    const budget = disruptionBudget(id, component);
    beforeWrite();
    await objects.apply(resources.secrets, filesSecret(id, component), signal);
    if (budget !== undefined) await objects.apply(resources.podDisruptionBudgets, budget, signal);
    else if ((before?.spec?.replicas ?? 1) > 1) {
      await objects.delete(resources.podDisruptionBudgets, place, { signal });
    }
    const running = before === undefined ? [] : await objects.pods(id, component.name, signal);
    const manifest = this.#statefulSet(id, component, before);
    beforeWrite();
    // Before they can end of it.
    this.#events.ask(running);
    const written = await objects.apply<StatefulSet>(resources.statefulSets, manifest, signal);
    const isUnchanged = written.metadata.generation === before?.metadata.generation;
    if (isUnchanged) this.#events.askNoMore(running);
    // What was running as it should, and still does, need not be followed.
    if (isUnchanged && isSettled(written)) return;
    const [client, clock] = [this.#client, this.#clock];
    await using view = new NamespaceView(client, namespaceOf(id), clock);
    try {
      await awaitRollout(view, { id, component, written, client, clock, signal, onProgress });
    } finally {
      // Another number of them, for one, ends none of those that stay.
      this.#events.askNoMore(view.pods(component.name).filter((pod) => staysIn(component, pod)));
    }
  }

  /** What a StatefulSet has for storage cannot be changed: it stays as it was when it was made. */
  #statefulSet(id: string, component: ComponentPlan, before: StatefulSet | undefined): KubeObject {
    const { imageRegistry, storage } = this.#o;
    const registry = imageRegistry === undefined ? {} : { imageRegistry };
    if (before === undefined) {
      return statefulSetManifest(id, component, { ...registry, ...(storage && { storage }) });
    }
    const claims = before.spec?.volumeClaimTemplates ?? [];
    if (claims.length === 0) return statefulSetManifest(id, component, registry);
    const manifest = statefulSetManifest(id, component, { ...registry, storage: storage ?? { size: '1Gi' } });
    return { ...manifest, spec: { ...(manifest['spec'] as object), volumeClaimTemplates: claims } };
  }

  async #stop(id: string, options: StopOptions): Promise<void> {
    const { clock, objects, events } = { clock: this.#clock, objects: this.#objects, events: this.#events };
    await stopComponents({ clock, objects, events }, id, options);
  }
}

/** A pod that is not being deleted and is not surplus. */
function staysIn({ name, replicas = 1 }: ComponentPlan, { metadata }: Pod): boolean {
  const ordinal = Number(metadata.name?.slice(name.length + 1));
  return metadata.deletionTimestamp === undefined && ordinal < replicas;
}

/** The port that others dial has the component's name. */
function rank(component: ComponentPlan, port: string): number {
  return port === component.name ? 0 : 1;
}
