import {
  ApiError,
  applyMergePatch,
  isAlreadyExists,
  isNotFound,
  type KubeClient,
  type KubeObject,
} from '../../kube/index.ts';
import {
  type Action,
  type DownKind,
  type KeyRef,
  type Notice,
  type SyncedKind,
  superResourceOf,
} from '../kinds/index.ts';
import { isOurs, scrub, tenantUidOf, uidMark } from '../mapping/index.ts';
import { copyContents, hasObjects } from './contents.ts';
import { keyId } from './key.ts';
import { done, isRecoverable, isRefusal, isTransientRefusal, type Outcome } from './outcome.ts';
import type { PodAdmission } from './pod-admission.ts';
import { releaseReservation } from './reservations.ts';
import type { TenantState } from './tenant-state.ts';
import { issueTokens } from './tokens.ts';
import { bindPod, deleteObject, patchObject, refOf, rememberCreated, type Work } from './writes.ts';

/** How long a copy that could not be deleted is left alone. */
const lookAgainMs = 30_000;

/** What is told of actions. Must not throw. */
export interface ExecutorObserver {
  acting?(tenant: TenantState, key: KeyRef, action: Action): void;
  acted?(tenant: TenantState, key: KeyRef, action: Action): void;
}

export interface ExecutorOptions {
  superClient: KubeClient;
  /** Whether a key that another one requires is in agreement. */
  isSettled: (tenant: TenantState, key: KeyRef) => boolean;
  /** Queues a key at once. */
  enqueue: (tenant: TenantState, key: KeyRef) => void;
  /** Undefined: pods go to the scheduler as they come. */
  admission?: PodAdmission | undefined;
  observer?: ExecutorObserver;
}

/** How long a write that may be refused is not tried again. */
const refusedForMs = 60_000;

const tooManyUnschedulable: Notice = {
  type: 'Warning',
  reason: 'TooManyUnschedulable',
  message:
    'so many of your pods find no node that this one waits until some of them do, or are deleted; see their FailedScheduling events',
};

/** Carries out the actions of one decision, in order, until one fails or asks to wait. */
export class Executor {
  readonly #superClient: KubeClient;
  readonly #isSettled: ExecutorOptions['isSettled'];
  readonly #enqueue: ExecutorOptions['enqueue'];
  readonly #admission: PodAdmission | undefined;
  readonly #observer: ExecutorObserver;

  constructor(options: ExecutorOptions) {
    this.#superClient = options.superClient;
    this.#isSettled = options.isSettled;
    this.#enqueue = options.enqueue;
    this.#admission = options.admission;
    this.#observer = options.observer ?? {};
  }

