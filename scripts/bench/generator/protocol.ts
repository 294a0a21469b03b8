import type { ConnectionOptions } from '../../../kube/index.ts';

/** Where pods are created: one namespace of one API server. Goes through JSON. */
export interface Target {
  name: string;
  connection: ConnectionOptions;
  namespace: string;
}

/**
 * What one target gets. `burst`: all pods, with a number of calls in flight. `rate`: one every so
 * often, whatever becomes of the others. `sequence`: each one when the one before is Ready.
 */
export type Load = { target: string; pods: number } & (
  | { shape: 'burst'; inFlight: number }
  | { shape: 'rate'; perSecond: number }
  | { shape: 'sequence' }
);

/** One pod; times in milliseconds since the run began. */
export interface PodSample {
  target: string;
  /** When the create call was sent. */
  createdMs: number;
  /** When its answer came. Absent: the create failed. */
  acceptedMs?: number;
  /** When a watch on the same API showed the pod Ready. Absent: not within the time limit. */
  readyMs?: number;
}

export interface RunResult {
  pods: PodSample[];
  /** Creates that were sent again because the server asked for it. */
  retries: number;
  /** Messages of creates that failed for good, each once. */
  failures: string[];
}

export type Request =
  /** Connects and watches; answers when every watch has its first list. */
  | { do: 'open'; targets: Target[] }
  | { do: 'run'; podPrefix: string; loads: Load[]; timeoutMs: number }
  /** Deletes all pods of all targets; answers when the watches have seen them go. */
  | { do: 'clear'; timeoutMs: number }
  | { do: 'close' };

export type Answer = { result: RunResult | null } | { error: string };
