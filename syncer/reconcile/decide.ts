import type { KubeObject, MergePatch } from '../../kube/index.ts';
import type { KeyRef, SyncContext } from '../context.ts';
import { withinQuotaStatus } from '../kinds/conditions.ts';
import type { Action, DownKind, Notice, SyncedKind, UpKind } from '../kinds/contract.ts';
import { namespaceKind } from '../kinds/namespaces.ts';
import { warning } from '../kinds/validation.ts';
import { isOurs, originalUid } from '../mapping/labels.ts';
import type { Tombstone } from './tenant-state.ts';

/** What the caches show of one key, and what the engine remembers of it. */
export interface Situation {
  readonly key: KeyRef;
  readonly tenantObject: KubeObject | undefined;
  readonly superObject: KubeObject | undefined;
  /** Watched deletions that have not been carried over. */
  readonly tenantTombstone: Tombstone | undefined;
  readonly superTombstone: Tombstone | undefined;
  /** UID of a counterpart that we created and that the cache does not show yet. */
  readonly createdUid: string | undefined;
  /**
   * For namespaced kinds: whether the super namespace is there and belongs to the tenant object's namespace as it is now;
   * `unwanted`: there never will be one.
   */
  readonly namespaceReady: boolean | 'unwanted';
  /** The tenant object's payload was not read, because it cannot be carried over yet. */
  readonly isPartial?: boolean;
  readonly context: SyncContext;
}

/**
 * What has to hold before the actions may be carried out, because they destroy something on the word
 * of a cache: the server of `side` has the expected identity, and, if `live`, answers 404 for the object.
 */
export interface DeleteCheck {
  readonly side: 'tenant' | 'super';
  readonly live: boolean;
  /** The deletion of the counterpart was not watched: a mass-deletion guard that is closed holds this back. */
  readonly unwatched: boolean;
}

export interface Decision {
  readonly actions: readonly Action[];
  readonly check?: DeleteCheck;
}

const nothing: Decision = { actions: [] };
/** Our own object will show in the cache, and that queues the key; a look from time to time costs next to nothing. */
const notShownYet: Decision = { actions: [{ do: 'later', afterMs: 1_000 }] };

function notice(said: Notice): Decision {
  return { actions: [{ do: 'notice', notice: said }] };
}

/** An object of the super cluster that is none of ours has the name. */
export function nameConflict(objectKind: string, name: string): Notice {
  return warning(
    'NameConflict',
    `${objectKind} ${name} cannot be synced: its place in the cluster is taken by an object that Skerry did not make`,
  );
}

/** Sync rule `four-cases` for an object that is born in the tenant. Pure. */
export function decideDown(kind: DownKind, situation: Situation): Decision {
  const decision = fourCases(kind, situation);
  const status = kind.hasConditions === true ? outlivedCondition(situation, decision) : undefined;
  if (status === undefined) return decision;
  const removal: Action = { do: 'patchTenant', subresource: 'status', patch: { status } };
  return { ...decision, actions: [...decision.actions, removal] };
}

/** Once nothing is to be written any more, nothing waits for the quota either. */
function outlivedCondition({ tenantObject }: Situation, { actions }: Decision): MergePatch | undefined {
  if (tenantObject === undefined || tenantObject.metadata.deletionTimestamp !== undefined) return undefined;
  return actions.every((action) => action.do === 'notice') ? withinQuotaStatus(tenantObject) : undefined;
}

