import type { ConnectionOptions } from '../../../../kube/index.ts';

export const churnKinds = ['pods', 'configmaps', 'services'] as const;
export type ChurnKind = (typeof churnKinds)[number];
export type ChurnVerb = 'create' | 'update' | 'delete';

/** Creates, updates and deletes at all open targets. Goes through JSON. */
export interface ChurnWork {
  /** The same seed at a target of the same place in the order is the same work. */
  seed: number;
  /** Over all targets; without, it goes on until `forMs` is over. */
  operations?: number;
  forMs?: number;
  /** Over all targets; without, as fast as it goes. */
  perSecond?: number;
  /** How many sequences each target has that run beside each other. */
  lanes: number;
  /** Where changes are to appear. Absent: at the target itself, when its API server has answered. */
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
