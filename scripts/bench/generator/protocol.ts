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
  /** Creates that were repeated after 429 or 5xx. */
  retries: number;
  /** Messages of creates that failed finally, each once. */
  failures: string[];
}

export interface PodRun {
  /** Pod names begin with it. */
  podPrefix: string;
  loads: Load[];
  /** Pods with the token of their default service account, as pods have by default. */
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

/** Requests to the generator and their responses. */
export interface Requests {
  /** Connects and watches; answers when every watch has its first list. */
  open: { request: { targets: Target[] }; response: null };
  run: { request: PodRun; response: RunResult };
  /** Creates or deletes pods until each target has `perTarget`; answers when all are Ready. */
  ensureStandingPods: { request: { perTarget: number; inFlight: number; timeoutMs: number }; response: null };
  /** Deletes all pods of one target at once, each by its own call. */
  remove: { request: { target: string; timeoutMs: number }; response: Removal[] };
  /** Deletes all pods of all targets, and what a churn has left; answers when the watches have seen the pods go. */
  clear: { request: { timeoutMs: number }; response: null };
  /** Creates the pods that use the ConfigMaps of `churn`; answers when they are Ready. */
  prepareChurn: { request: { lanes: number; timeoutMs: number }; response: null };
  churn: { request: ChurnWork; response: ChurnResult };
}

export type RequestName = keyof Requests;
export type Request = { [Name in RequestName]: { do: Name } & Requests[Name]['request'] }[RequestName];
export type Reply = { result: Requests[RequestName]['response'] } | { error: string };

export const churnKinds = ['pods', 'configmaps', 'services'] as const;
export type ChurnKind = (typeof churnKinds)[number];
export type ChurnVerb = 'create' | 'update' | 'delete';

/** Creates, updates and deletes at all open targets. Goes through JSON. */
export interface ChurnWork {
  /** The same seed makes the same work at targets in the same order. */
  seed: number;
  /** Over all targets; without, it goes on until `forMs` is over. */
  operations?: number;
  forMs?: number;
  /** Over all targets; without, as fast as it goes. */
  perSecond?: number;
  /** Concurrent sequences of operations at each target. */
  lanes: number;
  /** Where changes have to appear. Absent: an operation counts as done when the target's API server has answered. */
  otherSide?: { connection: ConnectionOptions; labelSelector: string };
  /** From the last call until all has been shown. */
  timeoutMs: number;
}

/** One call; times in milliseconds since the first. */
export interface Operation {
  kind: ChurnKind;
  verb: ChurnVerb;
  sentMs: number;
  /** Absent: it failed. */
  answeredMs?: number;
  /**
   * When a watch on the other side showed it, or something later of the same object. Absent: never, as
   * when an object was deleted before it got there.
   */
  shownMs?: number;
}

/** Objects of the work that are there at its end. */
export type Counts = Record<ChurnKind, number>;

export interface ChurnResult {
  operations: Operation[];
  retries: number;
  failures: string[];
  /** When all calls were answered, and when both sides agreed in addition. */
  answeredMs: number;
  agreedMs?: number;
  counts: { own: Counts; other?: Counts };
  /** Objects that only one side had, or in another state, when time was up; 0 when both agree. */
  differences: number;
}
