import { labelKeys } from '../../../api/labels.ts';
import { defaultSystemNamespace } from '../../../api/names.ts';
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
  runInDependencyOrder,
  startOrder,
  validatePlan,
} from '../../control-plane/plan.ts';
import {
  type ComponentListener,
  type ControlPlaneDriver,
  type ControlPlaneObservation,
  type EnsureOptions,
  handOverPauseMs,
  type LocateOptions,
  type Location,
  type LogOptions,
  type OnProblem,
  type StopOptions,
} from '../driver.ts';
import { unknownComponent } from '../errors.ts';
import { apiServerBindPort, locateControlPlane, removeRoute, routeToApiServers } from './api-server-route.ts';
import { CpuRequests } from './cpu-requests.ts';
import { componentLog } from './logs.ts';
import {
  disruptionBudget,
  filesSecret,
  inReplacement,
  type NetworkOptions,
  namespaceManifest,
  networkPolicies,
  type Storage,
  serviceManifest,
  statefulSetManifest,
} from './manifests.ts';
import { PodEvents } from './pod-events.ts';
import {
  awaitRollout,
  forgetComponent,
  hasNoNode,
  isRolloutComplete,
  observationOf,
  stopComponents,
} from './rollout.ts';
import {
  deleteNamespace,
  ensureNamespace,
  NamespaceView,
  ownNamespace,
  SuperObjects,
} from './super-objects.ts';
import {
  apiServer,
  isNamespaceOf,
  isReady,
  namespaceOf,
  type Pod,
  type StatefulSet,
  templateHashAnnotation,
} from './types.ts';

interface KubernetesDriverOptions {
  /** The super cluster. */
  client: KubeClient;
  clock?: Clock;
  /** In place of the upstream registry. */
  imageRegistry?: string | undefined;
  /** For components that keep data. Absent: what a pod has, which goes with the pod. */
  storage?: Storage | undefined;
  network?: Partial<NetworkOptions>;
  onProblem?: OnProblem;
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
  readonly #cpuRequests: CpuRequests;
  readonly #onProblem: OnProblem;
  readonly #lock = new KeyedMutex();