  async run(actions: readonly Action[], work: Work): Promise<Outcome> {
    const { tenant, situation } = work;
    let later: Outcome = done;
    /** Once T, or S, was written here, its cached resourceVersion is known to be old: the UID alone guards. */
    let tenantWritten = false;
    let superWritten = false;
    for (const action of actions) {
      let outcome: Outcome | undefined;
      if (action.do === 'createSuper' && !(await this.#isAdmitted(work))) return done;
      this.#observer.acting?.(tenant, situation.key, action);
      switch (action.do) {
        case 'require':
          if (this.#waits(work, action.keys)) return done;
          break;
        case 'later':
          later = { is: 'later', afterMs: action.afterMs };
          break;
        case 'notice':
          await this.#notice(work, action.notice);
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
          await patchObject(tenant.client, work, situation.tenantObject, {
            ...action,
            uidOnly: tenantWritten,
          });
          tenantWritten = true;
          // Nobody would tell that it has gone: it is made anew at once.
          if (isUnwatched(work.kind) && tenant.written.get(keyId(situation.key)) === undefined)
            outcome = { is: 'later', afterMs: 0 };
          break;
        case 'bindTenant':
          await bindPod(work, action);
          tenantWritten = true;
          break;
        case 'issueTokens':
          outcome = await this.#issueTokens(work, action);
          break;
        case 'deleteSuper':
          await deleteObject(this.#superClient, work, situation.superObject, action.gracePeriodSeconds);
          break;
        case 'deleteTenant':
          outcome = await this.#deleteTenant(work, action.gracePeriodSeconds);
          break;
      }
      if (outcome !== undefined) return outcome;
      this.#observer.acted?.(tenant, situation.key, action);
    }
    return later;
  }

  /**
   * S is there, but not in the cache. If it is T's own and has merely lost the label that we watch by, it
   * gets it back; everything else shows in the cache sooner or later.
   */
  async found(work: Work, live: KubeObject): Promise<Outcome> {
    const { kind, tenant, situation } = work;
    const { tenantObject } = situation;
    if (kind.direction === 'down' && tenantObject !== undefined && hasLostItsLabel(live, tenantObject)) {
      return this.#takeOver(kind, tenantObject, live, work);
    }
    if (isOurs(live, tenant.info)) rememberCreated('super', work, live);
    return { is: 'retry', code: 'stillThere' };
  }

  /** Whether the key has to wait for one of these; then they are queued and it comes back after them. */
  #waits(work: Work, keys: readonly KeyRef[]): boolean {
    const missing = keys.filter((key) => !this.#isSettled(work.tenant, key));
    for (const key of missing) {
      work.tenant.waiters.add(key, work.situation.key);
      this.#enqueue(work.tenant, key);
    }
    return missing.length > 0;
  }

  /** Whether there is room for one more pod at the super cluster's scheduler. Its key comes back when there is. */
  async #isAdmitted(work: Work): Promise<boolean> {
    const { kind, tenant, situation } = work;
    if (kind.name !== 'pods' || this.#admission === undefined) return true;
    const answer = this.#admission.ask(tenant, situation.key, situation.tenantObject);
    if (answer === 'full') await this.#notice(work, tooManyUnschedulable);
    return answer === 'go';
  }

  async #createSuper(work: Work, object: KubeObject): Promise<Outcome | undefined> {
    const { kind, tenant, signal } = work;
    try {
      if (kind.name === 'services') await releaseReservation(this.#superClient, tenant.info, object, signal);
      const created = await this.#superClient.create(superResourceOf(kind), object, { signal });
      rememberCreated('super', work, created);
      return undefined;
    } catch (error) {
      if (isAlreadyExists(error)) return this.#superExists(work, object);
      if (isNotFound(error)) return { is: 'retry', code: '404' };
      if (error instanceof ApiError && isTransientRefusal(error))
        return { is: 'retry', code: 'transient403' };
      return this.#recover(error, work, object);
    }
  }

  /** Asks the kind for a way round a refused write of S; throws the refusal if there is none. */
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

  async #issueTokens(work: Work, action: Action & { do: 'issueTokens' }): Promise<Outcome> {
    const issued = await issueTokens(work, action);
    if (issued.is === 'issued') return this.run(action.write(issued.tokens), work);
    if (issued.notice !== undefined) await this.#notice(work, issued.notice);
    return issued.outcome;
  }

  async #patchSuper(
    work: Work,
    action: Action & { do: 'patchSuper' },
    uidOnly: boolean,
  ): Promise<Outcome | undefined> {
    const { kind, tenant, situation, signal } = work;
    const { superObject } = situation;
    try {
      if (kind.name === 'services')
        await releaseReservation(this.#superClient, tenant.info, action.patch, signal);
      await patchObject(this.#superClient, work, superObject, { ...action, uidOnly });
      return undefined;
    } catch (error) {
      if (action.mayBeRefused === true && isRefusal(error)) return this.#refusedForNow(work, error);
      if (superObject === undefined || action.subresource !== undefined) throw error;
      return this.#recover(error, work, applyMergePatch(superObject, action.patch) as KubeObject);
    }
  }

  async #refusedForNow(work: Work, error: ApiError): Promise<Outcome> {
    const message = scrub(error.status?.message ?? error.message, work.situation.context);
    await this.#notice(work, { type: 'Warning', reason: 'SyncRefused', message });
    return { is: 'later', afterMs: refusedForMs };
  }

  /** Never judges by the failed call: looks at what is there (sync rule 1). */
  async #superExists(work: Work, object: KubeObject): Promise<Outcome> {
    const { kind, tenant, situation, signal } = work;
    const { tenantObject } = situation;
    const live = await this.#superClient.get(superResourceOf(kind), refOf(object), { signal });
    if (isOurs(live, tenant.info)) {
      // S of an earlier T goes when the cache shows it, past the same guards as any other.
      if (uidMark(live) !== tenantObject?.metadata.uid) return { is: 'retry', code: 'earlierObject' };
      rememberCreated('super', work, live);
      return done;
    }
    if (kind.direction === 'down' && tenantObject !== undefined) {
      const adopts = kind.adopts?.(live, tenantObject, situation.context) === true;
      if (adopts || hasLostItsLabel(live, tenantObject))
        return this.#takeOver(kind, tenantObject, live, work);
    }
    const message = `${kind.resource.kind} ${situation.key.name} cannot be synced: its place in the cluster is taken by an object that Skerry did not make`;
    await this.#notice(work, { type: 'Warning', reason: 'NameConflict', message });
    return { is: 'refused', code: 'notOurs', message };
  }

  /** Makes S carry our marks. */
  #takeOver(kind: DownKind, tenantObject: KubeObject, live: KubeObject, work: Work): Promise<Outcome> {
    const { situation } = work;
    const actions = kind
      .down(tenantObject, live, situation.context)
      .filter((action) => action.do !== 'deleteSuper');
    return this.run(actions, { ...work, situation: { ...situation, superObject: live } });
  }

  async #deleteTenant(work: Work, gracePeriodSeconds: number | undefined): Promise<Outcome | undefined> {
    const { kind, tenant, situation, signal } = work;
    const contents = copyContents(kind, situation.tenantObject);
    if (contents !== undefined && (await hasObjects(tenant.client, contents, signal))) {
      const message = `this ${kind.resource.kind} is no longer offered as it is; it stays as long as there are objects of it, which would go with it`;
      await this.#notice(work, { type: 'Warning', reason: 'StillUsed', message });
      return { is: 'later', afterMs: lookAgainMs };
    }
    await deleteObject(tenant.client, work, situation.tenantObject, gracePeriodSeconds);
    return undefined;
  }

