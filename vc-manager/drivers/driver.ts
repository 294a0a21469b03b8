import { createHash } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import type { VirtualClusterStatus } from '../../api/virtual-cluster.ts';
import type { BinaryName } from '../binaries/index.ts';
import type { ComponentPlan, ControlPlanePlan } from '../control-plane/plan.ts';
import type { insufficientMemory } from './errors.ts';

const dnsLabel = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;

/** Whether a control plane, or a component of one, can be called so. */
export function isControlPlaneName(name: string): boolean {
  return dnsLabel.test(name);
}

/** The control planes that have a folder here, sorted; none when there is no such directory. */
export async function controlPlanesIn(root: string): Promise<string[]> {
  const entries = await readdir(root, { withFileTypes: true }).catch(() => []);
  return entries
    .filter((entry) => entry.isDirectory() && isControlPlaneName(entry.name))
    .map((entry) => entry.name)
    .sort();
}

/**
 * Digest of everything that makes a restart necessary when it changes. Where a program was found and where its files
 * lie does not matter: a moved cache or another registry is no reason to interrupt a tenant.
 */
export function componentHash(component: ComponentPlan): string {
  const { binary, args, env, files } = component;
  const content = [
    'name' in binary ? [binary.name, binary.version] : [binary.command],
    args,
    Object.entries(env).sort(([a], [b]) => (a < b ? -1 : 1)),
    files.map(({ path, content, mode }) => [path, content, mode]).sort(),
  ];
  return createHash('sha256').update(JSON.stringify(content)).digest('hex');
}

/** Called with failures outside the calls of a driver, which are tried again: `what` says in a few words what failed. */
export type OnProblem = (error: unknown, what: string) => void;

export interface EnsureOptions {
  signal: AbortSignal;
  /** `reason`: what it waits for is known to be that. */
  onProgress?: ((message: string, reason?: typeof insufficientMemory) => void) | undefined;
  /** Programs that are not there yet are being fetched or built, which may take many minutes. */
  onFetch?: (message: string) => void;
  /**
   * A component is started as soon as its own program is there and what it depends on is ready, while others are still
   * being built. Absent: nothing is started or stopped before all programs are there.
   */
  startAsFetched?: boolean;
  /** Called for each component as soon as it is ready; the others may not be. */
  onReady?: (component: string) => void;
  /**
   * Throws when nothing may be changed any more. A driver whose control planes any manager may reach asks before each
   * change: it may have stood still since it was called.
   */
  beforeWrite?: () => void;
  /**
   * The new one is started beside the earlier one, which is stopped when the new one is ready; when it does not become
   * ready, it is the new one that is stopped. Absent: the earlier one is stopped first.
   */
  surge?: SurgeUpdate | undefined;
  /** It was asleep, and clients ask its API server itself whether it is ready: they may be led to it before. */
  isWaking?: boolean;
}

/** How one component is replaced without downtime: the new one is started before the earlier one is stopped. */
export interface SurgeUpdate {
  component: string;
  /**
   * The same plan with other ports for the component, so that it can be started beside the one that runs. Asked for
   * only when one runs and is not as planned.
   */
  plan(): Promise<ControlPlanePlan>;
  /** Has clients go to the new one, which is ready. The earlier one is stopped when this has resolved. */
  handOver(): Promise<void>;
}

/** How long the earlier one serves on when clients go to the new one: they hear of it a moment later. */
export const handOverPauseMs = 1_000;

export type ComponentState = 'running' | 'stopped' | 'failed' | 'starting';

export interface ComponentObservation {
  name: string;
  state: ComponentState;
  pid?: number | undefined;
  startedAt?: Date | undefined;
  /** How often it was started again after it had died, since `ensure` last found it well. */
  restarts: number;
  lastExit?: ComponentExit | undefined;
}

export interface ComponentExit {
  at: Date;
  /** Unknown for a process that another manager had started. */
  code?: number | undefined;
  signal?: string | undefined;
}

export interface ControlPlaneObservation {
  id: string;
  components: ComponentObservation[];
}

export type ComponentEvent = 'exited' | 'started' | 'ready';

export type ComponentListener = (id: string, component: string, what: ComponentEvent) => void;

