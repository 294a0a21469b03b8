import { labelKeys } from '../../api/labels.ts';
import {
  ApiError,
  applyMergePatch,
  ConnectionError,
  ignoreNotFound,
  isAlreadyExists,
  isConflict,
  isNotFound,
  type KubeClient,
  type KubeObject,
  type MergePatch,
  resources,
  type StoreEvent,
} from '../../kube/index.ts';
import type { KeyRef, SyncContext } from '../context.ts';
import type { Notice } from '../kinds/contract.ts';
import { namespaceKind } from '../kinds/namespaces.ts';
import type { TokenRequest } from '../kinds/pods/token-requests.ts';
import { isDeleting, isFinished, type Pod } from '../kinds/pods/types.ts';
import { hasLostItsLabel, isOurs, originalUid, tenantUidOf } from '../mapping/labels.ts';
import { scrub } from '../mapping/scrub.ts';
import type { QuotaAdmission, QuotaDenial } from '../quota/quota-admission.ts';
import { byTenantIndex, type Caches, type SuperWatch } from '../reconcile/caches.ts';
import { contestedNotice } from '../reconcile/contested-writes.ts';
import {
  done,
  isRefusal,
  isTransientRefusal,
  type Outcome,
  outcomeOf,
  type SpecialController,
  staleCache,
} from '../reconcile/controller.ts';
import { type Drift, nameConflict } from '../reconcile/decide.ts';
import { DeletionSafety, type DeletionSafetyOptions } from '../reconcile/deletion-safety.ts';
import type { ExecutorObserver } from '../reconcile/execute.ts';
import {
  deleteObject,
  expectCreated,
  patchObject,
  refOf,
  type WriteTarget,
} from '../reconcile/guarded-writes.ts';
import { downKeyOf, keyId } from '../reconcile/keys.ts';
import { hasMoved, recordTombstone } from '../reconcile/router.ts';
import type { TenantState } from '../reconcile/tenant-state.ts';
import type { Priority } from '../workqueue/options.ts';
import {
  admitTokens,
  dueTokens,
  emptyTokenSecret,
  type IssuedToken,
  isReadyForTokens,
  issuedContent,
  tokenSecretAction,
  tokenSecrets,
  withoutTokens,
} from './token-secret.ts';

const { name } = tokenSecrets;

/** The Secrets of this controller in all super namespaces. */
export const tokenWatch: SuperWatch = {
  name,
  resource: tokenSecrets.resource,
  superScope: 'marked',
  selector: labelKeys.token,
  compact: withoutTokens,
};

interface PodTokenOptions extends DeletionSafetyOptions {
  superClient: KubeClient;
  superCaches: Caches;
  /** A tenant that is served, by the UID of its VirtualCluster. */
  tenant: (uid: string) => TenantState | undefined;
  enqueue: (tenant: TenantState, key: KeyRef, priority: Priority) => void;
  quota: Pick<QuotaAdmission, 'reserve' | 'enlarge' | 'giveBack' | 'chargeDeletion'>;
  observer?: ExecutorObserver | undefined;
}

/** What the caches show of one key, and what is remembered of it. */
interface Look {
  readonly tenant: TenantState;
  readonly key: KeyRef;
  readonly pod: Pod | undefined;
  readonly secret: KubeObject | undefined;
  readonly context: SyncContext;
}

type Step =
  | { readonly do: 'create'; readonly pod: Pod }
  | { readonly do: 'patch'; readonly pod: Pod; readonly secret: KubeObject; readonly patch: MergePatch }
  /** `live`, `unwatched`: as in `DeleteCheck`. */
  | {
      readonly do: 'delete';
      readonly secret: KubeObject;
      readonly live: boolean;
      readonly unwatched: boolean;
    }
  | { readonly do: 'await-namespace'; readonly namespace: KeyRef }
  | { readonly do: 'report-conflict'; readonly pod: Pod }
  | { readonly do: 'later'; readonly afterMs: number }
  | { readonly do: 'nothing' };

const nothing: Step = { do: 'nothing' };

/**
 * Gives each bound pod a Secret in the super cluster with the tokens that kubelet would ask for (sync rule
 * `pod-tokens`): has the tenant's API server issue them, bound to the pod, renews them while it runs, and takes the
 * Secret away with the pod. A key is a pod of the tenant.
 */
export class PodTokenController implements SpecialController {
  readonly name = name;
  readonly #options: PodTokenOptions;
  readonly #safety: DeletionSafety;

