import {
  ApiError,
  applyMergePatch,
  ignoreNotFound,
  isAlreadyExists,
  isNotFound,
  type KubeClient,
  type KubeObject,
  printable,
  resources,
} from '../../kube/index.ts';
import type { KeyRef } from '../context.ts';
import { overQuotaStatus } from '../kinds/conditions.ts';
import type { Action, DownKind, Notice, SuperWrite, SyncedKind } from '../kinds/contract.ts';
import { isToBeReplaced, payloadSource, payloadSummary, withSummary } from '../kinds/payload.ts';
import { hasKnownFields } from '../kinds/registry.ts';
import { hasLostItsLabel, isOurs, originalUid } from '../mapping/labels.ts';
import { scrub } from '../mapping/scrub.ts';
import { contestedNotice, recreationNotice } from './contested-writes.ts';
import { done, isRecoverable, isRefusal, isTransientRefusal, type Outcome } from './controller.ts';
import { nameConflict, type Situation } from './decide.ts';
import { deleteObject, expectCreated, patchObject, refOf, type WriteTarget } from './guarded-writes.ts';
import type { DefinitionGuard } from './guards.ts';
import { keyId } from './keys.ts';
import type { TenantState } from './tenant-state.ts';

/** One reconcile: what it is about and what it writes with. */
export interface Work {
  readonly kind: SyncedKind;
  readonly situation: Situation;
  readonly tenant: TenantState;
  readonly signal: AbortSignal;
  /** For a kind that comes and goes: what its objects live by. */
  readonly definition?: DefinitionGuard | undefined;
}

/** Binds the tenant object to a node; labels and annotations of the Binding land on the pod. */
async function bindPod(
  work: Work,
  { node, annotations, labels }: Extract<Action, { do: 'bindTenant' }>,
): Promise<void> {
  const { tenantObject, key } = work.situation;
  if (tenantObject === undefined) return;
  const { name, namespace, uid, resourceVersion } = tenantObject.metadata;
  const binding = {
    apiVersion: 'v1',
    kind: 'Binding',
    metadata: { name, namespace, uid, annotations, ...(labels === undefined ? {} : { labels }) },
    target: { apiVersion: 'v1', kind: 'Node', name: node },
  };
  const { client, expectations } = work.tenant;
  const bound = await ignoreNotFound(
    client.createSubresource(resources.pods, refOf(tenantObject), 'binding', binding, {
      signal: work.signal,
    }),
  );
  if (bound !== undefined && resourceVersion !== undefined)
    expectations.tenant.expectReplaced(keyId(key), resourceVersion);
}

/** Called before and after each action. Must not throw. */
export interface ExecutorObserver {
  acting?(tenant: TenantState, key: KeyRef, action: Action): void;
  acted?(tenant: TenantState, key: KeyRef, action: Action): void;
}

/** What a gate is called for. */
export type GatedAction = Extract<
  Action,
  { do: 'createSuper' | 'patchSuper' | 'deleteSuper' | 'deleteTenant' }
>;

/**
 * Called before such an action of one kind is carried out. Returns the action, with what it lacked, or the outcome
 * that ends the reconcile instead, or that this action is left out and the others are carried out. Throws what a client
 * throws.
 */
export type ActionGate = (work: Work, action: GatedAction) => Promise<GatedAction | Outcome | Skip>;

/** `afterMs`: when to come back. */
interface Skip {
  readonly skip: true;
  readonly afterMs?: number;
}

interface Unsent {
  readonly unsent: Notice;
}

export interface ExecutorOptions {
  superClient: KubeClient;
  /** Whether a key that another one requires is in agreement. */
  isDependencyMet: (tenant: TenantState, key: KeyRef) => boolean;
  /** Queues a key at once. */
  enqueue: (tenant: TenantState, key: KeyRef) => void;
  /** Whether a super object has to wait, asked before it is made: its key is queued again when it need not. Throws what a client throws. */
  holdsBack?: ((work: Work) => Promise<boolean>) | undefined;
  /** By name of the kind. */
  gates?: ReadonlyMap<string, ActionGate> | undefined;
  /** For all kinds, asked before the kind's own. */
  quotaGate?: ActionGate | undefined;
  observer?: ExecutorObserver | undefined;
}

/** How long a write that may be refused is not tried again. */
const refusedForMs = 60_000;

/** Carries out the actions of one decision, in order, until one fails or asks to wait. */
export class Executor {
  readonly #options: ExecutorOptions;