export interface StopOptions {
  signal: AbortSignal;
  /** Only these; all of them when absent. */
  components?: readonly string[];
  /** Instead of what the plan says: how long the polite request may take before the component is killed. */
  timeoutMs?: number;
  /** Leaves nothing of the named ones, but perhaps a volume. */
  forget?: boolean;
}

export interface LogOptions {
  follow?: boolean;
  /** Only so many lines of what is there already; all when absent. */
  tailLines?: number | undefined;
  signal: AbortSignal;
}

export interface LocateOptions {
  signal: AbortSignal;
  /** The control plane has an etcd of its own, which needs an address too. */
  withDatastore?: boolean;
}

/** Where an etcd of a control plane's own is reached. */
export interface DatastoreLocation {
  host: string;
  port: number;
  /** More names of the same place, for its certificate. */
  names: readonly string[];
  /** False: what it holds goes with the program that holds it. */
  isKept: boolean;
  /** Where it listens; absent: where the API server does. */
  bindAddress?: string;
  /** Numbers for the port names of a template. */
  ports: Readonly<Record<string, number>>;
}

/** Where the parts of a control plane are reached, and where they have to listen for that. */
export interface Location {
  /** An address; it also stands in the tenant's own endpoints. */
  host: string;
  port: number;
  /** More names of the same place, for its certificate. */
  names: readonly string[];
  bindAddress: string;
  bindPort: number;
  datastore?: DatastoreLocation;
}

/** `resources`: memory and CPU. `egress`: where its connections lead on the machine that it runs on. */
export type Confinement = NonNullable<VirtualClusterStatus['confinement']>[number];

/** Carries plans out. What it has started outlives it, and a new driver on the same place takes it over. */
export interface ControlPlaneDriver {
  /**
   * Any manager may carry plans out, wherever it runs, and what one has begun another one can finish. Absent or false:
   * what runs is looked after by one manager at a time, the one that leads.
   */
  readonly isShared?: boolean;
  /** What it confines control planes in. Absent: others see to that, and it cannot tell. */
  readonly confinement?: readonly Confinement[];
  /**
   * Where the API server of a control plane is reached, from the manager too; makes what that needs, and answers the
   * same for as long as the control plane is not removed. Absent: on the manager's machine, at a port that it chooses.
   */
  locate?(id: string, options: LocateOptions): Promise<Location>;
  /**
   * Has one more address lead to the API servers of a control plane that was located, in the place of any earlier one:
   * that at which the tenant's pods look for theirs. False when the address is taken. Absent: pods are led to
   * where the API server is located.
   */
  routeAddress?(id: string, address: string, options: { signal: AbortSignal }): Promise<boolean>;
  /** Gives the address of `lead` back: others can have it when this has resolved. There with `lead`. */
  unrouteAddress?(id: string, options: { signal: AbortSignal }): Promise<void>;
  /** Has these programs where it starts them from, before they are needed. Absent: it sees to that when it starts them. */
  provide?(
    programs: readonly { name: BinaryName; version: string }[],
    options: { signal: AbortSignal },
  ): Promise<void>;
  /**
   * Makes the control plane be as planned, and returns when every component is ready: starts what is
   * missing or died, restarts what changed, adopts what runs, stops what the plan no longer names.
   * From then on a component that dies is started again, with growing pauses. Rejects with a
   * DriverError; what was started by then goes on.
   */
  ensure(plan: ControlPlanePlan, options: EnsureOptions): Promise<void>;
  observe(id: string): Promise<ControlPlaneObservation>;
  /**
   * Tells of every start, of everything that has become ready, waited for or not, and of every exit that
   * was not requested. Returns how to stop listening.
   */
  watch(listener: ComponentListener): () => void;
  /** Stops components, those that depend on others first. Data and files stay. */
  stop(id: string, options: StopOptions): Promise<void>;
  /** Stops everything and removes every trace: files, data, logs. Nothing to do is no error. */
  remove(id: string, options: { signal: AbortSignal }): Promise<void>;
  /** Ids that have at least a file here. */
  list(): Promise<string[]>;
  /** Lines, without their line ends. */
  logs(id: string, component: string, options: LogOptions): AsyncIterable<string>;
}