  constructor(options: PodTokenOptions) {
    this.#options = options;
    this.#safety = new DeletionSafety(options);
    options.superCaches.watched(name).subscribe((event) => this.#secretEvent(event));
  }

  join(tenant: TenantState): void {
    tenant.caches.store(resources.pods).subscribe((event) => this.#podEvent(tenant, event));
  }

  *keysOf(tenant: TenantState): Generator<KeyRef> {
    const pods = tenant.caches.store(resources.pods);
    for (const pod of pods.list()) if (isReadyForTokens(pod)) yield keyOf(pod);
    for (const secret of this.#options.superCaches.watched(name).byIndex(byTenantIndex, tenant.info.uid)) {
      const key = downKeyOf(tokenSecrets, secret);
      const pod = key && pods.get(key);
      if (key !== undefined && (pod === undefined || !isReadyForTokens(pod))) yield key;
    }
  }

  async reconcile(tenant: TenantState, key: KeyRef, signal: AbortSignal): Promise<Outcome> {
    const look = this.#look(tenant, key);
    try {
      const outcome = isBehind(look) ? staleCache : await this.#carryOut(look, signal);
      this.#tidy(tenant, key);
      return outcome;
    } catch (error) {
      if (signal.aborted) throw error;
      const outcome = outcomeOf(error);
      if (outcome.is !== 'refused') return outcome;
      const message = scrub(outcome.message, look.context);
      await notice(look, { type: 'Warning', reason: 'SyncRefused', message }, signal);
      return { ...outcome, message };
    }
  }

  driftOf(tenant: TenantState, key: KeyRef): Drift | undefined {
    const look = this.#look(tenant, key);
    if (isBehind(look)) return undefined;
    const step = decide(look);
    if (step.do === 'create' || step.do === 'await-namespace') return 'missing-in-super';
    if (step.do !== 'patch' && step.do !== 'delete') return undefined;
    return look.pod === undefined ? 'orphan' : 'differs';
  }

  #look(tenant: TenantState, key: KeyRef): Look {
    return {
      tenant,
      key,
      pod: tenant.caches.get<Pod>(resources.pods, key),
      secret: this.#options.superCaches.watched(name).get(tenant.superRefOf(tokenSecrets, key)),
      context: tenant.context(),
    };
  }

  async #carryOut(look: Look, signal: AbortSignal): Promise<Outcome> {
    const { tenant, key } = look;
    const step = decide(look);
    switch (step.do) {
      case 'nothing':
        return done;
      case 'later':
        return { is: 'later', afterMs: step.afterMs };
      case 'await-namespace':
        tenant.dependents.add(step.namespace, key);
        this.#options.enqueue(tenant, step.namespace, 'live');
        return done;
      case 'report-conflict':
        await notice(look, nameConflict('Pod', key.name), signal);
        return done;
      case 'delete':
        return this.#delete(look, step, signal);
      case 'create':
        return this.#create(look, step.pod, signal);
      case 'patch':
        return this.#patch(look, step, signal);
    }
  }

  async #create(look: Look, pod: Pod, signal: AbortSignal): Promise<Outcome> {
    const { superClient, superCaches, observer } = this.#options;
    const { tenant, key, context } = look;
    const empty = emptyTokenSecret(pod, context);
    const content = await this.#content(look, { pod, secret: undefined }, empty, undefined, signal);
    if ('is' in content) return content;
    const action = {
      do: 'createSuper',
      object: applyMergePatch(empty, content.added) as KubeObject,
    } as const;
    observer?.acting?.(tenant, key, action);
    try {
      const options = { signal, cutManagedFields: true };
      const created = await superClient.create(tokenSecrets.resource, action.object, options);
      expectCreated(this.#target(look, signal), created, superCaches.watched(name));
    } catch (error) {
      if (isAlreadyExists(error)) return this.#takeOver(look, pod, empty, signal);
      if (isNotFound(error)) return { is: 'retry', code: '404' };
      if (error instanceof ApiError && isTransientRefusal(error))
        return { is: 'retry', code: 'transient403' };
      throw error;
    }
    observer?.acted?.(tenant, key, action);
    return tenant.expectations.super.createdUid(keyId(key)) === undefined ? done : staleCache;
  }

