import { readdir, rm } from 'node:fs/promises';
import { resolve } from 'node:path';
import { type Clock, KeyedMutex, onAbort, systemClock } from '../../../kube/index.ts';

import { type Binaries, type BinaryName, type BinaryProgress, FetchShare } from '../../binaries/index.ts';

import {
  type ComponentPlan,
  type ControlPlanePlan,
  runInDependencyOrder,
  startOrder,
  validatePlan,
} from '../../control-plane/plan.ts';
import type { Cgroups } from '../../os/cgroups.ts';
import { CpuShares } from '../../os/cpu-shares.ts';
import type { EgressTarget } from '../../os/egress-filter.ts';
import { isAlive, processesWithVariable } from '../../os/process-identity.ts';
import {
  type ComponentListener,
  type ComponentObservation,
  type Confinement,
  type ControlPlaneDriver,
  type ControlPlaneObservation,
  componentHash,
  controlPlanesIn,
  type EnsureOptions,
  isControlPlaneName,
  type LogOptions,
  type OnProblem,
  type StopOptions,
} from '../driver.ts';
import { EgressConfinement, placeOnMachine } from '../egress-confinement.ts';
import { cannotWrite, unknownComponent } from '../errors.ts';
import { runningPids } from '../ports.ts';
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
import { ComponentPaths, readRecords } from './component-files.ts';
import {
  confined,
  LivenessPoll,
  markVariable,
  processSpec,
  type Spawn,
  shareOf,
  spawnChild,
} from './component-process.ts';
import { spawnByKeeper } from './keeper/process-keeper.ts';
import { readLog } from './logs.ts';
import { Supervisor } from './supervisor.ts';

interface ProcessDriverOptions {
  /** Directory of its own; one folder per control plane. */
  root: string;
  binaries: Pick<Binaries, 'ensure'>;
  clock?: Clock;
  /** Of which a few general variables (PATH, HOME, ...) are handed on. Default: this process's. */
  environment?: NodeJS.ProcessEnv;
  livenessIntervalMs?: number;
  /**
   * Unix socket of a `ProcessKeeper` that starts the processes, where they would not outlive this one otherwise. It
   * sees the same files and processes.
   */
  keeper?: string;
  /** How much the processes give way to others, 0 to 19. Default 0: they do not. */
  niceness?: number;
  /** By how much their timers may be late, so that those at rest wake less often. Default 0. */
  timerSlackMs?: number;
  /** With which the limits of plans are enforced. Default: nothing enforces them. */
  groups?: Cgroups | undefined;
  /**
   * Where control planes may open connections to on this machine, beyond what each of them needs; only where there is
   * no `egressFilterProblem`. Default: to any port.
   */
  egress?: readonly EgressTarget[] | undefined;
  onProblem?: OnProblem;
}

/**
 * Runs control planes as processes of this machine. They are detached: neither the end of the manager
 * nor that of its terminal touches them.
 */
export class ProcessDriver implements ControlPlaneDriver {
  readonly #root: string;
  readonly #binaries: Pick<Binaries, 'ensure'>;
  readonly #clock: Clock;
  readonly #environment: NodeJS.ProcessEnv;
  readonly #liveness: LivenessPoll;
  readonly #spawn: Spawn;
  readonly #groups: { made: Cgroups; prefix: string } | undefined;
  readonly #shares: CpuShares | undefined;
  /** By control group, without the prefix. */
  readonly #weights = new Map<string, number>();
  readonly #egress: EgressConfinement | undefined;
  readonly #lock = new KeyedMutex();
  readonly #listeners = new Set<ComponentListener>();
  /** Id to slot to the one that looks after it; only what this driver has started or adopted. */
  readonly #supervisors = new Map<string, Map<string, Supervisor>>();

