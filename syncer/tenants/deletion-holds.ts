import { annotationKeys } from '../../api/labels.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import {
  findCondition,
  ignoreNotFound,
  isAlreadyExists,
  type KubeClient,
  type KubeObject,
  type ObjectRef,
  type Resource,
  resources,
} from '../../kube/index.ts';
import { isOlder } from '../reconcile/expectations.ts';
import { type DeletionHold, type IdentityGuard, VersionHistory } from '../reconcile/guards.ts';
import type { TenantState } from '../reconcile/tenant-state.ts';
import type { StatusWriter } from './status-writer.ts';

/** The command that gives an answer. */
function annotateCommand(vc: ObjectRef, key: string, value: string): string {
  return `kubectl annotate --overwrite virtualcluster ${vc.name} -n ${vc.namespace} ${key}=${value}`;
}

/** The answer that a message asks for, if it does. */
function requestedAnnotationValue(message: string | undefined, key: string): string | undefined {
  return message?.split(`${key}=`)[1]?.split(/\s/)[0];
}

const recordRef = { namespace: 'kube-system', name: 'skerry-super-cluster' };
/** UID of its kube-system Namespace, and a resourceVersion. What a tenant has made of it is nothing. */
const recordForm = /^([^@]{1,64})@([0-9]{1,20})$/;
/** A webhook of the tenant may hang. */
const recordTimeoutMs = 5_000;

/**
 * How far the super cluster had come, written down in the tenant, where a restored backup of the super cluster does not take
 * it back (sync rule `side-identity`). A tenant that changes it stops its own deletions, and those of no other.
 */
export class SuperClusterVersionRecord {
  readonly #tenant: KubeClient;
  readonly #super: KubeClient;
  readonly #identity: Pick<IdentityGuard, 'expectedUid' | 'distrusted'>;

  constructor(
    tenant: KubeClient,
    superCluster: KubeClient,
    identity: Pick<IdentityGuard, 'expectedUid' | 'distrusted'>,
  ) {
    this.#tenant = tenant;
    this.#super = superCluster;
    this.#identity = identity;
  }

