import type { ConnectionOptions } from '../../../kube/index.ts';
import type { ChurnResult, ChurnWork } from './churn/protocol.ts';

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

export interface PodRun {
  /** Pod names begin with it. */
  podPrefix: string;
  loads: Load[];
  /** Pods with the token of their default service account mounted, as pods have that say nothing. */
  withTokens?: boolean;
  timeoutMs: number;
}

/** One pod that was deleted with grace; times in milliseconds since the first call. */
export interface Removal {
  target: string;
  /** When the delete call was sent. */
  deletedMs: number;
  /** When a watch on the same API showed that it is gone. Absent: not within the time limit. */
  goneMs?: number;
}

/** What can be asked of the generator, and what it answers. */
export interface Requests {
  /** Connects and watches; answers when every watch has its first list. */
  open: { ask: { targets: Target[] }; answer: null };
  run: { ask: PodRun; answer: RunResult };
  /** So many pods of a target that stay, made or deleted as needed; answers when all are Ready. */
  stand: { ask: { perTarget: number; inFlight: number; timeoutMs: number }; answer: null };
  /** Deletes every pod of one target by a call of its own, all at once. */
  remove: { ask: { target: string; timeoutMs: number }; answer: Removal[] };
  /** Deletes all pods of all targets, and what a churn has left; answers when the watches have seen the pods go. */
  clear: { ask: { timeoutMs: number }; answer: null };
  /** What churn needs that is not part of its work; answers when it is there. */
  furnish: { ask: { lanes: number; timeoutMs: number }; answer: null };
  churn: { ask: ChurnWork; answer: ChurnResult };
}

export type RequestName = keyof Requests;
export type Request = { [Name in RequestName]: { do: Name } & Requests[Name]['ask'] }[RequestName];
export type Answer = { result: Requests[RequestName]['answer'] } | { error: string };