  constructor(options: ExecutorOptions) {
    this.#options = options;
  }

  async run(actions: readonly Action[], work: Work): Promise<Outcome> {
    const { tenant, situation } = work;
    let later: Outcome = done;
    /**
     * Once the tenant object, or the super object, was written here, its cached resourceVersion is known to be old:
     * the UID alone guards.
     */
    let tenantWritten = false;
    let superWritten = false;
    let superRefused = false;
    for (const decided of actions) {
      let outcome: Outcome | undefined;
      if (superRefused && decided.do === 'patchSuper') continue;
      const action = await this.#approve(work, decided);
      if ('contested' in action) {
        later = { is: 'retry', code: 'contested' };
        continue;
      }
      if ('is' in action) return action;
      if ('skip' in action) {
        if (action.afterMs !== undefined) later = { is: 'later', afterMs: action.afterMs };
        continue;
      }
      if ('unsent' in action) {
        const { reason, message } = action.unsent;
        if (decided.do === 'createSuper') {
          await recordRefusal(work, action.unsent);
          return { is: 'refused', code: reason, message };
        }
        await recordNotice(work, action.unsent);
        // What comes up, and a deletion, do not wait for it; what goes by it does.
        superRefused = true;
        continue;
      }
      this.#options.observer?.acting?.(tenant, situation.key, action);
      switch (action.do) {
        case 'require':
          if (this.#waits(work, action.keys)) return done;
          break;
        case 'later':
          if (later.is !== 'retry') later = { is: 'later', afterMs: action.afterMs };
          break;
        case 'notice':
          if (action.isRefusal === true) {
            const afterMs = await recordRefusal(work, action.notice);
            if (afterMs > 0 && later.is !== 'retry') later = { is: 'later', afterMs };
          } else await recordNotice(work, action.notice);
          break;
        case 'createSuper':
          outcome = await this.#createSuper(work, action.object);
          break;
        case 'createTenant':
          outcome = await this.#createTenant(work, action.object);
          break;
        case 'patchSuper':
          outcome = await this.#patchSuper(work, action, superWritten);
          superWritten = true;
          break;
        case 'patchTenant':
          await patchObject(this.#tenantSide(work), situation.tenantObject, {
            ...action,
            uidOnly: tenantWritten,
          });
          tenantWritten = true;
          break;
        case 'bindTenant':
          await bindPod(work, action);
          tenantWritten = true;
          break;
        case 'deleteSuper':
          await deleteObject(this.#superSide(work), situation.superObject, action.gracePeriodSeconds);
          break;
        case 'deleteTenant':
          await deleteObject(this.#tenantSide(work), situation.tenantObject, action.gracePeriodSeconds);
          break;
      }
      if (outcome !== undefined) return outcome;
      this.#options.observer?.acted?.(tenant, situation.key, action);
    }
    return later;
  }

  /**
   * The super object is there, but not in the cache. If it is the tenant object's own and has merely lost the label
   * that we watch by, it gets it back; everything else shows in the cache sooner or later.
   */
  async restoreMarks(work: Work, live: KubeObject): Promise<Outcome> {
    const { kind, tenant, situation } = work;
    const { tenantObject } = situation;
    if (kind.direction === 'down' && tenantObject !== undefined && hasLostItsLabel(live, tenantObject)) {
      return this.#takeOver(kind, tenantObject, live, work);
    }
    if (isOurs(live, tenant.info)) this.#expectSuper(work, live);
    return { is: 'retry', code: 'stillThere' };
  }

  /** What is to be sent is validated before the gates, which reserve something for it, and as they have left it. */
  async #approve(
    work: Work,
    decided: Action,
  ): Promise<Action | Outcome | Skip | Unsent | { contested: true }> {
    if (decided.do === 'createSuper') {
      if ((await this.#options.holdsBack?.(work)) === true) return done;
      if (await this.#isMadeTooOften(work)) return { contested: true };
    }
    const unsent = refusalOf(work, decided);
    if (unsent !== undefined) return { unsent };
    if (await this.#isContested(work, decided)) return { contested: true };
    if (!isGated(decided)) return decided;
    const granted = await this.#ask(work, decided);
    if (granted === decided || 'is' in granted || 'skip' in granted) return granted;
    const changed = refusalOf(work, granted);
    return changed === undefined ? granted : { unsent: changed };
  }

  async #ask(work: Work, action: GatedAction): Promise<GatedAction | Outcome | Skip> {
    const granted =
      this.#options.quotaGate === undefined ? action : await this.#options.quotaGate(work, action);
    const gate = this.#options.gates?.get(work.kind.name);
    return gate === undefined || 'is' in granted || 'skip' in granted ? granted : gate(work, granted);
  }

  /** Sync rule `contested-writes`: whether a patch is held back, as something else undoes it again and again. */
  async #isContested(work: Work, action: Action): Promise<boolean> {
    if (action.do !== 'patchSuper' && action.do !== 'patchTenant') return false;
    const { tenant, situation } = work;
    // Without a UID, which the tenant's server may show another one of each time.
    const id = `${action.do} ${action.subresource ?? ''} ${keyId(situation.key)}`;
    // On its own side a tenant can undo each patch in a new way.
    const source = action.do === 'patchTenant' ? situation.superObject?.metadata.resourceVersion : undefined;
    const { held, begins } = tenant.contested.check(id, action.patch, source);
    if (begins) {
      const where = action.do === 'patchSuper' ? 'its copy in the cluster that it runs on' : 'it';
      await recordNotice(work, contestedNotice(where, action.patch));
    }
    return held;
  }

  /** The same of a super object whose name has had many. */
  async #isMadeTooOften(work: Work): Promise<boolean> {
    const { held, begins } = work.tenant.contested.checkCreation(keyId(work.situation.key));
    if (begins) await recordNotice(work, recreationNotice);
    return held;
  }

  /** Whether the key has to wait for one of these; then they are queued and it comes back after them. */
  #waits(work: Work, keys: readonly KeyRef[]): boolean {
    const missing = keys.filter((key) => !this.#options.isDependencyMet(work.tenant, key));
    for (const key of missing) {
      work.tenant.dependents.add(key, work.situation.key);
      this.#options.enqueue(work.tenant, key);
    }
    return missing.length > 0;
  }

  async #createSuper(work: Work, object: KubeObject): Promise<Outcome | undefined> {
    const { kind, signal } = work;
    try {
      const metadataOnly = payloadOf(kind) !== undefined;
      const cutManagedFields = hasKnownFields(kind);
      const created = await sendWithPrecondition(work, { creates: object }, () =>
        this.#options.superClient.create(kind.resource, object, { signal, metadataOnly, cutManagedFields }),
      );
      if (created === 'failed') return preconditionFailed;
      const { key, tenantObject } = work.situation;
      work.tenant.contested.created(keyId(key), tenantObject?.metadata.uid);
      this.#expectSuper(work, created);
      this.#wrotePayload(work, created, true);
      return undefined;
    } catch (error) {
      if (isAlreadyExists(error)) return this.#superExists(work, object);
      if (isNotFound(error)) return { is: 'retry', code: '404' };
      if (error instanceof ApiError && isTransientRefusal(error))
        return { is: 'retry', code: 'transient403' };
      return this.#recover(error, work, object);
    }
  }

  /** Asks the kind for a way round a refused write of the super object; throws the refusal if there is none. */
  async #recover(error: unknown, work: Work, attempted: KubeObject): Promise<Outcome> {
    const { kind, situation } = work;
    if (!isRecoverable(error) || kind.direction !== 'down' || situation.tenantObject === undefined)
      throw error;
    const refused = {
      code: error.code,
      reason: error.reason,
      message: error.message,
      causes: (error.status?.details?.causes ?? []).map((cause) => ({
        reason: cause.reason ?? '',
        message: cause.message ?? '',
        field: cause.field ?? '',
      })),
    };
    const way = kind.recover?.(refused, situation.tenantObject, attempted, situation.context);
    if (way === undefined) throw error;
    return this.run(way, work);
  }

