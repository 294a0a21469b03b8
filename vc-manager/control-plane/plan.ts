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