  constructor(options: ProcessDriverOptions) {
    this.#root = resolve(options.root);
    this.#binaries = options.binaries;
    this.#clock = options.clock ?? systemClock;
    this.#environment = options.environment ?? process.env;
    this.#liveness = new LivenessPoll(options.livenessIntervalMs);
    const spawn = options.keeper === undefined ? spawnChild : spawnByKeeper(options.keeper);
    const prefix = `${placeOnMachine(this.#root).name}-`;
    this.#egress =
      options.egress &&
      new EgressConfinement(this.#root, options.egress, () => this.#allGroups(), options.onProblem);
    this.#groups = options.groups === undefined ? undefined : { made: options.groups, prefix };
    const niceness = options.niceness ?? 0;
    this.#spawn = confined(spawn, {
      niceness,
      timerSlackMs: options.timerSlackMs ?? 0,
      groups: this.#groups,
    });
    if (options.groups !== undefined)
      this.#shares = new CpuShares({
        groups: options.groups,
        prefix,
        full: shareOf(niceness),
        weightOf: (group) => this.#weights.get(group.slice(prefix.length)) ?? 1,
      });
  }

  get confinement(): Confinement[] {
    return [
      ...(this.#groups === undefined ? [] : (['resources'] as const)),
      ...(this.#egress === undefined ? [] : (['egress'] as const)),
    ];
  }

  /** Control groups in which nothing runs: its own, and those that other directories' drivers have left. */
  removeEmptyGroups(): void {
    this.#groups?.made.removeEmpty(this.#groups.prefix);
  }

  async ensure(plan: ControlPlanePlan, options: EnsureOptions): Promise<void> {
    validatePlan(plan);
    refuseSlotNames(plan);
    await this.#lock.run(plan.id, options.signal, () => this.#ensure(plan, options));
  }

  async observe(id: string): Promise<ControlPlaneObservation> {
    const place = this.#place(id);
    const bySlot = new Map<string, ComponentObservation>();
    for (const [slot, record] of await readRecords(place.run)) {
      const runs = await isAlive(record);
      bySlot.set(slot, {
        name: componentOf(slot),
        state: runs ? 'running' : 'stopped',
        ...(runs ? { pid: record.pid, startedAt: new Date(record.startedAt) } : {}),
        restarts: 0,
      });
    }
    for (const [slot, supervisor] of this.#supervisors.get(id) ?? []) bySlot.set(slot, supervisor.observe());
    return { id, components: observedComponents([...bySlot.values()]) };
  }

  watch(listener: ComponentListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  async stop(id: string, { signal, components, timeoutMs, forget }: StopOptions): Promise<void> {
    const place = this.#place(id);
    await this.#lock.run(id, signal, async () => {
      await this.#stop(id, components, signal, timeoutMs);
      if (forget !== true) return;
      for (const slot of (components ?? []).flatMap(slotsOf))
        for (const path of [place.files(slot), place.data(slot), place.log(slot)])
          await rm(path, { recursive: true, force: true });
    });
  }

  async provide(
    programs: readonly { name: BinaryName; version: string }[],
    { signal }: { signal: AbortSignal },
  ): Promise<void> {
    for (const program of programs) await this.#binaries.ensure(program, { signal });
  }

  async remove(id: string, { signal }: { signal: AbortSignal }): Promise<void> {
    const place = this.#place(id);
    await this.#lock.run(id, signal, async () => {
      await this.#stop(id, undefined, signal);
      this.#supervisors.delete(id);
      this.#removeGroups(`${id}-`);
      try {
        await rm(place.directory, { recursive: true, force: true });
      } catch (error) {
        throw cannotWrite({ id }, place.directory, error);
      }
    });
  }

  list(): Promise<string[]> {
    return controlPlanesIn(this.#root);
  }

  async *logs(id: string, component: string, options: LogOptions): AsyncGenerator<string> {
    const place = this.#place(id);
    const known = (await readdir(place.logs).catch(() => []))
      .filter((name) => name.endsWith('.log'))
      .map((name) => name.slice(0, -'.log'.length))
      .sort();
    if (!known.includes(component)) throw unknownComponent({ id, component }, known);
    yield* readLog(place.log(component), { ...options, clock: this.#clock });
  }

  /** Stops looking after what it has started, without touching any of it. */
  async close(): Promise<void> {
    this.#listeners.clear();
    this.#shares?.close();
    const all = [...this.#supervisors.values()].flatMap((supervisors) => [...supervisors.values()]);
    await Promise.all(all.map((supervisor) => supervisor.release()));
    this.#supervisors.clear();
    this.#liveness.close();
  }

  #place(id: string): ComponentPaths {
    return new ComponentPaths(this.#root, id);
  }

  async #ensure(asked: ControlPlanePlan, options: EnsureOptions): Promise<void> {
    const { signal, onProgress, onFetch, onReady, startAsFetched } = options;
    const { id } = asked;
    // One that only reads leaves the shares alone.
    this.#shares?.start();
    const place = this.#place(id);
    const { plan, surge } = await planSurge(asked, options.surge, (name) => this.#occupants(id, name));
    validatePlan(plan);
    const wanted = new Set(plan.components.map((component) => component.name));
    const known = [...(await this.#known(id)).keys()].map(componentOf);
    const others = known.filter((name) => !wanted.has(name));
    if (others.length > 0) await this.#stop(id, others, signal);
    const commands = this.#commands(plan.components, signal, onFetch);
    if (startAsFetched !== true) await allFetched(commands);
    // Until a program is built, the numbers of processes may come to belong to others.
    const marked = startAsFetched === true ? undefined : await this.#marked(place, [...wanted]);
    const earlierGroups = await this.#confinedGroups(id);
    const group = await this.#egress?.confine(plan);
    await runInDependencyOrder(startOrder(plan.components), signal, async (component, startSignal) => {
      const { name } = component;
      const command = await untilAborted(commands.get(name), startSignal);
      const isSurge = name === surge?.component;
      const occupants = await this.#occupants(id, name);
      const slots = chooseSlot(component, componentHash(component), occupants, isSurge);
      const left = marked ?? (await this.#marked(place, [name]));
      const target = processSpec({ ...component, name: slots.target }, command, place, {
        environment: this.#environment,
        marked: left.get(slots.target) ?? [],
        group,
      });
      this.#weights.set(`${id}-${slots.target}`, plan.weight ?? 1);
      await startInSlot({
        ...{ name, onProgress, onReady, clock: this.#clock, signal: startSignal },
        surge: isSurge ? surge : undefined,
        start: () => this.#supervisor(id, slots.target).ensure(target, startSignal),
        clearOthers: () => this.#clear(id, slots.others, startSignal),
        giveUp: async () => {
          await this.#clear(id, [slots.target], startSignal);
          if (group !== undefined && !earlierGroups.has(group)) await this.#egress?.forget([group]);
        },
      });
    });
    // At another port its components have another group.
    const groups = await this.#confinedGroups(id);
    await this.#egress?.forget([...earlierGroups].filter((each) => !groups.has(each)));
  }

  /** What is or was in the slots of a component. */
  async #occupants(id: string, name: string): Promise<Occupant[]> {
    const place = this.#place(id);
    const records = await readRecords(place.run);
    const marked = await this.#marked(place, [name]);
    const occupants: Occupant[] = [];
    for (const slot of slotsOf(name)) {
      const record = records.get(slot);
      if (record === undefined && !marked.has(slot)) continue;
      const runs = record !== undefined && record.stopping !== true && (await isAlive(record));
      occupants.push({ slot, hash: record?.argsHash ?? '', runs });
    }
    return occupants;
  }

  /** Ends what is in the slots, and leaves neither keys nor records. */
  async #clear(id: string, slots: readonly string[], signal: AbortSignal): Promise<void> {
    if (slots.length === 0) return;
    const place = this.#place(id);
    await this.#stopSlots(id, slots, signal);
    for (const slot of slots) await rm(place.files(slot), { recursive: true, force: true });
  }

  /** Stops the named components, or all of them; those that depend on others first. */
  async #stop(
    id: string,
    names: readonly string[] | undefined,
    signal: AbortSignal,
    timeoutMs?: number,
  ): Promise<void> {
    const known = await this.#known(id);
    const groups = names === undefined ? await this.#confinedGroups(id) : [];
    const marked = await this.#marked(this.#place(id), names);
    const all = new Set([...known.keys(), ...marked.keys()]);
    const chosen = [...all].filter((slot) => names === undefined || names.includes(componentOf(slot)));
    await this.#stopSlots(id, chosen, signal, timeoutMs);
    await this.#egress?.forget(groups);
  }

  async #stopSlots(
    id: string,
    slots: readonly string[],
    signal: AbortSignal,
    timeoutMs?: number,
  ): Promise<void> {
    const known = await this.#known(id);
    const marked = await this.#marked(this.#place(id), slots.map(componentOf));
    const reversed = slots.map((name) => ({
      name,
      dependsOn: slots.filter((other) => known.get(other)?.includes(componentOf(name))),
    }));
    await runInDependencyOrder(startOrder(reversed), signal, async ({ name }, stopSignal) => {
      await this.#supervisor(id, name).stop(marked.get(name) ?? [], stopSignal, timeoutMs);
      this.#supervisors.get(id)?.delete(name);
      this.#removeGroups(`${id}-${name}`);
      this.#weights.delete(`${id}-${name}`);
    });
  }

  async #confinedGroups(id: string): Promise<Set<number>> {
    const records = await readRecords(this.#place(id).run);
    return new Set([...records.values()].flatMap(({ group }) => (group === undefined ? [] : [group])));
  }

  /** Undefined where a process runs of which there is no record yet: with which group that is is not known. */
  async #allGroups(): Promise<Set<number> | undefined> {
    const groups = new Set<number>();
    const recorded = new Set<string>();
    for (const id of await this.list()) {
      const place = this.#place(id);
      for (const [slot, { group }] of await readRecords(place.run)) {
        recorded.add(place.mark(slot));
        if (group !== undefined) groups.add(group);
      }
    }
    const marks = processesWithVariable(markVariable, await runningPids());
    for (const [, mark] of marks)
      if (mark.startsWith(`${this.#root}/`) && !recorded.has(mark)) return undefined;
    return groups;
  }

  /** One whose last process is just going is left: an empty group costs nothing, and the next start takes it over. */
  #removeGroups(name: string): void {
    this.#groups?.made.remove(`${this.#groups.prefix}${name}`);
  }

  /** Slots with a record or a supervisor, and what each depends on. */
  async #known(id: string): Promise<Map<string, readonly string[]>> {
    const known = new Map<string, readonly string[]>();
    for (const [name, record] of await readRecords(this.#place(id).run)) known.set(name, record.dependsOn);
    for (const [name, supervisor] of this.#supervisors.get(id) ?? []) {
      if (!known.has(name)) known.set(name, supervisor.dependsOn);
    }
    return known;
  }

  #supervisor(id: string, name: string): Supervisor {
    const supervisors = this.#supervisors.get(id) ?? new Map<string, Supervisor>();
    this.#supervisors.set(id, supervisors);
    let supervisor = supervisors.get(name);
    if (supervisor === undefined) {
      supervisor = new Supervisor({
        id,
        name,
        place: this.#place(id),
        clock: this.#clock,
        liveness: this.#liveness,
        spawn: this.#spawn,
        // Not from inside the supervisor: a listener that throws must not be taken for a component that fails.
        emit: (what) =>
          queueMicrotask(() => {
            for (const listener of this.#listeners) listener(id, componentOf(name), what);
          }),
      });
      supervisors.set(name, supervisor);
    }
    return supervisor;
  }

  /** All are asked for at once, so that the time that is left is reported for all of them together. */
  #commands(
    components: readonly ComponentPlan[],
    signal: AbortSignal,
    onFetch: EnsureOptions['onFetch'],
  ): Map<string, Promise<string>> {
    const share = new FetchShare(this.#clock.monotonic());
    const onProgress = (news: BinaryProgress): void => {
      if (news.stage === 'note') return;
      share.add(news);
      if (!share.isComplete) onFetch?.(share.message(this.#clock.monotonic()));
    };
    const fetch = async ({ binary }: ComponentPlan): Promise<string> => {
      if ('command' in binary) return binary.command;
      const { path } = await this.#binaries.ensure(binary, { signal, onProgress });
      return path;
    };
    const commands = new Map(components.map((component) => [component.name, fetch(component)]));
    // The component that needs it hears of a failure.
    for (const command of commands.values()) command.catch(() => undefined);
    return commands;
  }

  /** Slot to the processes that carry its mark; of all components below this place when no names are given. */
  async #marked(place: ComponentPaths, names: readonly string[] | undefined): Promise<Map<string, number[]>> {
    const found = new Map<string, number[]>();
    const prefix = place.mark('');
    for (const [pid, mark] of processesWithVariable(markVariable, await runningPids())) {
      if (!mark.startsWith(prefix)) continue;
      const name = mark.slice(prefix.length);
      if (!isControlPlaneName(name)) continue;
      if (names !== undefined && !names.includes(componentOf(name))) continue;
      found.set(name, [...(found.get(name) ?? []), pid]);
    }
    return found;
  }
}

/** Throws the first failure when all have ended. */
async function allFetched(commands: ReadonlyMap<string, Promise<string>>): Promise<void> {
  const found = await Promise.allSettled(commands.values());
  const failed = found.find((result) => result.status === 'rejected');
  if (failed !== undefined) throw failed.reason;
}

/** Another component may fail while the program of this one is being built for many minutes. */
async function untilAborted(command: Promise<string> | undefined, signal: AbortSignal): Promise<string> {
  const aborted = Promise.withResolvers<never>();
  const release = onAbort(signal, () => aborted.reject(signal.reason));
  try {
    return await Promise.race([command ?? '', aborted.promise]);
  } finally {
    release();
  }
}