  async #patchSuper(
    work: Work,
    action: Action & { do: 'patchSuper' },
    uidOnly: boolean,
  ): Promise<Outcome | undefined> {
    const { situation } = work;
    const { superObject } = situation;
    try {
      const send = () => patchObject(this.#superSide(work), superObject, { ...action, uidOnly });
      const { patch, subresource } = action;
      const written = await (superObject === undefined
        ? send()
        : sendWithPrecondition(work, { patches: superObject, patch, subresource }, send));
      if (written === 'failed') return preconditionFailed;
      if (written !== undefined && !uidOnly) this.#wrotePayload(work, written, action.isWhole === true);
      return undefined;
    } catch (error) {
      if (action.mayBeRefused === true && isRefusal(error)) return this.#refusedForNow(work, error);
      if (superObject !== undefined && isToBeReplaced(superObject) && isRefusal(error))
        return hasToBeRead(work);
      if (superObject === undefined || action.subresource !== undefined) throw error;
      return this.#recover(error, work, applyMergePatch(superObject, action.patch) as KubeObject);
    }
  }

  /**
   * Remembers which payload a copy has now: the tenant object's, or, of a write that was guarded by the version which was
   * decided upon, the same as before.
   */
  #wrotePayload({ kind, situation, tenant }: Work, written: KubeObject, isTenants: boolean): void {
    const { key, tenantObject, superObject } = situation;
    const payload = payloadOf(kind);
    const like = isTenants ? tenantObject : superObject;
    if (payload === undefined || like === undefined || payloadSource(like) === 'outdated') return;
    tenant.writtenPayloads.add(keyId(key), written, payloadSummary(like, payload));
  }

  async #refusedForNow(work: Work, error: ApiError): Promise<Outcome> {
    const message = scrub(error.status?.message ?? error.message, work.situation.context);
    await recordNotice(work, { type: 'Warning', reason: 'SyncRefused', message });
    return { is: 'later', afterMs: refusedForMs };
  }

  /** Never judges by the failed call: looks at what is there (sync rule `already-exists`). */
  async #superExists(work: Work, object: KubeObject): Promise<Outcome> {
    const { kind, tenant, situation, signal } = work;
    const { tenantObject } = situation;
    const live = await this.#options.superClient.get(kind.resource, refOf(object), { signal });
    if (isOurs(live, tenant.info)) {
      // The super object of an earlier tenant object goes when the cache shows it, past the same guards as any other.
      if (originalUid(live) !== tenantObject?.metadata.uid) return { is: 'retry', code: 'earlierObject' };
      this.#expectSuper(work, live);
      return done;
    }
    if (kind.direction === 'down' && tenantObject !== undefined) {
      const adopts = kind.adopts?.(live, tenantObject, situation.context) === true;
      if (adopts || hasLostItsLabel(live, tenantObject))
        return this.#takeOver(kind, tenantObject, live, work);
    }
    const conflict = nameConflict(kind.resource.kind, situation.key.name);
    await recordNotice(work, conflict);
    return { is: 'refused', code: 'notOurs', message: conflict.message };
  }

  /** Makes the super object carry our marks. */
  #takeOver(kind: DownKind, tenantObject: KubeObject, live: KubeObject, work: Work): Promise<Outcome> {
    const { situation } = work;
    const actions = kind
      .down(tenantObject, live, situation.context)
      .filter((action) => action.do !== 'deleteSuper');
    return this.run(actions, { ...work, situation: { ...situation, superObject: live } });
  }

  async #createTenant(work: Work, object: KubeObject): Promise<Outcome | undefined> {
    const { kind, tenant, signal } = work;
    try {
      const cutManagedFields = hasKnownFields(kind);
      const created = await tenant.client.create(kind.resource, object, { signal, cutManagedFields });
      expectCreated(this.#tenantSide(work), created, tenant.caches.of(kind));
      return undefined;
    } catch (error) {
      if (isAlreadyExists(error)) return { is: 'retry', code: 'exists' };
      throw error;
    }
  }

  #expectSuper(work: Work, created: KubeObject): void {
    expectCreated(this.#superSide(work), created, work.tenant.superCaches.of(work.kind));
  }

  #superSide(work: Work): WriteTarget {
    return targetOf(this.#options.superClient, work);
  }

  #tenantSide(work: Work): WriteTarget {
    return targetOf(work.tenant.client, work);
  }
}

