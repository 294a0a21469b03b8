import { type ApiError, isConflict, isNotFound, type KubeObject, resources } from '../../kube/index.ts';
import type { TokenAsk } from '../kinds/pods/token-asks.ts';
import { dueTokens, type IssuedToken, withTokens } from '../kinds/pods/tokens.ts';
import { type ActionGate, recordNotice, type Work } from '../reconcile/execute.ts';
import { isRefusal, type Outcome, outcomeOf } from '../reconcile/outcome.ts';

/**
 * Has the tenant's API server issue the tokens that the Secret of a pod is to get, bound to the pod, so that they end
 * with it (sync rule `pod-tokens`).
 */
export const podTokenGate: ActionGate = async (work, action) => {
  const { tenantObject: pod, superObject, context } = work.situation;
  if (pod === undefined || action.do === 'deleteTenant' || action.do === 'deleteSuper') return action;
  const secret = action.do === 'createSuper' ? undefined : superObject;
  const due = dueTokens(pod, secret, context.nowMs);
  if (due.length === 0) return action;
  const { serviceAccountName = 'default' } = (pod['spec'] ?? {}) as { serviceAccountName?: string };
  try {
    const issued = await Promise.all(
      due.map(async ({ index, ask }) => [index, await issue(work, serviceAccountName, ask)] as const),
    );
    return withTokens(pod, secret, action, new Map(issued), context.nowMs);
  } catch (error) {
    if (work.signal.aborted) throw error;
    return failed(work, serviceAccountName, error);
  }
};

/** What a TokenRequest answers, as far as it is read. */
interface TokenAnswer extends KubeObject {
  spec?: { expirationSeconds?: number };
  status?: { token?: string };
}

async function issue(
  { tenant, situation, signal }: Work,
  serviceAccount: string,
  { audience, expirationSeconds }: TokenAsk,
): Promise<IssuedToken> {
  const { name, namespace, uid } = situation.tenantObject?.metadata ?? {};
  const request = {
    apiVersion: 'authentication.k8s.io/v1',
    kind: 'TokenRequest',
    spec: {
      audiences: audience === '' ? [] : [audience],
      expirationSeconds,
      boundObjectRef: { apiVersion: 'v1', kind: 'Pod', name, uid },
    },
  };
  const answer = await tenant.client.createSubresource<TokenAnswer>(
    resources.serviceAccounts,
    { namespace, name: serviceAccount },
    'token',
    request,
    { signal },
  );
  const token = answer.status?.token;
  if (token === undefined || token === '') throw new Error('the answer to a TokenRequest holds no token');
  return { token, lifetimeSeconds: answer.spec?.expirationSeconds ?? expirationSeconds };
}

/** What becomes of a pod whose tokens were not issued; says why on the pod where that is the tenant's to mend. */
async function failed(work: Work, serviceAccount: string, error: unknown): Promise<Outcome> {
  const { tenantObject, superObject } = work.situation;
  const refusal = isRefusal(error) || lacksServiceAccount(error) ? error : undefined;
  if (refusal === undefined) return outcomeOf(error);
  const why = refusal.status?.message ?? refusal.message;
  // A pod that is being deleted needs no new token; one that is gone or another by now was missed, not refused.
  if (tenantObject?.metadata.deletionTimestamp === undefined) {
    const consequence =
      superObject === undefined ? 'the pod waits for it' : 'the pod keeps the one that it has';
    const message = `no new token of the service account ${serviceAccount}: ${why}; ${consequence}`;
    await recordNotice(work, { type: 'Warning', reason: 'TokenRefused', message });
  }
  return { is: 'refused', code: String(refusal.code), message: why };
}

/** Not where the pod's UID did not match, or the pod is gone: 409 and 404 as well, but then the cache was behind. */
function lacksServiceAccount(error: unknown): error is ApiError {
  return !isConflict(error) && isNotFound(error) && error.status?.details?.kind === 'serviceaccounts';
}