function fourCases(kind: DownKind, situation: Situation): Decision {
  const { tenantObject, superObject, context } = situation;
  if (tenantObject === undefined)
    return superObject === undefined ? nothing : tenantGone(kind, situation, superObject);
  if (superObject === undefined) return superMissing(kind, situation, tenantObject);

  if (!isOurs(superObject, context.tenant)) {
    if (kind.adopts?.(superObject, tenantObject, context) === true) {
      return { actions: kind.down(tenantObject, superObject, context) };
    }
    if (kind.admit?.(tenantObject, context).wanted === false) return nothing;
    return notice(nameConflict(kind.resource.kind, situation.key.name));
  }

  // Made from an earlier object of this name (sync rule `recreation`).
  if (originalUid(superObject) !== tenantObject.metadata.uid) {
    if (superObject.metadata.deletionTimestamp !== undefined) return nothing;
    const wasSeenGoing = situation.tenantTombstone !== undefined;
    return {
      actions: [{ do: 'deleteSuper', ...graceOf(kind, wasSeenGoing) }],
      check: { side: 'tenant', live: kind.deleteNeedsLiveCheck === true, unwatched: false },
    };
  }

  const admission = kind.admit?.(tenantObject, context);
  if (admission?.wanted === false) {
    const notices: Action[] =
      admission.notice === undefined ? [] : [{ do: 'notice', notice: admission.notice }];
    if (admission.keep === true) {
      return { actions: [...notices, ...(kind.up?.(tenantObject, superObject, context) ?? [])] };
    }
    if (superObject.metadata.deletionTimestamp !== undefined) return { actions: notices };
    // What other objects want decides here: while too many of those are missing, it proves nothing.
    return {
      actions: [...notices, { do: 'deleteSuper' }],
      check: { side: 'tenant', live: false, unwatched: true },
    };
  }
  const down =
    superObject.metadata.deletionTimestamp === undefined ? kind.down(tenantObject, superObject, context) : [];
  const up = kind.up?.(tenantObject, superObject, context) ?? [];
  return guarded(down.length === 0 ? up : [...down, ...up]);
}

/**
 * Sync rule `policy-over-holds`: what the operator's policy demands of the super object of a key, where it is ours.
 * Nothing of it is founded on the absence of anything in the tenant: a tenant that shows too little loses nothing by it.
 * Pure.
 */
export function policyActions(
  kind: DownKind,
  { tenantObject, superObject, context }: Situation,
): readonly Action[] {
  if (superObject === undefined || superObject.metadata.deletionTimestamp !== undefined) return [];
  if (kind.enforce === undefined || !isOurs(superObject, context.tenant)) return [];
  const isOriginal = tenantObject !== undefined && tenantObject.metadata.uid === originalUid(superObject);
  const actions = kind.enforce(superObject, isOriginal ? tenantObject : undefined, context);
  return actions.map((action) => (action.do === 'patchSuper' ? { ...action, isDemanded: true } : action));
}

/** A delete that a kind asks for needs the identity check too, even while both objects are there. */
function guarded(actions: readonly Action[]): Decision {
  for (const action of actions) {
    if (action.do === 'deleteSuper')
      return { actions, check: { side: 'tenant', live: false, unwatched: false } };
    if (action.do === 'deleteTenant')
      return { actions, check: { side: 'super', live: false, unwatched: false } };
  }
  return { actions };
}

function tenantGone(kind: DownKind, situation: Situation, superObject: KubeObject): Decision {
  if (!isOurs(superObject, situation.context.tenant)) return nothing;
  const tombstone = situation.tenantTombstone;
  const watched = tombstone !== undefined && tombstone.uid === originalUid(superObject);
  const grace = graceOf(kind, watched);
  if (superObject.metadata.deletionTimestamp !== undefined && !shortens(superObject, grace)) return nothing;
  return {
    actions: [{ do: 'deleteSuper', ...grace }],
    check: { side: 'tenant', live: !watched || kind.deleteNeedsLiveCheck === true, unwatched: !watched },
  };
}

/** With which grace the super object of a tenant object goes that is gone; none given: its own. */
function graceOf(kind: DownKind, wasSeenGoing: boolean): { gracePeriodSeconds?: number } {
  return kind.hasGrace === true && wasSeenGoing ? { gracePeriodSeconds: 0 } : {};
}

/** Whether a second delete would end the super object sooner than the one that is under way. */
function shortens(
  superObject: KubeObject,
  { gracePeriodSeconds: wanted }: { gracePeriodSeconds?: number },
): boolean {
  const present = superObject.metadata.deletionGracePeriodSeconds;
  return wanted !== undefined && present !== undefined && wanted < present;
}

