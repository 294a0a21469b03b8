import type { SyncedKind } from '../kinds/index.ts';
import type { Decision, Situation } from './decide.ts';

/**
 * How the two sides of a key disagree.
 *
 * - `missing-in-super`, `missing-in-tenant`: there is an original, and no copy of it.
 * - `orphan`: there is a copy, and its original is gone or has no place here.
 * - `differs`: both are there, and one of them is not as it should be.
 */
export type Finding = 'missing-in-super' | 'missing-in-tenant' | 'orphan' | 'differs';

/** `undefined`: both sides agree, as far as can be told. */
export function findingOf(kind: SyncedKind, situation: Situation, decision: Decision): Finding | undefined {
  const { tenantObject, superObject } = situation;
  if (!decision.actions.some((action) => action.do !== 'notice' && action.do !== 'later')) return undefined;

  if (kind.direction === 'down') {
    if (tenantObject === undefined) return 'orphan';
    return superObject === undefined ? 'missing-in-super' : 'differs';
  }
  if (tenantObject === undefined) return 'missing-in-tenant';
  return superObject === undefined || kind.tenantRef(superObject, situation.context) === undefined
    ? 'orphan'
    : 'differs';
}

/** Objects of such a kind can be compared with our own last write, or not at all. */
export function isUnwatched(kind: SyncedKind): boolean {
  return kind.direction === 'up' && !kind.watchTenant;
}