  async #createTenant(work: Work, object: KubeObject): Promise<Outcome | undefined> {
    const { kind, tenant, situation, signal } = work;
    const watched = kind.direction === 'down' || kind.watchTenant;
    try {
      const created = await tenant.client.create(kind.resource, object, { signal });
      if (watched) rememberCreated('tenant', work, created);
      else tenant.rememberUnwatched(keyId(situation.key), created);
      return undefined;
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
      if (watched) return { is: 'retry', code: 'exists' };
      const live = await tenant.client.get(kind.resource, refOf(object), { signal });
      if (kind.direction !== 'up' || situation.superObject === undefined || uidMark(live) === undefined)
        return done;
      tenant.rememberUnwatched(keyId(situation.key), live);
      return this.run(kind.up(live, situation.superObject, situation.context), {
        ...work,
        situation: { ...situation, tenantObject: live },
      });
    }
  }

  /** A notice that cannot be written holds nothing up. */
  async #notice(work: Work, notice: Notice): Promise<void> {
    const object = work.situation.tenantObject;
    if (object === undefined) return;
    try {
      await work.notices.write(work.kind.resource, object, notice, work.signal);
    } catch (error) {
      if (work.signal.aborted) throw error;
    }
  }
}

function isUnwatched(kind: SyncedKind): boolean {
  return kind.direction === 'up' && !kind.watchTenant;
}

/** Whether S is T's own by its mark, which names a UID that nobody can guess, but has no label of any tenant. */
function hasLostItsLabel(superObject: KubeObject, tenantObject: KubeObject): boolean {
  const { uid } = tenantObject.metadata;
  return uid !== undefined && uidMark(superObject) === uid && tenantUidOf(superObject) === undefined;
}
