import {
  ApiError,
  applyMergePatch,
  isAlreadyExists,
  isConflict,
  isNotFound,
  type KubeClient,
  type KubeObject,
  type MergePatch,
  type ObjectRef,
  resources,
} from '../../kube/index.ts';
import type { Action, KeyRef, Notice, SyncedKind } from '../kinds/index.ts';
import { isOurs, uidMark } from '../mapping/index.ts';
import type { Situation } from './decide.ts';
import { keyId } from './key.ts';
import type { Notices } from './notices.ts';
import { done, isRecoverable, isTransientRefusal, type Outcome, outcomeOf } from './outcome.ts';
import { releaseReservation } from './reservations.ts';
import type { TenantState } from './tenant-state.ts';

export interface ExecutorOptions {
  superClient: KubeClient;
  /** Whether a key that another one requires is in agreement. */
  isSettled: (tenant: TenantState, key: KeyRef) => boolean;
  /** Queues a key at once. */
  enqueue: (tenant: TenantState, key: KeyRef) => void;
}

export interface Work {
  readonly kind: SyncedKind;
  readonly situation: Situation;
  readonly tenant: TenantState;
  readonly notices: Notices;
  readonly signal: AbortSignal;
}

/** Carries out the actions of one decision, in order, until one fails or asks to wait. */
export class Executor {
  readonly #superClient: KubeClient;
  readonly #isSettled: ExecutorOptions['isSettled'];
  readonly #enqueue: ExecutorOptions['enqueue'];

  constructor(options: ExecutorOptions) {
    this.#superClient = options.superClient;
    this.#isSettled = options.isSettled;
    this.#enqueue = options.enqueue;
  }

  async run(actions: readonly Action[], work: Work): Promise<Outcome> {
    let later: Outcome = done;
    /** Once T was written here, its cached resourceVersion is known to be old: the UID alone guards. */
    let tenantWritten = false;
    for (const action of actions) {
      switch (action.do) {
        case 'require': {
          const open = action.keys.filter((key) => !this.#isSettled(work.tenant, key));
          if (open.length === 0) break;
          for (const key of open) {
            work.tenant.waitFor(key, work.situation.key);
            this.#enqueue(work.tenant, key);
          }
          return done;
        }
        case 'later':
          later = { is: 'later', afterMs: action.afterMs };
          break;
        case 'notice':
          await this.#notice(work, action.notice);
          break;
        case 'createSuper': {
          const outcome = await this.#createSuper(work, action.object);
          if (outcome !== undefined) return outcome;
          break;
        }
        case 'createTenant': {
          const outcome = await this.#createTenant(work, action.object);
          if (outcome !== undefined) return outcome;
          break;
        }
        case 'patchSuper':
          {
            const outcome = await this.#patchSuper(work, action);
            if (outcome !== undefined) return outcome;
          }
          break;
        case 'patchTenant':
          await this.#patch(work.tenant.client, work, work.situation.tenantObject, action, tenantWritten);
          tenantWritten = true;
          break;
        case 'bindTenant':
          await this.#bind(work, action.node, action.annotations);
          tenantWritten = true;
          break;
        case 'deleteSuper':
          await this.#delete(this.#superClient, work, work.situation.superObject, action.gracePeriodSeconds);
          break;
        case 'deleteTenant':
          await this.#delete(work.tenant.client, work, work.situation.tenantObject, action.gracePeriodSeconds);
          break;
      }
    }
    return later;
  }

  async #createSuper(work: Work, object: KubeObject): Promise<Outcome | undefined> {
    const { kind, tenant, signal } = work;
    try {
      if (kind.name === 'services') await releaseReservation(this.#superClient, tenant.info, object, signal);
      const created = await this.#superClient.create(kind.resource, object, { signal });
      this.#remember('super', work, created);
      return undefined;
    } catch (error) {
      if (isAlreadyExists(error)) return this.#superExists(work, object);
      if (isNotFound(error)) return { is: 'retry', code: '404' };
      if (error instanceof ApiError && isTransientRefusal(error)) return { is: 'retry', code: 'transient403' };
      return this.#recover(error, work, object);
    }
  }

  /** Asks the kind for a way round a refused write of S; throws the refusal if there is none. */
  async #recover(error: unknown, work: Work, attempted: KubeObject): Promise<Outcome> {
    const { kind, situation } = work;
    if (!isRecoverable(error) || kind.direction !== 'down' || situation.tenantObject === undefined) throw error;
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

  async #patchSuper(work: Work, action: Action & { do: 'patchSuper' }): Promise<Outcome | undefined> {
    const { kind, tenant, situation, signal } = work;
    const { superObject } = situation;
    try {
      if (kind.name === 'services') await releaseReservation(this.#superClient, tenant.info, action.patch, signal);
      await this.#patch(this.#superClient, work, superObject, action, false);
      return undefined;
    } catch (error) {
      if (superObject === undefined || action.subresource !== undefined) throw error;
      return this.#recover(error, work, applyMergePatch(superObject, action.patch) as KubeObject);
    }
  }

  /** Never judges by the failed call: looks at what is there (sync rule 1). */
  async #superExists(work: Work, object: KubeObject): Promise<Outcome> {
    const { kind, tenant, situation, signal } = work;
    const live = await this.#superClient.get(kind.resource, refOf(object), { signal });
    const mark = uidMark(live);
    if (isOurs(live, tenant.info) && mark === situation.tenantObject?.metadata.uid) {
      this.#remember('super', work, live);
      return done;
    }
    const seen = { ...situation, superObject: live };
    if (isOurs(live, tenant.info)) {
      if (live.metadata.deletionTimestamp === undefined) {
        await this.#delete(this.#superClient, { ...work, situation: seen }, live, undefined);
      }
      return { is: 'retry', code: 'earlierObject' };
    }
    const adopts =
      kind.direction === 'down' &&
      situation.tenantObject !== undefined &&
      kind.adopts?.(live, situation.tenantObject, situation.context) === true;
    if (adopts && kind.direction === 'down' && situation.tenantObject !== undefined) {
      return this.run(kind.down(situation.tenantObject, live, situation.context), { ...work, situation: seen });
    }
    const message = `${kind.resource.kind} ${situation.key.name} cannot be synced: its place in the cluster is taken by an object that Skerry did not make`;
    await this.#notice(work, { type: 'Warning', reason: 'NameConflict', message });
    return { is: 'refused', code: 'notOurs', message };
  }

