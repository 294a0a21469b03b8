/**
 * How an object stands apart between a tenant and the super cluster.
 *
 * - `missing-in-super`, `missing-in-tenant`: there is an original, and no copy of it.
 * - `orphan`: there is a copy, and its original is gone or has no place here.
 * - `differs`: both are there, and one of them is not as it should be.
 * - `refused`: it is not carried over, by a rule.
 */
export type DifferenceKind = 'missing-in-super' | 'missing-in-tenant' | 'orphan' | 'differs' | 'refused';

/**
 * What becomes of it: the syncer writes it in a moment (`queued`); it waits for something else (`waiting`), for the
 * operator (`held`), or for a change of the object (`refused`); the syncer tries again (`failing`); the syncer has not
 * noticed it yet, and its next comparison of all objects finds it (`unnoticed`).
 */
export type DifferenceState = 'queued' | 'waiting' | 'held' | 'refused' | 'failing' | 'unnoticed';

/** One object, in the tenant's names. */
export interface Difference {
  /** Plural of its resource. */
  readonly kind: string;
  readonly namespace?: string;
  readonly name: string;
  readonly is: DifferenceKind;
  readonly state: DifferenceState;
  readonly why: string;
  /** Paths of what differs; values are not told. */
  readonly fields?: readonly string[];
}

/** What `/debug/differences` of a syncer answers for a tenant. */
export interface DifferenceReport {
  /** `namespace/name` of the VirtualCluster. */
  readonly tenant: string;
  /** Objects that were looked at, by the syncer's caches. */
  readonly compared: number;
  /** All that differ; those beyond a limit are counted and not listed. */
  readonly total: number;
  readonly differences: readonly Difference[];
}