  /** Never judges by the failed call: looks at what is there (sync rule `already-exists`). */
  async #takeOver(look: Look, pod: Pod, wanted: KubeObject, signal: AbortSignal): Promise<Outcome> {
    const { superClient, superCaches } = this.#options;
    const live = await superClient.get(tokenSecrets.resource, refOf(wanted), { signal });
    if (isOurs(live, look.tenant.info)) {
      // The Secret of an earlier pod goes when the cache shows it, past the same guards as any other.
      if (originalUid(live) !== pod.metadata.uid) return { is: 'retry', code: 'earlierObject' };
      expectCreated(this.#target(look, signal), live, superCaches.watched(name));
      return staleCache;
    }
    if (hasLostItsLabel(live, pod)) {
      const next = tokenSecretAction(pod, live, look.context);
      if (next.do === 'patch') return this.#patch(look, { pod, secret: live, patch: next.patch }, signal);
      // No watch shows that one that could not be changed is gone: the key is looked at again at once.
      const step = { do: 'delete', secret: live, live: false, unwatched: false } as const;
      const outcome = next.do === 'delete' ? await this.#delete(look, step, signal) : done;
      return outcome.is === 'done' && next.do === 'delete' ? { is: 'retry', code: 'earlierObject' } : outcome;
    }
    const conflict = nameConflict('Pod', look.key.name);
    await notice(look, conflict, signal);
    return { is: 'refused', code: 'notOurs', message: conflict.message };
  }

  async #patch(
    look: Look,
    { pod, secret, patch }: { readonly pod: Pod; readonly secret: KubeObject; readonly patch: MergePatch },
    signal: AbortSignal,
  ): Promise<Outcome> {
    const { tenant, key } = look;
    const { held, begins } = tenant.contested.check(`${secret.metadata.uid ?? ''} ${keyId(key)}`, patch);
    if (begins) {
      const where = 'the Secret of its tokens in the cluster that it runs on';
      await notice(look, contestedNotice(where, patch), signal);
    }
    if (held) return { is: 'retry', code: 'contested' };
    const content = await this.#content(look, { pod, secret }, secret, patch, signal);
    if ('is' in content) return content;
    const action = { do: 'patchSuper', patch: applyMergePatch(patch, content.added) as MergePatch } as const;
    this.#options.observer?.acting?.(tenant, key, action);
    await patchObject(this.#target(look, signal), secret, action);
    this.#options.observer?.acted?.(tenant, key, action);
    return done;
  }

  async #delete(
    look: Look,
    { secret, live, unwatched }: Extract<Step, { do: 'delete' }>,
    signal: AbortSignal,
  ): Promise<Outcome> {
    const { tenant, key } = look;
    const livePod = async (): Promise<KubeObject | undefined> => {
      const pod = await ignoreNotFound(tenant.client.get(resources.pods, key, { signal }));
      return pod !== undefined && originalUid(secret) === pod.metadata.uid ? pod : undefined;
    };
    const verdict = await this.#safety.check(tenant, {
      side: 'tenant',
      unwatched,
      ...(live ? { live: livePod } : {}),
    });
    if (verdict.is === 'exists') return { is: 'retry', code: 'stillThere' };
    if (verdict.is !== 'open') {
      tenant.held.set(keyId(key), true);
      return { is: 'held' };
    }
    const action = { do: 'deleteSuper' } as const;
    // One that goes with its pod is made up for with that.
    if (look.pod !== undefined) this.#options.quota.chargeDeletion(tenant);
    this.#options.observer?.acting?.(tenant, key, action);
    await deleteObject(this.#target(look, signal), secret);
    this.#options.observer?.acted?.(tenant, key, action);
    return done;
  }

  /**
   * The tokens that are added to the write of a Secret, for which there is room. None is asked for where there is not even
   * room without them.
   */
  async #content(
    look: Look,
    { pod, secret }: { readonly pod: Pod; readonly secret: KubeObject | undefined },
    before: KubeObject,
    patch: MergePatch | undefined,
    signal: AbortSignal,
  ): Promise<{ readonly added: MergePatch } | Outcome> {
    const { quota } = this.#options;
    const withoutRoom = quota.reserve(look.tenant, look.key, tokenSecrets, before, patch);
    if (withoutRoom !== undefined) return this.#wait(look, withoutRoom, signal);
    const content = await issueTokens(look, pod, secret, signal);
    if ('is' in content) {
      quota.giveBack(look.tenant, look.key);
      return content;
    }
    const [object, whole] =
      patch === undefined
        ? [applyMergePatch(before, content.added) as KubeObject, undefined]
        : [before, applyMergePatch(patch, content.added) as MergePatch];
    const denial = quota.enlarge(look.tenant, look.key, tokenSecrets, object, whole);
    return denial === undefined ? content : this.#wait(look, denial, signal);
  }

  /** Sync rule `quota`. */
  async #wait(look: Look, denial: QuotaDenial, signal: AbortSignal): Promise<Outcome> {
    await notice(look, denial.notice, signal);
    return denial.afterMs === undefined ? done : { is: 'later', afterMs: denial.afterMs };
  }

  #target({ tenant, key }: Look, signal: AbortSignal): WriteTarget {
    const { superClient: client } = this.#options;
    return { client, resource: tokenSecrets.resource, tenant, key, signal, cutManagedFields: true };
  }

  /** Forgets what both sides have outlived. */
  #tidy(tenant: TenantState, key: KeyRef): void {
    const id = keyId(key);
    const { pod, secret } = this.#look(tenant, key);
    const isExpected = tenant.expectations.super.createdUid(id) !== undefined;
    if (secret === undefined && !isExpected) tenant.tombstones.tenant.delete(id);
    if (pod === undefined) tenant.tombstones.super.delete(id);
  }

  /** A pod matters when it becomes ready for its tokens and when it goes; in between the Secret's own time does. */
  #podEvent(tenant: TenantState, { type, object, previous, watched }: StoreEvent<Pod>): void {
    const key = keyOf(object);
    if (type === 'deleted') {
      if (watched) recordTombstone(tenant.tombstones.tenant, keyId(key), object);
    } else {
      const wasReady =
        previous !== undefined && previous.metadata.uid === object.metadata.uid && isReadyForTokens(previous);
      if (wasReady || !isReadyForTokens(object)) return;
    }
    this.#options.enqueue(tenant, key, watched ? 'live' : 'background');
  }

  #secretEvent({ type, object, previous, watched }: StoreEvent<KubeObject>): void {
    const priority = watched ? 'live' : 'background';
    const tenant = this.#tenantOf(object);
    const key = downKeyOf(tokenSecrets, object);
    if (tenant !== undefined && key !== undefined) {
      const id = keyId(key);
      if (type !== 'deleted') tenant.tombstones.super.delete(id);
      else if (watched) recordTombstone(tenant.tombstones.super, id, object);
      tenant.expectations.super.forgetCreated(id);
      this.#options.enqueue(tenant, key, priority);
    }
    if (previous === undefined || !hasMoved(previous, object)) return;
    const before = this.#tenantOf(previous);
    const keyBefore = downKeyOf(tokenSecrets, previous);
    if (before !== undefined && keyBefore !== undefined) this.#options.enqueue(before, keyBefore, priority);
  }

  #tenantOf(secret: KubeObject): TenantState | undefined {
    const uid = tenantUidOf(secret);
    return uid === undefined ? undefined : this.#options.tenant(uid);
  }
}

