import type { BinaryName } from '../binaries/index.ts';
import { invalidPlan } from './template.ts';

/**
 * What one control plane consists of, as plain data. The same plan is carried out by every driver,
 * so it names no path, process or container: `${files}` and `${data}` in arguments, environment and
 * file contents stand for the component's read-only files and its own writable directory, and the
 * driver fills them in.
 */
export interface ControlPlanePlan {
  /** Root of all names; a DNS label. */
  id: string;
  labels: Record<string, string>;
  components: ComponentPlan[];
  /**
   * Share of the processors beside other control planes, in proportion to their weights; 1 when absent. A change restarts
   * nothing.
   */
  weight?: number;
  /** What its components may connect to besides each other; for drivers that can enforce it. */
  network?: PlanNetwork;
}

export interface PlanNetwork {
  /** UID of the VirtualCluster: the super cluster's namespaces with the tenant's pods bear it as a label. */
  tenantUid: string;
  /** The tenant's service addresses. */
  serviceCIDR: string;
  /** The shared datastore, as a URL; absent when the control plane has one of its own. */
  datastore?: string;
}

export interface ComponentPlan {
  /** Unique in its plan; a DNS label. */
  name: string;
  binary: { name: BinaryName; version: string } | { command: string };
  args: string[];
  env: Record<string, string>;
  files: PlanFile[];
  ports: PlanPort[];
  /** Without one, a component counts as ready once it has stayed up for a moment. */
  probe?: PlanProbe;
  /** Components of the same plan that must be ready before this one starts. */
  dependsOn: string[];
  /** How long a polite request to stop may take before the component is killed. */
  stopTimeoutMs: number;
  /** How many of it run at once, where the driver can; one when absent. */
  replicas?: number;
  /** Kubernetes quantities, as in a container. The process driver limits by them where it may make control groups. */
  resources?: PlanResources;
  /** What it writes to its own directory has to outlive it. */
  data?: boolean;
}

export interface PlanResources {
  requests?: Record<string, string>;
  limits?: Record<string, string>;
}

export interface PlanFile {
  /** Relative to the component's files; forward slashes, no `..`. */
  path: string;
  content: string;
  mode: number;
}

interface PlanPort {
  name: string;
  port: number;
  /** Address that the component binds; all of them when absent. */
  host?: string;
}

export interface PlanProbe {
  scheme: 'https' | 'http';
  host: string;
  port: number;
  path: string;
  /** File paths, relative to the component's files. */
  caFile?: string;
  certFile?: string;
  keyFile?: string;
  /** Longest time from start to ready. */
  timeoutMs: number;
}

const dnsLabel = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;

/**
 * Throws `InvalidPlan`, naming every problem, unless a driver can carry the plan out: names that are
 * safe as file and object names, files that stay inside their directory, dependencies that exist and
 * form no circle, no port claimed twice.
 */
export function validatePlan(plan: ControlPlanePlan): void {
  const problems: string[] = [];
  if (!dnsLabel.test(plan.id)) problems.push(`id ${JSON.stringify(plan.id)} is not a DNS label`);
  const names = new Set<string>();
  const ports = new Map<number, string>();
  for (const component of plan.components) {
    if (!dnsLabel.test(component.name))
      problems.push(`component ${component.name} has no DNS label for a name`);
    if (names.has(component.name)) problems.push(`component ${component.name} is there twice`);
    names.add(component.name);
    for (const file of component.files) {
      if (!staysInside(file.path))
        problems.push(`file ${file.path} of ${component.name} leaves its directory`);
    }
    for (const { port } of component.ports) {
      const other = ports.get(port);
      if (other !== undefined) problems.push(`port ${port} is claimed by ${other} and by ${component.name}`);
      ports.set(port, component.name);
    }
  }
  for (const component of plan.components) {
    for (const dependency of component.dependsOn) {
      if (!names.has(dependency))
        problems.push(`${component.name} depends on ${dependency}, which is not there`);
    }
  }
  if (problems.length === 0 && startOrder(plan.components).length < plan.components.length) {
    problems.push('components depend on each other in a circle');
  }
  if (problems.length > 0) throw invalidPlan(plan.id, problems);
}

/**
 * Components so ordered that each comes after all that it depends on. Names that are not in the list
 * are ignored; members of a circle are left out.
 */
export function startOrder<T extends Pick<ComponentPlan, 'name' | 'dependsOn'>>(
  components: readonly T[],
): T[] {
  const names = new Set(components.map((component) => component.name));
  const placed = new Set<string>();
  const order: T[] = [];
  let rest = [...components];
  while (rest.length > 0) {
    const ready = rest.filter((c) => c.dependsOn.every((name) => placed.has(name) || !names.has(name)));
    if (ready.length === 0) break;
    for (const component of ready) placed.add(component.name);
    order.push(...ready);
    rest = rest.filter((component) => !placed.has(component.name));
  }
  return order;
}

function staysInside(path: string): boolean {
  if (path === '' || path.startsWith('/') || path.includes('\\')) return false;
  return path.split('/').every((part) => part !== '' && part !== '.' && part !== '..');
}

/**
 * Runs a task for each step as soon as the steps that it depends on are done, side by side where
 * possible. `steps` come in an order that has dependencies first. The first failure is thrown, after
 * the other tasks have been aborted and have ended; steps that wait are not run then.
 */
export async function runInDependencyOrder<T extends Pick<ComponentPlan, 'name' | 'dependsOn'>>(
  steps: readonly T[],
  signal: AbortSignal,
  task: (step: T, signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const abort = new AbortController();
  const either = AbortSignal.any([signal, abort.signal]);
  const running = new Map<string, Promise<void>>();
  let failure: { error: unknown } | undefined;
  for (const step of steps) {
    const before = step.dependsOn.map((name) => running.get(name));
    const run = async () => {
      await Promise.all(before);
      either.throwIfAborted();
      await task(step, either);
    };
    const done = run().catch((error: unknown) => {
      failure ??= { error };
      abort.abort();
      throw error;
    });
    done.catch(() => undefined);
    running.set(step.name, done);
  }
  await Promise.allSettled(running.values());
  if (failure !== undefined) throw failure.error;
}
