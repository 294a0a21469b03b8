import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { type Clock, KeyedMutex, systemClock } from '../../../kube/index.ts';
import {
  type ComponentPlan,
  type ControlPlanePlan,
  runInDependencyOrder,
  startOrder,
  validatePlan,
} from '../../control-plane/plan.ts';
import type { EgressTarget } from '../../os/egress-filter.ts';
import {
  type ComponentListener,
  type Confinement,
  type ControlPlaneDriver,
  type ControlPlaneObservation,
  componentHash,
  controlPlanesIn,
  type EnsureOptions,
  type LogOptions,
  type OnProblem,
  type StopOptions,
} from '../driver.ts';
import { EgressConfinement } from '../egress-confinement.ts';
import { cannotWrite } from '../errors.ts';
import {
  chooseSlot,
  componentOf,
  type Occupant,
  observedComponents,
  planSurge,
  refuseSlotNames,
  slotsOf,
  startInSlot,
} from '../slots.ts';
import { type ComponentWatch, followEngine, Watches } from './component-events.ts';
import { type ContainerSpec, composeFile, containerSpec, projectOf, stopOrder } from './compose-file.ts';
import {
  type ComponentContainer,
  ContainerCommands,
  findContainers,
  groupsInUse,
  observation,
  provideImages,
  readContainerLog,
} from './containers.ts';
import { Docker } from './docker.ts';

interface ComposeDriverOptions {
  /** Directory of its own; one folder per control plane, with its Compose file. */
  root: string;
  /** In place of registry.k8s.io. */
  imageRegistry?: string | undefined;
  clock?: Clock;
  /** Of the `docker` commands. Default: this process's. */
  environment?: NodeJS.ProcessEnv;
  /**
   * Where control planes may open connections to on this machine, beyond what each of them needs; only where there is
   * no `egressFilterProblem`. Default: to any port.
   */
  egress?: readonly EgressTarget[] | undefined;
  onProblem?: OnProblem;
}

/**
 * Runs control planes as Docker Compose projects on this machine's Docker engine, with the host's network. The engine
 * keeps the containers running, whether or not there is a manager.
 */
export class ComposeDriver implements ControlPlaneDriver {
  readonly #root: string;
  readonly #registry: string | undefined;
  readonly #clock: Clock;
  readonly #docker: Docker;
  readonly #commands: ContainerCommands;
  readonly #watches: Watches;
  readonly #egress: EgressConfinement | undefined;
  readonly #onProblem: OnProblem | undefined;
  readonly #lock = new KeyedMutex();
  readonly #listeners = new Set<ComponentListener>();
  #following: { abort: AbortController; done: Promise<void> } | undefined;

  constructor(options: ComposeDriverOptions) {
    this.#root = resolve(options.root);
    this.#registry = options.imageRegistry;
    this.#clock = options.clock ?? systemClock;
    this.#docker = new Docker(options.environment ?? process.env);
    this.#commands = new ContainerCommands(this.#docker);
    this.#onProblem = options.onProblem;
    this.#egress =
      options.egress &&
      new EgressConfinement(this.#root, options.egress, () => groupsInUse(this.#docker), options.onProblem);
    this.#watches = new Watches({
      clock: this.#clock,
      // Not from inside a watch: a listener that throws must not be taken for a component that fails.
      emit: (...event) =>
        queueMicrotask(() => {
          for (const listener of this.#listeners) listener(...event);
        }),
      tail: (id, component) => this.#commands.tail(id, component),
    });
  }