  async #createTenant(work: Work, object: KubeObject): Promise<Outcome | undefined> {
    const { kind, tenant, situation, signal } = work;
    const watched = kind.direction === 'down' || kind.watchTenant;
    try {
      const created = await tenant.client.create(kind.resource, object, { signal });
      if (!watched) tenant.written.set(keyId(situation.key), created);
      else this.#remember('tenant', work, created);
      return undefined;
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
      if (watched) return { is: 'retry', code: 'exists' };
      const live = await tenant.client.get(kind.resource, refOf(object), { signal });
      tenant.written.set(keyId(situation.key), live);
      if (kind.direction !== 'up' || situation.superObject === undefined || uidMark(live) === undefined) return done;
      return this.run(kind.up(live, situation.superObject, situation.context), {
        ...work,
        situation: { ...situation, tenantObject: live },
      });
    }
  }

  async #patch(
    client: KubeClient,
    work: Work,
    object: KubeObject | undefined,
    action: { patch: MergePatch; subresource?: string },
    uidOnly: boolean,
  ): Promise<void> {
    if (object === undefined) return;
    const { kind, tenant, situation, signal } = work;
    const { uid, resourceVersion } = object.metadata;
    const metadata = {
      ...(action.patch['metadata'] as Record<string, unknown> | undefined),
      uid,
      ...(uidOnly ? {} : { resourceVersion }),
    };
    try {
      const patched = await client.patch(kind.resource, refOf(object), { ...action.patch, metadata }, {
        type: 'merge',
        signal,
        ...(action.subresource === undefined ? {} : { subresource: action.subresource }),
      });
      const side = client === tenant.client ? 'tenant' : 'super';
      const { resourceVersion: written } = patched.metadata;
      if (kind.direction === 'up' && !kind.watchTenant) tenant.written.set(keyId(situation.key), patched);
      else if (written !== undefined) tenant.expectVersion(side, situation.key, written);
    } catch (error) {
      if (!isNotFound(error)) throw error;
      tenant.written.delete(keyId(situation.key));
    }
  }

  async #bind(work: Work, node: string, annotations: Record<string, string>): Promise<void> {
    const { tenantObject } = work.situation;
    if (tenantObject === undefined) return;
    const { name, namespace, uid } = tenantObject.metadata;
    const binding = {
      apiVersion: 'v1',
      kind: 'Binding',
      metadata: { name, namespace, uid, annotations },
      target: { apiVersion: 'v1', kind: 'Node', name: node },
    };
    try {
      await work.tenant.client.createSubresource(resources.pods, refOf(tenantObject), 'binding', binding, {
        signal: work.signal,
      });
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
  }

  async #delete(
    client: KubeClient,
    work: Work,
    object: KubeObject | undefined,
    gracePeriodSeconds: number | undefined,
  ): Promise<void> {
    if (object === undefined) return;
    const { uid } = object.metadata;
    try {
      await client.delete(work.kind.resource, refOf(object), {
        signal: work.signal,
        propagationPolicy: 'Background',
        ...(uid === undefined ? {} : { uid }),
        ...(gracePeriodSeconds === undefined ? {} : { gracePeriodSeconds }),
      });
    } catch (error) {
      if (isNotFound(error)) return;
      if (isConflict(error)) return;
      throw error;
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

  /** The watch may have been faster than the answer; then there is nothing to remember. */
  #remember(side: 'tenant' | 'super', work: Work, created: KubeObject): void {
    const { uid } = created.metadata;
    const { tenant, situation, kind } = work;
    if (uid === undefined || tenant.tombstones[side].get(keyId(situation.key))?.uid === uid) return;
    const lookup = side === 'super' ? situation.context.superObjects : tenant.caches;
    if (lookup.get(kind.resource, refOf(created))?.metadata.uid === uid) return;
    tenant.rememberCreated(side, situation.key, uid);
  }
}

function refOf(object: KubeObject): ObjectRef {
  const { name, namespace } = object.metadata;
  return namespace === undefined ? { name: name ?? '' } : { namespace, name: name ?? '' };
}

/** Turns what an action threw into an outcome; an aborted run passes through. */
export function failed(error: unknown, signal: AbortSignal): Outcome {
  if (signal.aborted) throw error;
  return outcomeOf(error);
}