/** The four cases (sync rule `four-cases`), by the caches alone. */
function decide({ tenant, key, pod, secret, context }: Look): Step {
  const id = keyId(key);
  const { wanted = false, keep = false } = pod === undefined ? {} : admitTokens(pod, context);
  if (secret === undefined) {
    if (pod === undefined) return nothing;
    if (tenant.expectations.super.createdUid(id) !== undefined)
      return { do: 'later', afterMs: notShownYetMs };
    if (isDeleting(pod) || !wanted) return nothing;
    const ready = tenant.namespaceReady(key.namespace);
    if (ready === 'unwanted') return nothing;
    const namespace = { kind: namespaceKind.name, name: key.namespace ?? '' };
    return ready ? { do: 'create', pod } : { do: 'await-namespace', namespace };
  }
  if (!isOurs(secret, tenant.info))
    return pod !== undefined && wanted ? { do: 'report-conflict', pod } : nothing;
  if (secret.metadata.deletionTimestamp !== undefined) return nothing;
  if (pod === undefined) {
    const unwatched = tenant.tombstones.tenant.get(id)?.uid !== originalUid(secret);
    return { do: 'delete', secret, live: unwatched, unwatched };
  }
  if (originalUid(secret) !== pod.metadata.uid)
    return { do: 'delete', secret, live: false, unwatched: false };
  // What has become of the pod decides here: while too many are missing, it proves nothing.
  if (!wanted && !keep) return { do: 'delete', secret, live: false, unwatched: true };
  if (isFinished(pod)) return nothing;
  const next = tokenSecretAction(pod, secret, context);
  // No event of the pod or of the Secret tells that the super pod is seen again.
  if (!wanted)
    return { do: 'later', afterMs: Math.max(superPodAwayMs, next.do === 'later' ? next.afterMs : 0) };
  if (next.do === 'delete') return { do: 'delete', secret, live: false, unwatched: false };
  return next.do === 'patch' ? { ...next, pod, secret } : next;
}

