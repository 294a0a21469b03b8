import type { ControlPlanePlan } from '../control-plane/index.ts';

export interface EnsureOptions {
  signal: AbortSignal;
  onProgress?: (message: string) => void;
  /** Called for each component as soon as it is ready; the others may not be. */
  onReady?: (component: string) => void;
}

export type ComponentState = 'running' | 'stopped' | 'failed' | 'starting';

export interface ComponentObservation {
  name: string;
  state: ComponentState;
  pid?: number;
  startedAt?: Date;
  /** How often it was started again after it had died, since `ensure` last found it well. */
  restarts: number;
  lastExit?: ComponentExit;
}

export interface ComponentExit {
  at: Date;
  /** Unknown for a process that another manager had started. */
  code?: number;
  signal?: string;
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
}

export interface LogOptions {
  follow?: boolean;
  /** Only so many lines of what is there already; all when absent. */
  tailLines?: number;
  signal: AbortSignal;
}

/** Carries plans out. What it has started outlives it, and a new driver on the same place takes it over. */
export interface ControlPlaneDriver {
  /**
   * Makes the control plane be as planned, and returns when every component is ready: starts what is
   * missing or died, restarts what changed, adopts what runs, stops what the plan no longer names.
   * From then on a component that dies is started again, with growing pauses. Rejects with a
   * DriverError; what was started by then goes on.
   */
  ensure(plan: ControlPlanePlan, options: EnsureOptions): Promise<void>;
  observe(id: string): Promise<ControlPlaneObservation>;
  /**
   * Tells of every start, of everything that has become ready, whoever waits for it or not, and of every exit that
   * nobody asked for. Returns how to stop listening.
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