function superMissing(kind: DownKind, situation: Situation, tenantObject: KubeObject): Decision {
  const { context } = situation;
  if (situation.createdUid !== undefined) return notShownYet;
  const last = situation.superTombstone?.object;
  const gone = kind.superGone?.(tenantObject, context, last);
  if (gone !== undefined) {
    if (gone.length === 0) return nothing;
    const watched = last !== undefined && originalUid(last) === tenantObject.metadata.uid;
    const leaving = tenantObject.metadata.deletionTimestamp !== undefined;
    // A super object that has only lost its label is reported as deleted too. One that was on its way out goes in
    // any case.
    const expected = watched && leaving && last.metadata.deletionTimestamp !== undefined;
    return { actions: gone, check: { side: 'super', live: !expected, unwatched: !watched && !leaving } };
  }
  if (tenantObject.metadata.deletionTimestamp !== undefined) return nothing;
  const admission = kind.admit?.(tenantObject, context);
  if (admission?.wanted === false) {
    return admission.notice === undefined
      ? nothing
      : { actions: [{ do: 'notice', notice: admission.notice, isRefusal: true }] };
  }
  if (situation.namespaceReady === 'unwanted') return nothing;
  const requires: KeyRef[] = [];
  if (situation.key.namespace !== undefined && !situation.namespaceReady) {
    requires.push({ kind: namespaceKind.name, name: situation.key.namespace });
  }
  requires.push(...(kind.requires?.(tenantObject, context) ?? []));
  const actions: Action[] = requires.length === 0 ? [] : [{ do: 'require', keys: requires }];
  if (situation.isPartial === true) return { actions: [...actions, ...notShownYet.actions] };
  actions.push(creation(kind, tenantObject, context));
  if (admission?.notice !== undefined) actions.push({ do: 'notice', notice: admission.notice });
  return { actions };
}

/** The super object is made when it is asked for: a pod that has to wait first is decided upon more than once. */
function creation(kind: DownKind, tenantObject: KubeObject, context: SyncContext): Action {
  let made: KubeObject | undefined;
  return {
    do: 'createSuper',
    get object() {
      made ??= kind.toSuper(tenantObject, context);
      return made;
    },
  };
}

/** The same cases the other way round, for an object that is born in the super cluster. Pure. */
export function decideUp(kind: UpKind, situation: Situation): Decision {
  const { tenantObject, superObject, context, key } = situation;
  const ref = superObject === undefined ? undefined : kind.tenantRef(superObject, context);
  const belongs = ref !== undefined && ref.name === key.name && ref.namespace === key.namespace;

  if (superObject === undefined || !belongs) {
    if (tenantObject === undefined || originalUid(tenantObject) === undefined) return nothing;
    const actions = withoutOriginal(kind, tenantObject, context);
    if (actions.length === 0) return nothing;
    const watched = superObject !== undefined || situation.superTombstone?.uid === originalUid(tenantObject);
    return { actions, check: { side: 'super', live: superObject === undefined, unwatched: !watched } };
  }
  if (tenantObject === undefined) {
    if (situation.createdUid !== undefined) return notShownYet;
    if (superObject.metadata.deletionTimestamp !== undefined) return nothing;
    return { actions: [{ do: 'createTenant', object: kind.toTenant(superObject, context) }] };
  }
  const mark = originalUid(tenantObject);
  if (mark === undefined) {
    if (kind.adopts?.(tenantObject, superObject, context) === true)
      return guarded(kind.up(tenantObject, superObject, context));
    const message = `the cluster offers a ${kind.resource.kind} named ${key.name}; yours of the same name is left alone`;
    return notice(warning('NameConflict', message));
  }
  if (mark !== superObject.metadata.uid) {
    const actions = withoutOriginal(kind, tenantObject, context);
    if (actions.length === 0) return nothing;
    return { actions, check: { side: 'super', live: false, unwatched: false } };
  }
  return guarded(kind.up(tenantObject, superObject, context));
}

/** What becomes of a copy whose original is gone, or is another one by now. */
function withoutOriginal(kind: UpKind, copy: KubeObject, context: SyncContext): readonly Action[] {
  if (kind.superGone !== undefined) return kind.superGone(copy, context);
  return copy.metadata.deletionTimestamp === undefined ? [{ do: 'deleteTenant' }] : [];
}

/**
 * How the two sides of a key disagree.
 *
 * - `missing-in-super`, `missing-in-tenant`: there is an original, and no copy of it.
 * - `orphan`: there is a copy, and its original is gone or has no place here.
 * - `differs`: both are there, and one of them is not as it should be.
 */
export type Drift = 'missing-in-super' | 'missing-in-tenant' | 'orphan' | 'differs';

/** `undefined`: both sides agree, as far as can be told. */
export function driftOf(kind: SyncedKind, situation: Situation, decision: Decision): Drift | undefined {
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
