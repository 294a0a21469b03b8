import type { BinaryName } from '../binaries/index.ts';

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
  /** Whom its components may talk to beside each other; for drivers that can see to it. */
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
  /** Kubernetes quantities, as in a container. Processes are not limited by them. */
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

export interface PlanPort {
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