  constructor(options: KubernetesDriverOptions) {
    this.#o = options;
    this.#client = options.client;
    this.#clock = options.clock ?? systemClock;
    this.#network = { systemNamespace: defaultSystemNamespace, egress: [], ...options.network };
    this.#onProblem = options.onProblem ?? (() => undefined);
    this.#objects = new SuperObjects(this.#client);
    this.#cpuRequests = new CpuRequests({
      ...{ objects: this.#objects, clock: this.#clock, onProblem: this.#onProblem },
    });
    this.#events = new PodEvents({
      ...{ client: this.#client, clock: this.#clock, onProblem: this.#onProblem },
    });
  }

  async locate(id: string, options: LocateOptions): Promise<Location> {
    const hasStorage = this.#o.storage !== undefined;
    return this.#lock.run(id, options.signal, () =>
      locateControlPlane(this.#objects, id, { ...options, hasStorage }),
    );
  }

  async routeAddress(id: string, address: string, { signal }: { signal: AbortSignal }): Promise<boolean> {
    return this.#lock.run(id, signal, () =>
      routeToApiServers(this.#objects, id, { address, targetPort: apiServerBindPort, signal }),
    );
  }

  async unrouteAddress(id: string, { signal }: { signal: AbortSignal }): Promise<void> {
    await this.#lock.run(id, signal, () => removeRoute(this.#objects, id, signal));
  }

  async ensure(plan: ControlPlanePlan, options: EnsureOptions): Promise<void> {
    validatePlan(plan);
    await this.#lock.run(plan.id, options.signal, () => this.#ensure(plan, options));
  }

  async observe(id: string): Promise<ControlPlaneObservation> {
    const place = {
      namespace: namespaceOf(id),
      labelSelector: `${labelKeys.id}=${id},${labelKeys.component}`,
    };
    const [sets, pods] = await Promise.all([
      this.#client.list<StatefulSet>(resources.statefulSets, place),
      this.#client.list<Pod>(resources.pods, place),
    ]);
    const components = sets.items.map((set) =>
      observationOf(
        set,
        pods.items.filter(({ metadata }) => metadata.labels?.[labelKeys.component] === set.metadata.name),
      ),
    );
    return { id, components: components.sort((a, b) => (a.name < b.name ? -1 : 1)) };
  }

  watch(listener: ComponentListener): () => void {
    return this.#events.listen(listener);
  }

  async stop(id: string, options: StopOptions): Promise<void> {
    await this.#lock.run(id, options.signal, async () => {
      if (!(await ownNamespace(this.#objects, id, options.signal))) return;
      await this.#stop(id, options);
      if (options.forget !== true) return;
      // A volume stays until the control plane is removed.
      for (const name of options.components ?? [])
        await forgetComponent(this.#objects, id, name, { signal: options.signal, withAddress: true });
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
    const { items } = await this.#client.list(resources.namespaces, { labelSelector: labelKeys.id });
    return items
      .map(({ metadata }) => ({ name: metadata.name, id: metadata.labels?.[labelKeys.id] ?? '' }))
      .filter(({ name, id }) => isNamespaceOf(id, name))
      .map(({ id }) => id)
      .sort();
  }

  async *logs(id: string, component: string, options: LogOptions): AsyncGenerator<string> {
    const known = await this.#objects.statefulSets(id, options.signal);
    const names = known.map(({ metadata }) => metadata.name ?? '').sort();
    if (!names.includes(component)) throw unknownComponent({ id, component }, names);
    yield* componentLog(
      { client: this.#client, clock: this.#clock, id, component, onProblem: this.#onProblem },
      options,
    );
  }

  /** Looks away from what runs. */
  async close(): Promise<void> {
    await this.#events.close();
  }

  async #ensure(plan: ControlPlanePlan, options: EnsureOptions): Promise<void> {
    const { signal, onProgress, onReady, beforeWrite, surge, isWaking = false } = options;
    const { id, labels, components, weight = 1 } = plan;
    const virtualCluster = `${labels[labelKeys.namespace] ?? ''}/${labels[labelKeys.virtualCluster] ?? ''}`;
    await ensureNamespace(this.#objects, namespaceManifest(id, virtualCluster), signal);
    const existing = await this.#objects.statefulSets(id, signal);
    const before = (name: string): StatefulSet | undefined =>
      existing.find(({ metadata }) => metadata.name === name);
    const isWoken = (component: ComponentPlan): boolean =>
      isWaking && isStartedAgain(component, before(component.name));
    const services = components.flatMap((component) => {
      const service = serviceOf(id, component, isWoken(component));
      return service === undefined ? [] : [service];
    });
    // Before there is anything that they are about.
    await Promise.all([
      ...networkPolicies(plan, this.#network).map((policy) =>
        this.#objects.apply(resources.networkPolicies, policy, signal),
      ),
      ...services.map((service) => this.#objects.apply(resources.services, service, signal)),
    ]);
    const wanted = new Set(components.map(({ name }) => name));
    const others = existing.map(({ metadata }) => metadata.name ?? '').filter((name) => !wanted.has(name));
    if (others.length > 0) await this.#stop(id, { signal, components: others });
    await Promise.all(others.map((name) => forgetComponent(this.#objects, id, name, { signal })));
    await runInDependencyOrder(startOrder(components), signal, async (component, startSignal) => {
      onProgress?.(`starting ${component.name}`);
      await this.#start(id, component, before(component.name), {
        signal: startSignal,
        beforeWrite: () => beforeWrite?.(),
        onProgress: (...progress) => onProgress?.(...progress),
        isSurge: surge?.component === component.name,
        weight,
      });
      onProgress?.(`${component.name} is ready`);
      onReady?.(component.name);
      const service = serviceOf(id, component);
      if (service !== undefined && isWoken(component))
        await this.#objects.apply(resources.services, service, startSignal);
    });
  }

  async #start(
    id: string,
    component: ComponentPlan,
    before: StatefulSet | undefined,
    options: StartOptions,
  ): Promise<void> {
    const { signal, onProgress, beforeWrite, isSurge } = options;
    const objects = this.#objects;
    const place = { namespace: namespaceOf(id), name: component.name };
    const budget = disruptionBudget(id, component);
    beforeWrite();
    await objects.apply(resources.secrets, filesSecret(id, component), signal);
    if (budget !== undefined) await objects.apply(resources.podDisruptionBudgets, budget, signal);
    else if ((before?.spec?.replicas ?? 1) > 1) {
      await objects.delete(resources.podDisruptionBudgets, place, { signal });
    }
    let running = before === undefined ? [] : await objects.pods(id, component.name, signal);
    const manifest = this.#statefulSet(id, component, before);
    if (isSurge && isReplaced(component, manifest, before) && running.some(isReady)) {
      await this.#replace(id, component, manifest, options);
      running = await objects.pods(id, component.name, signal);
    }
    beforeWrite();
    // Before they can end of it.
    this.#events.ask(running);
    const written = await objects.apply<StatefulSet>(resources.statefulSets, manifest, signal);
    const isUnchanged = written.metadata.generation === before?.metadata.generation;
    if (isUnchanged) this.#events.askNoMore(running);
    // What was running as it should, and still does, need not be followed.
    if (isUnchanged && isRolloutComplete(written)) {
      await this.#cpuRequests.set(running, component, options);
      return;
    }
    const [client, clock] = [this.#client, this.#clock];
    await using view = this.#view(id);
    try {
      await awaitRollout(view, { id, component, written, client, clock, signal, onProgress });
      await this.#cpuRequests.set(view.pods(component.name), component, options);
    } finally {
      // Another number of them, for one, ends none of those that stay.
      this.#events.askNoMore(view.pods(component.name).filter((pod) => staysIn(component, pod)));
    }
  }

  /**
   * Has the one replica be as planned while a second one serves. The second one comes first: when it does not become
   * ready it goes again, and the first one was not touched. Where there is no node for it, nothing is done.
   */
  async #replace(
    id: string,
    component: ComponentPlan,
    manifest: KubeObject,
    { signal, onProgress, beforeWrite }: StartOptions,
  ): Promise<void> {
    const [client, clock, objects] = [this.#client, this.#clock, this.#objects];
    const apply = async (replicas: number, partition: number): Promise<StatefulSet> => {
      beforeWrite();
      const wanted = inReplacement(manifest, { replicas, partition });
      return objects.apply<StatefulSet>(resources.statefulSets, wanted, signal);
    };
    const rollout = { id, client, clock, signal, onProgress };
    let written = await apply(2, 1);
    await using view = this.#view(id);
    const ask = (ordinal: number): void =>
      this.#events.ask(
        view.pods(component.name).filter(({ metadata }) => metadata.name === `${component.name}-${ordinal}`),
      );
    try {
      await awaitRollout(view, { ...rollout, component, written, isSurge: true });
    } catch (error) {
      if (signal.aborted) throw error;
      const isWithoutNode = hasNoNode(view.pods(component.name));
      ask(1);
      await apply(1, 1);
      if (!isWithoutNode) throw error;
      onProgress(`there is no node for a second ${component.name}, so it is replaced with a pause`);
      return;
    }
    await clock.sleep(handOverPauseMs, signal);
    ask(0);
    written = await apply(2, 0);
    await awaitRollout(view, { ...rollout, component: { ...component, replicas: 2 }, written });
    await clock.sleep(handOverPauseMs, signal);
  }

  /** What a StatefulSet has for storage cannot be changed: it stays as it was when it was made. */
  #statefulSet(id: string, component: ComponentPlan, before: StatefulSet | undefined): KubeObject {
    const { imageRegistry, storage } = this.#o;
    if (before === undefined) return statefulSetManifest(id, component, { imageRegistry, storage });
    const claims = before.spec?.volumeClaimTemplates ?? [];
    if (claims.length === 0) return statefulSetManifest(id, component, { imageRegistry });
    const manifest = statefulSetManifest(id, component, {
      imageRegistry,
      storage: storage ?? { size: '1Gi' },
    });
    return { ...manifest, spec: { ...(manifest['spec'] as object), volumeClaimTemplates: claims } };
  }

  async #stop(id: string, options: StopOptions): Promise<void> {
    const [clock, objects, events] = [this.#clock, this.#objects, this.#events];
    await stopComponents({ clock, objects, events, onProblem: this.#onProblem }, id, options);
  }

  #view(id: string): NamespaceView {
    return new NamespaceView({
      ...{ client: this.#client, namespace: namespaceOf(id), clock: this.#clock, onProblem: this.#onProblem },
    });
  }
}

interface StartOptions {
  signal: AbortSignal;
  onProgress: NonNullable<EnsureOptions['onProgress']>;
  beforeWrite: () => void;
  /** It is replaced while a second one serves. */
  isSurge: boolean;
  weight: number;
}

/** Whether the pod of a component that keeps no data is to be another one. What an earlier version has made does not say. */
function isReplaced(component: ComponentPlan, wanted: KubeObject, before: StatefulSet | undefined): boolean {
  const { replicas = 1, data } = component;
  const is = before?.metadata.annotations?.[templateHashAnnotation];
  return (
    replicas === 1 &&
    data !== true &&
    (before?.spec?.replicas ?? 0) > 0 &&
    is !== undefined &&
    is !== wanted.metadata.annotations?.[templateHashAnnotation]
  );
}

/** A pod that is not being deleted and is not surplus. */
function staysIn({ name, replicas = 1 }: ComponentPlan, { metadata }: Pod): boolean {
  const ordinal = Number(metadata.name?.slice(name.length + 1));
  return metadata.deletionTimestamp === undefined && ordinal < replicas;
}

/**
 * Whether it is the one API server of a control plane that was stopped. Clients that ask it themselves whether it is ready
 * know before a kubelet, which asks once a second, and the way there takes its time to lead to one that is.
 */
function isStartedAgain({ name, replicas = 1 }: ComponentPlan, before: StatefulSet | undefined): boolean {
  return name === apiServer && replicas === 1 && before?.spec?.replicas === 0;
}

/** Of a component that listens. */
function serviceOf(id: string, component: ComponentPlan, isWaking = false): KubeObject | undefined {
  const [port] = component.ports.toSorted((a, b) => rank(component, a.name) - rank(component, b.name));
  return port && serviceManifest(id, component.name, port.port, isWaking);
}

/** The port that others dial has the component's name. */
function rank(component: ComponentPlan, port: string): number {
  return port === component.name ? 0 : 1;
}