  get confinement(): Confinement[] {
    return ['resources', ...(this.#egress === undefined ? [] : (['egress'] as const))];
  }

  async ensure(plan: ControlPlanePlan, options: EnsureOptions): Promise<void> {
    validatePlan(plan);
    refuseSlotNames(plan);
    await this.#docker.check();
    this.#follow();
    await this.#lock.run(plan.id, options.signal, () => this.#ensure(plan, options));
  }

  async observe(id: string): Promise<ControlPlaneObservation> {
    projectOf(id);
    const containers = await findContainers(this.#docker, id);
    const observed = [...containers.values()].map((container) =>
      observation(container, this.#watches.find(id, container.slot)),
    );
    return { id, components: observedComponents(observed) };
  }

  watch(listener: ComponentListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  async stop(id: string, { signal, components, timeoutMs, forget }: StopOptions): Promise<void> {
    projectOf(id);
    await this.#lock.run(id, signal, async () => {
      const all = await findContainers(this.#docker, id, signal);
      const chosen = [...all.values()].filter(({ slot }) => components?.includes(componentOf(slot)) ?? true);
      await this.#stop(id, chosen, signal, timeoutMs);
      if (forget !== true) return;
      for (const container of chosen) await this.#commands.remove(id, container, signal);
      await this.#commands.removeData(id, components ?? [], signal);
    });
  }

  async remove(id: string, { signal }: { signal: AbortSignal }): Promise<void> {
    projectOf(id);
    await this.#lock.run(id, signal, async () => {
      const all = await findContainers(this.#docker, id, signal);
      await this.#stop(id, [...all.values()], signal);
      await this.#commands.removeAll(id, signal);
      await this.#egress?.forget(groupsOf(all));
      const directory = join(this.#root, id);
      try {
        await rm(directory, { recursive: true, force: true });
      } catch (error) {
        throw cannotWrite({ id }, directory, error);
      }
    });
  }

  list(): Promise<string[]> {
    return controlPlanesIn(this.#root);
  }

  async *logs(id: string, component: string, options: LogOptions): AsyncGenerator<string> {
    projectOf(id);
    yield* readContainerLog(this.#docker, { id, component }, { ...options, clock: this.#clock });
  }

  /** Stops looking, without touching anything that runs. */
  async close(): Promise<void> {
    this.#listeners.clear();
    this.#watches.close();
    this.#following?.abort.abort();
    await this.#following?.done;
    this.#following = undefined;
  }

  async #ensure(asked: ControlPlanePlan, options: EnsureOptions): Promise<void> {
    const { signal, onProgress, onReady } = options;
    const { id } = asked;
    const containers = await findContainers(this.#docker, id, signal);
    const occupantsOf = (name: string): Occupant[] =>
      slotsOf(name).flatMap((slot) => {
        const found = containers.get(slot);
        return found === undefined ? [] : [{ slot, hash: found.hash, runs: found.status === 'running' }];
      });
    const { plan, surge } = await planSurge(asked, options.surge, async (name) => occupantsOf(name));
    validatePlan(plan);
    const places = new Map(
      plan.components.map((component) => {
        const isSurge = component.name === surge?.component;
        const occupants = occupantsOf(component.name);
        return [component.name, chooseSlot(component, componentHash(component), occupants, isSurge)];
      }),
    );
    const group = await this.#egress?.confine(plan);
    const inSlot = (component: ComponentPlan): ContainerSpec =>
      containerSpec(
        id,
        { ...component, name: places.get(component.name)?.target ?? '' },
        { registry: this.#registry, group, weight: plan.weight },
      );
    const targets = plan.components.map(inSlot);
    const earlierGroups = groupsOf(containers);
    const file = await this.#write(plan, targets);
    const changed = targets.filter((target) => !isOf(containers.get(target.component.name), target));
    await provideImages(this.#docker, id, changed, { signal, onProgress });
    await this.#clear(
      id,
      [...containers.keys()].filter((slot) => !places.has(componentOf(slot))),
      signal,
    );
    await runInDependencyOrder(startOrder(plan.components), signal, async (component, startSignal) => {
      const { name } = component;
      const target = inSlot(component);
      const slot = target.component.name;
      const others = places.get(name)?.others ?? [];
      await startInSlot({
        ...{ name, onProgress, onReady, clock: this.#clock, signal: startSignal },
        surge: name === surge?.component ? surge : undefined,
        start: () => this.#ensureComponent(id, file, target, containers.get(slot), startSignal),
        clearOthers: () => this.#clear(id, others, startSignal),
        giveUp: async () => {
          await this.#clear(id, [slot], startSignal);
          if (group !== undefined && !earlierGroups.has(group)) await this.#egress?.forget([group]);
        },
      });
    });
    // At another port its components have another group.
    await this.#egress?.forget([...earlierGroups].filter((each) => each !== group));
  }

  /** Ends and removes the containers in these slots, and their files. */
  async #clear(id: string, slots: readonly string[], signal: AbortSignal): Promise<void> {
    if (slots.length === 0) return;
    const found = await findContainers(this.#docker, id, signal);
    const containers = slots.flatMap((slot) => found.get(slot) ?? []);
    await this.#stop(id, containers, signal);
    for (const container of containers) await this.#commands.remove(id, container, signal);
  }

  async #ensureComponent(
    id: string,
    file: string,
    target: ContainerSpec,
    container: ComponentContainer | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    const watch = this.#watches.get(id, target.component.name);
    const commands = this.#commands;
    if (container !== undefined && isOf(container, target)) {
      if (container.status === 'paused') await commands.unpause(id, container, signal);
      // The engine lets one that keeps exiting wait for up to a minute.
      if (container.status === 'restarting') await commands.stop(id, container, signal);
      await this.#share(id, target, container, watch, signal);
      if (container.status === 'running' || container.status === 'paused') {
        watch.restartsBefore = container.restarts;
        watch.adopt(target, container.startedAt ?? new Date(this.#clock.now()));
      } else {
        await commands.checkPorts(id, target);
        watch.restartsBefore = 0;
        watch.expectStart(target);
        await commands.start(id, container, signal);
        watch.hasStarted();
      }
    } else {
      const end = async (): Promise<void> => {
        watch.end();
        if (container !== undefined) await commands.stop(id, container, signal);
      };
      // Else its files are in the volume that is about to be filled.
      const isFirst = container?.hash === target.hash;
      if (isFirst) await end();
      await commands.fillVolumes(id, target, signal);
      if (container !== undefined) {
        if (!isFirst) await end();
        await commands.remove(id, container, signal, target.volumes.files);
      }
      await commands.checkPorts(id, target);
      watch.restartsBefore = 0;
      watch.expectStart(target);
      await commands.up(id, file, target, signal);
      watch.hasStarted();
    }
    await watch.ready(signal);
  }

  /** It runs no worse with an earlier share, so that a failure is no reason not to start it, and is told once. */
  async #share(
    id: string,
    { component, cpuShares }: ContainerSpec,
    container: ComponentContainer,
    watch: Pick<ComponentWatch, 'refusedShare'>,
    signal: AbortSignal,
  ): Promise<void> {
    if (cpuShares === undefined || cpuShares === container.cpuShares) return;
    try {
      await this.#commands.setCpuShares(id, container, cpuShares, signal);
      watch.refusedShare = undefined;
    } catch (error) {
      signal.throwIfAborted();
      const refused = `${container.containerId} ${cpuShares}`;
      if (watch.refusedShare === refused) return;
      watch.refusedShare = refused;
      this.#onProblem?.(
        error,
        `cannot set the share of processors of ${componentOf(component.name)} of ${id}`,
      );
    }
  }

  async #stop(
    id: string,
    containers: readonly ComponentContainer[],
    signal: AbortSignal,
    timeoutMs?: number,
  ): Promise<void> {
    const byName = new Map(containers.map((container) => [container.slot, container]));
    const steps = containers.map(({ slot, dependsOn }) => ({ name: slot, dependsOn }));
    await runInDependencyOrder(stopOrder(steps), signal, async ({ name }, stopSignal) => {
      this.#watches.end(id, name);
      await this.#commands.stop(id, byName.get(name) as ComponentContainer, stopSignal, timeoutMs);
    });
  }

  /** Writes the Compose file where it can be looked at, and gives its path. */
  async #write(plan: ControlPlanePlan, targets: readonly ContainerSpec[]): Promise<string> {
    const directory = join(this.#root, plan.id);
    const path = join(directory, 'compose.yaml');
    try {
      await mkdir(directory, { recursive: true, mode: 0o700 });
      await writeFile(path, composeFile(plan, targets), { mode: 0o600 });
    } catch (error) {
      throw cannotWrite({ id: plan.id }, path, error);
    }
    return path;
  }

  #follow(): void {
    if (this.#following !== undefined) return;
    const abort = new AbortController();
    const tell = this.#watches.onEvent.bind(this.#watches);
    const done = followEngine(this.#docker, { clock: this.#clock, signal: abort.signal, tell });
    this.#following = { abort, done };
  }
}

function isOf(container: ComponentContainer | undefined, target: ContainerSpec): boolean {
  if (container?.hash !== target.hash) return false;
  const isConfined = target.group === undefined || container.group === target.group;
  return isConfined && container.status !== 'dead' && container.status !== 'removing';
}

function groupsOf(containers: ReadonlyMap<string, ComponentContainer>): Set<number> {
  return new Set([...containers.values()].flatMap(({ group }) => group ?? []));
}