function targetOf(client: KubeClient, { kind, tenant, situation, signal }: Work): WriteTarget {
  const { resource } = kind;
  return { client, resource, tenant, key: situation.key, signal, cutManagedFields: hasKnownFields(kind) };
}

/** An event on the tenant object. One that cannot be written holds nothing up. Rejects only when aborted. */
export async function recordNotice(work: Work, notice: Notice): Promise<void> {
  const { tenant, kind, situation, signal } = work;
  if (situation.tenantObject !== undefined)
    await tenant.recorder.tryRecord(kind.resource, situation.tenantObject, notice, signal);
}

/**
 * Why a tenant object has no super object: as an event on it and, where its kind has a place for that, in its status.
 * Neither holds anything up. Returns in how many ms to come back, as the status could not be written yet; 0: no need.
 * Rejects only when aborted.
 */
export async function recordRefusal(work: Work, notice: Notice): Promise<number> {
  await recordNotice(work, notice);
  const { kind, situation } = work;
  const { tenantObject, superObject, context } = situation;
  if (kind.direction !== 'down' || tenantObject === undefined || superObject !== undefined) return 0;
  const status = kind.refusedStatus?.(tenantObject, printable(notice.message, longestReason), context.nowMs);
  return status === undefined ? 0 : trySaying(work, status, { uid: tenantObject.metadata.uid });
}