  /** How far the super cluster has come, and what was written down where it is behind that. */
  async look(signal: AbortSignal): Promise<{ now: string; shown?: string }> {
    const lease = await ignoreNotFound(this.#tenant.get(resources.leases, recordRef, { signal }));
    const now = await this.#version(signal);
    const [, uid, shown] =
      recordForm.exec(String(lease?.metadata.annotations?.[annotationKeys.superCluster])) ?? [];
    const isBehind = shown !== undefined && uid === this.#identity.expectedUid && isOlder(now, shown);
    return isBehind ? { now, shown } : { now };
  }

  /** Writes down how far it has come, as `look` has just found it. */
  async record(now: string, signal: AbortSignal): Promise<void> {
    const { expectedUid, distrusted } = this.#identity;
    if (expectedUid === undefined || distrusted !== undefined) return;
    const options = { signal, timeoutMs: recordTimeoutMs };
    const annotations = { [annotationKeys.superCluster]: `${expectedUid}@${now}` };
    const patch = { metadata: { annotations } };
    const merge = { type: 'merge', ...options } as const;
    if ((await ignoreNotFound(this.#tenant.patch(resources.leases, recordRef, patch, merge))) !== undefined)
      return;
    await this.#tenant
      .create(resources.leases, { metadata: { ...recordRef, annotations }, spec: {} }, options)
      .catch((raced: unknown) => {
        if (!isAlreadyExists(raced)) throw raced;
      });
  }

  /** Always of the same kind: a server may keep its events elsewhere than the rest. */
  async #version(signal: AbortSignal): Promise<string> {
    const { metadata } = await this.#super.list(resources.namespaces, { limit: 1, signal });
    return metadata.resourceVersion ?? '';
  }
}

interface DeletionFreezeOptions {
  state: TenantState;
  superIdentity: IdentityGuard;
  versionRecord: Pick<SuperClusterVersionRecord, 'look' | 'record'>;
  status: StatusWriter;
  vc: VirtualCluster;
  /** Queues everything of the tenant again. */
  requeue: () => void;
}

/** Reasons of the condition `IdentityMismatch`; also what `TenantState.frozen` holds. */
type Reason =
  | 'TenantIdentity'
  | 'SuperClusterIdentity'
  | 'ResourceVersionRanBackwards'
  | 'SuperClusterRanBackwards';

/**
 * Stops a tenant's deletions while either server has another identity than expected (sync rule `side-identity`), says so in a
 * condition with the remedy, and goes on when it has passed or the operator has answered. What an earlier
 * syncer has stopped stays so: the condition is the memory.
 */
export class DeletionFreeze {
  readonly #options: DeletionFreezeOptions;
  readonly #ref: ObjectRef;
  readonly #history: VersionHistory;
  /** The answer that would lift the present mismatch. */
  #token: string | undefined;

  constructor(options: DeletionFreezeOptions) {
    this.#options = options;
    const { namespace, name = '' } = options.vc.metadata;
    this.#ref = { namespace, name };
    const said = findCondition(options.vc.status?.conditions, 'IdentityMismatch');
    // Of a server that is known to show its past, what it has now is followed, with all deletes stopped.
    const isPast = said?.status === 'True' && said.reason === ranBackwards;
    this.#history = new VersionHistory(isPast ? undefined : options.vc.status?.observedResourceVersion);
    if (said?.status !== 'True') return;
    options.state.frozen = said.reason ?? 'TenantIdentity';
    this.#token = requestedAnnotationValue(said.message, annotationKeys.acceptIdentity);
  }

  observeVersion(resource: Resource, version: string): void {
    this.#history.observe(resource, version);
  }

  /**
   * Before a list replaces what the cache holds: throws if it comes from another server than the one
   * this tenant had, or from the past of that server.
   */
  async checkList(resource: Resource, version: string, signal: AbortSignal): Promise<void> {
    const { state } = this.#options;
    if (!(await state.identity.verify())) {
      await this.mismatch('tenant', signal);
      throw new Error('the API server of this tenant is not the one that it had');
    }
    const back = await this.#history.regression(state.client, resource, version, signal);
    if (back === undefined) return;
    if (state.frozen !== ranBackwards) {
      const token = `${state.identity.expectedUid}@${back.now}`;
      await this.#stop(
        ranBackwards,
        `the tenant's API server shows ${back.resource} that are older (resourceVersion ${back.now}) than what it has shown before (${back.shown}); all deletes for it are stopped. Restore its data, or accept it as it is now: ${annotateCommand(this.#ref, annotationKeys.acceptIdentity, token)}`,
        token,
        signal,
      );
    }
    throw new Error('the resourceVersion of this tenant ran backwards');
  }

  /** Before anything is deleted: whether the super cluster is behind what it was while an earlier syncer ran. */
  async checkSuperClusterVersionRecord(signal: AbortSignal): Promise<void> {
    const { state } = this.#options;
    if (state.frozen === undefined && !this.#isForeign()) await this.#superVersion(signal);
  }

  /** Writes down how far the super cluster has come, if that is not in doubt. */
  async recordSuper(signal: AbortSignal): Promise<void> {
    const { state, versionRecord } = this.#options;
    if (state.frozen !== undefined) return;
    const now = await this.#superVersion(signal);
    if (now !== undefined) await versionRecord.record(now, signal);
  }

  async mismatch(side: 'tenant' | 'super', signal?: AbortSignal): Promise<void> {
    await (side === 'super' ? this.#wrongSuper(signal) : this.#wrongTenant(signal));
  }

  /** Reads the operator's answer from the annotations of the VirtualCluster. */
  async answer(vc: VirtualCluster, signal: AbortSignal): Promise<void> {
    const { state, status } = this.#options;
    const token = this.#token;
    if (state.frozen === undefined || token === undefined) return;
    if (vc.metadata.annotations?.[annotationKeys.acceptIdentity] !== token) return;
    if (state.frozen === 'SuperClusterIdentity') {
      await status.identity(this.#ref, state.info.uid, { superCluster: token }, signal);
      state.acceptSuperIdentity(token);
    } else if (state.frozen === ranBackwards) {
      this.#history.forget();
    } else if (state.frozen === superRanBackwards) {
      const { versionRecord } = this.#options;
      await versionRecord.record((await versionRecord.look(signal)).now, signal);
    } else {
      // Only the identity that the operator was shown is accepted, not the present one.
      if ((await kubeSystemUid(state.client, signal)) !== token) return;
      await status.identity(this.#ref, state.info.uid, { tenant: token }, signal);
      state.identity.accept(token);
    }
    await this.#goOn(signal);
  }

  /** Called on a clock: a wrong server may have been a passing mistake. */
  async recheck(signal: AbortSignal): Promise<void> {
    const { state, superIdentity } = this.#options;
    // For these there is nothing to look up; only the operator knows better.
    if (this.#isForeign()) return this.#wrongSuper(signal);
    if (state.frozen === undefined || state.frozen === ranBackwards || state.frozen === superRanBackwards)
      return;
    if (!(await superIdentity.verify()) || this.#isForeign()) await this.#wrongSuper(signal);
    else if (!(await state.identity.verify())) await this.#wrongTenant(signal);
    else await this.#goOn(signal);
  }

  #isForeign(): boolean {
    const { state, superIdentity } = this.#options;
    return superIdentity.distrusted !== undefined || !state.belongsTo(superIdentity.expectedUid);
  }

  async #wrongSuper(signal: AbortSignal | undefined): Promise<void> {
    const { state, superIdentity } = this.#options;
    if (superIdentity.distrusted !== undefined) {
      const message = `${superIdentity.distrusted}; all deletes are stopped. If its data is as it should be, start the syncer again`;
      return this.#stop('SuperClusterIdentity', message, undefined, signal);
    }
    const found = superIdentity.expectedUid;
    if (found === undefined || state.belongsTo(found)) {
      const message =
        'the super cluster is not the one that this syncer started with; all deletes are stopped. Start the syncer again with the right kubeconfig';
      return this.#stop('SuperClusterIdentity', message, undefined, signal);
    }
    const message = `this tenant was made on a super cluster whose kube-system Namespace has UID ${state.superIdentity}, and here it is ${found}; all deletes for it are stopped. If it belongs here from now on: ${annotateCommand(this.#ref, annotationKeys.acceptIdentity, found)}`;
    return this.#stop('SuperClusterIdentity', message, found, signal);
  }

  async #wrongTenant(signal: AbortSignal | undefined): Promise<void> {
    const { state } = this.#options;
    // Before anything that can fail: from now on nothing is deleted.
    state.frozen ??= 'TenantIdentity';
    const found = await kubeSystemUid(state.client, signal);
    const what =
      found === undefined
        ? 'the tenant has no kube-system Namespace, or one whose UID is none'
        : `the tenant's kube-system Namespace has UID ${found}, not ${state.identity.expectedUid}`;
    const remedy =
      found === undefined
        ? 'Restore its data'
        : `Either restore its data, or accept it as it is now: ${annotateCommand(this.#ref, annotationKeys.acceptIdentity, found)}`;
    await this.#stop('TenantIdentity', `${what}; all deletes for it are stopped. ${remedy}`, found, signal);
  }

  async #stop(
    reason: Reason,
    message: string,
    token: string | undefined,
    signal?: AbortSignal,
  ): Promise<void> {
    const { state, status } = this.#options;
    state.frozen = reason;
    this.#token = token;
    const wanted = { type: 'IdentityMismatch', status: 'True', reason, message } as const;
    await status.condition(this.#ref, state.info.uid, wanted, signal);
  }

  /** How far the super cluster has come. Undefined where it shows its past: then deletions are stopped. */
  async #superVersion(signal: AbortSignal): Promise<string | undefined> {
    const { versionRecord, superIdentity } = this.#options;
    const { now, shown } = await versionRecord.look(signal);
    if (shown === undefined) return now;
    const token = `${superIdentity.expectedUid}@${now}`;
    const message = `the super cluster is at resourceVersion ${now} and was at ${shown} before: its datastore was restored, perhaps; all deletes for this tenant are stopped. Restore newer data, or accept it as it is now: ${annotateCommand(this.#ref, annotationKeys.acceptIdentity, token)}`;
    await this.#stop(superRanBackwards, message, token, signal);
    return undefined;
  }

  async #goOn(signal: AbortSignal): Promise<void> {
    const { state, status } = this.#options;
    if ((await this.#superVersion(signal)) === undefined) return;
    // What was seen while a server was wrong proves nothing.
    state.tombstones.tenant.clear();
    state.tombstones.super.clear();
    state.frozen = undefined;
    this.#token = undefined;
    this.#options.requeue();
    const message = 'both API servers have the expected identities';
    const wanted = { type: 'IdentityMismatch', status: 'False', reason: 'Verified', message } as const;
    await status.condition(this.#ref, state.info.uid, wanted, signal);
  }
}

const ranBackwards = 'ResourceVersionRanBackwards' satisfies Reason;
const superRanBackwards = 'SuperClusterRanBackwards' satisfies Reason;

/** It becomes part of a command that an operator copies. */
const uidForm = /^[A-Za-z0-9][-A-Za-z0-9]{0,127}$/;

/** Undefined: there is none, or one that Kubernetes never gives. */
async function kubeSystemUid(
  client: KubeClient,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  const found = await client.list<KubeObject>(resources.namespaces, {
    fieldSelector: 'metadata.name=kube-system',
    signal,
  });
  const uid = found.items[0]?.metadata.uid;
  return uid !== undefined && uidForm.test(uid) ? uid : undefined;
}

interface MassDeletionHoldsOptions {
  state: TenantState;
  status: StatusWriter;
  vc: VirtualCluster;
  /** Queues everything of the tenant again. */
  requeue: () => void;
}

/**
 * Says in a condition that too many deletions at once are held back (sync rule `mass-deletion-hold`), takes the
 * operator's answer, and lets go when nothing is held any more.
 */
export class MassDeletionHolds {
  readonly #options: MassDeletionHoldsOptions;
  readonly #ref: ObjectRef;
  /** Whether the condition says so, here or from an earlier syncer. */
  #isSaid: boolean;

  constructor(options: MassDeletionHoldsOptions) {
    this.#options = options;
    const { namespace, name = '' } = options.vc.metadata;
    this.#ref = { namespace, name };
    this.#isSaid = findCondition(options.vc.status?.conditions, 'DeletionHeld')?.status === 'True';
  }

  /** A mass-deletion guard has closed. */
  async say(signal?: AbortSignal): Promise<void> {
    const { state, status } = this.#options;
    const questions = [
      question(
        state.superDeletions.hold,
        'are missing in its API server, or synced no longer by a changed setting,',
        this.#ref,
      ),
      question(state.tenantDeletions.hold, 'have lost what runs for them in the super cluster', this.#ref),
    ].filter((text) => text !== undefined);
    if (questions.length === 0) return;
    this.#isSaid = true;
    const message = questions.join('. ');
    const wanted = { type: 'DeletionHeld', status: 'True', reason: 'TooManyAtOnce', message } as const;
    await status.condition(this.#ref, state.info.uid, wanted, signal);
  }

  /** Reads the operator's answer from the annotations of the VirtualCluster. */
  async answer(vc: VirtualCluster, signal: AbortSignal): Promise<void> {
    const { superDeletions: deletions, tenantDeletions: losses } = this.#options.state;
    const id = vc.metadata.annotations?.[annotationKeys.confirmDeletions];
    if (id === undefined) return;
    const opened = [deletions.confirm(id), losses.confirm(id)];
    if (opened.includes(true)) await this.recheck(signal);
  }

  /** Called on a clock: what was missing may be back. */
  async recheck(signal: AbortSignal): Promise<void> {
    const { state } = this.#options;
    const { superDeletions: deletions, tenantDeletions: losses } = state;
    if (state.frozen !== undefined) return;
    const isAsked = this.#isSaid || deletions.hold !== undefined || losses.hold !== undefined;
    if (isAsked) {
      const isOpen = [deletions.allowsUnwatched(), losses.allowsUnwatched()];
      if (isOpen.includes(false)) return this.say(signal);
    }
    // Whatever closed the guard, nothing does now: no other event would queue these again.
    if (state.held.size > 0) this.#options.requeue();
    if (this.#isSaid) await this.#release(signal);
  }

  async #release(signal: AbortSignal): Promise<void> {
    const { state, status } = this.#options;
    const message = 'no deletion is held back';
    const wanted = { type: 'DeletionHeld', status: 'False', reason: 'Released', message } as const;
    await status.condition(this.#ref, state.info.uid, wanted, signal);
    this.#isSaid = false;
  }
}

function question(hold: DeletionHold | undefined, what: string, vc: ObjectRef): string | undefined {
  if (hold === undefined) return undefined;
  return `${hold.missing} of ${hold.total} objects of this tenant ${what} without a watched delete event; they are kept. If they are meant to go: ${annotateCommand(vc, annotationKeys.confirmDeletions, hold.id)}`;
}