/** How often tokens are looked at that are due while their pod is not to be seen in the super cluster. */
const superPodAwayMs = 5_000;
/** The watch shows our own Secret, and that queues the key; a look from time to time costs next to nothing. */
const notShownYetMs = 1_000;

function keyOf({ metadata: { namespace, name: podName = '' } }: KubeObject): KeyRef {
  return { kind: name, namespace, name: podName };
}

/** Says it on the pod. */
async function notice({ tenant, pod }: Look, said: Notice, signal: AbortSignal): Promise<void> {
  if (pod !== undefined) await tenant.recorder.tryRecord(resources.pods, pod, said, signal);
}

function isBehind({ tenant, key, secret }: Look): boolean {
  return tenant.expectations.super.isBehind(keyId(key), secret);
}

/** What the tokens that are due add to the Secret, or what becomes of the key without them. */
async function issueTokens(
  look: Look,
  pod: Pod,
  secret: KubeObject | undefined,
  signal: AbortSignal,
): Promise<{ readonly added: MergePatch } | Outcome> {
  const { tenant, context } = look;
  const due = dueTokens(pod, secret, context);
  if (due.length === 0) return { added: {} };
  const serviceAccount = pod.spec?.serviceAccountName ?? 'default';
  try {
    const issued = await Promise.all(
      due.map(
        async ({ index, request }) =>
          [index, await requestToken(tenant.client, pod, serviceAccount, request, signal)] as const,
      ),
    );
    return { added: issuedContent(pod, secret, new Map(issued), context) };
  } catch (error) {
    if (signal.aborted) throw error;
    const refusal = isRefusal(error) || lacksServiceAccount(error) ? error : undefined;
    if (refusal === undefined) return outcomeOf(error);
    const why = refusal.status?.message ?? refusal.message;
    // A pod that is being deleted needs no new token; one that is gone or another by now was missed, not refused.
    if (!isDeleting(pod)) {
      const consequence = secret === undefined ? 'the pod waits for it' : 'the pod keeps the one that it has';
      const message = `no new token of the service account ${serviceAccount}: ${why}; ${consequence}`;
      await notice(look, { type: 'Warning', reason: 'TokenRefused', message }, signal);
    }
    return { is: 'refused', code: String(refusal.code), message: why };
  }
}

/** What a TokenRequest answers, as far as it is read, of whatever types: the tenant's API server may be any server. */
interface TokenAnswer {
  spec?: { expirationSeconds?: unknown } | null;
  status?: { token?: unknown } | null;
}

/** In characters. Those of API servers have some 1,000, and most HTTP servers take no header as long as this. */
const longestToken = 16 * 1024;
/** In seconds: no API server issues a token for less. */
const shortestLifetime = 600;

async function requestToken(
  client: KubeClient,
  { metadata: { namespace, name: podName, uid } }: Pod,
  serviceAccount: string,
  { audience, expirationSeconds }: TokenRequest,
  signal: AbortSignal,
): Promise<IssuedToken> {
  const request = {
    apiVersion: 'authentication.k8s.io/v1',
    kind: 'TokenRequest',
    spec: {
      audiences: audience === '' ? [] : [audience],
      expirationSeconds,
      boundObjectRef: { apiVersion: 'v1', kind: 'Pod', name: podName, uid },
    },
  };
  const ref = { namespace, name: serviceAccount };
  const answer = await client.createSubresource<TokenAnswer>(
    resources.serviceAccounts,
    ref,
    'token',
    request,
    { signal },
  );
  const token = answer.status?.token;
  if (typeof token !== 'string' || token === '' || token.length > longestToken)
    throw new ConnectionError(
      client.connection.server,
      'ERR_INVALID_OBJECT',
      undefined,
      'the answer to a TokenRequest holds no token',
    );
  const lifetimes = [answer.spec?.expirationSeconds, expirationSeconds];
  return { token, lifetimeSeconds: lifetimes.find(isLifetime) ?? shortestLifetime };
}

function isLifetime(seconds: unknown): seconds is number {
  return Number.isInteger(seconds) && (seconds as number) > 0;
}

/** Not where the pod's UID did not match, or the pod is gone: 409 and 404 as well, but then the cache was behind. */
function lacksServiceAccount(error: unknown): error is ApiError {
  return !isConflict(error) && isNotFound(error) && error.status?.details?.kind === 'serviceaccounts';
}