/**
 * That a write of the super object waits for the quota: as `recordRefusal` has it, and in a condition where the kind
 * `hasConditions`. Returns and rejects as `recordRefusal` does.
 */
export async function recordOverQuota(work: Work, notice: Notice): Promise<number> {
  const afterMs = await recordRefusal(work, notice);
  const { kind, situation } = work;
  const { tenantObject, context } = situation;
  if (kind.direction !== 'down' || kind.hasConditions !== true || tenantObject === undefined) return afterMs;
  const { uid, resourceVersion } = tenantObject.metadata;
  const status = overQuotaStatus(tenantObject, printable(notice.message, longestReason), context.nowMs);
  // Its list of conditions has other writers.
  return status === undefined ? afterMs : trySaying(work, status, { uid, resourceVersion });
}

/**
 * Patches the status of the tenant object, beside an event that says the same. What it writes is not expected: a run that
 * waited for the cache to show it would lose its place in the line of the quota. Not written within 10 s of the last try,
 * whatever that came to: returns the rest of them.
 */
async function trySaying(
  { kind, situation, tenant, signal }: Work,
  status: object,
  guard: object,
): Promise<number> {
  const heldMs = tenant.statusRateLimiter.take(keyId(situation.key));
  if (heldMs > 0) return heldMs;
  const cutManagedFields = hasKnownFields(kind);
  const options = { type: 'merge', subresource: 'status', signal, cutManagedFields } as const;
  const { namespace, name } = situation.key;
  try {
    await tenant.client.patch(kind.resource, { namespace, name }, { metadata: guard, status }, options);
  } catch (error) {
    // A conflict brings the key back.
    if (signal.aborted) throw error;
  }
  return 0;
}

const longestReason = 4_096;

/** Of a write of the super object: why it is not sent (sync rule `validated-writes`). */
function refusalOf({ kind, situation }: Work, action: Action): Notice | undefined {
  if (kind.direction !== 'down' || kind.validate === undefined) return undefined;
  const { superObject, context } = situation;
  if (action.do === 'createSuper') return kind.validate({ creates: action.object }, context);
  if (action.do !== 'patchSuper' || superObject === undefined) return undefined;
  const { patch, subresource } = action;
  return kind.validate({ patches: superObject, patch, subresource }, context);
}

/** What was decided holds no longer: decided again. */
const preconditionFailed: Outcome = { is: 'retry', code: 'isolation' };

/** Sends a write of the super object, unless its precondition has failed (`DownKind.precondition`). Throws what `send` throws. */
function sendWithPrecondition<T extends KubeObject | undefined>(
  { kind, tenant }: Work,
  write: SuperWrite,
  send: () => Promise<T>,
): Promise<T> | 'failed' {
  // Nothing may be awaited between this look and the registration.
  const precondition = kind.direction === 'down' ? kind.precondition?.(write, tenant.context()) : undefined;
  if (precondition === 'failed') return 'failed';
  if (precondition !== 'met') return send();
  if ('creates' in write) return tenant.ownPolicyWrites.during(write.creates, undefined, send);
  const pod = applyMergePatch(write.patches, { metadata: write.patch['metadata'] }) as KubeObject;
  return tenant.ownPolicyWrites.during(pod, write.patches.metadata.resourceVersion, send);
}

/** It may be immutable, or of another type: what is read of it says how it becomes the tenant object's. */
function hasToBeRead({ kind, situation, tenant }: Work): Outcome {
  const { superObject } = situation;
  const payload = payloadOf(kind);
  const shown = superObject && tenant.superCaches.of(kind).get(refOf(superObject));
  if (shown !== undefined && payload !== undefined)
    withSummary(shown, payloadSummary(shown, payload), 'outdated');
  return { is: 'retry', code: 'unread' };
}

function payloadOf(kind: SyncedKind): readonly string[] | undefined {
  return kind.direction === 'down' ? kind.payload : undefined;
}

function isGated(action: Action): action is GatedAction {
  return (
    action.do === 'createSuper' ||
    action.do === 'patchSuper' ||
    action.do === 'deleteSuper' ||
    action.do === 'deleteTenant'
  );
}
