import { type ApiError, isConflict, isNotFound, type KubeObject, resources } from '../../kube/index.ts';
import type { Action, IssuedToken, Notice, TokenAsk } from '../kinds/index.ts';
import { isRefusal, type Outcome, outcomeOf } from './outcome.ts';
import type { Work } from './writes.ts';

export type Issued =
  | { readonly is: 'issued'; readonly tokens: readonly IssuedToken[] }
  | { readonly is: 'failed'; readonly outcome: Outcome; readonly notice?: Notice };

/** What a TokenRequest answers, as far as it is read. */
interface TokenAnswer extends KubeObject {
  spec?: { expirationSeconds?: number };
  status?: { token?: string };
}

/** Tokens of a service account of the tenant, bound to T: they end with it. Rejects only when aborted. */
export async function issueTokens(work: Work, action: Action & { do: 'issueTokens' }): Promise<Issued> {
  try {
    const { serviceAccount, asks } = action;
    return { is: 'issued', tokens: await Promise.all(asks.map((ask) => issue(work, serviceAccount, ask))) };
  } catch (error) {
    if (work.signal.aborted) throw error;
    return failed(work, action.serviceAccount, error);
  }
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

function failed(work: Work, serviceAccount: string, error: unknown): Issued {
  const refusal = isRefusal(error) || lacksServiceAccount(error) ? error : undefined;
  if (refusal === undefined) return { is: 'failed', outcome: outcomeOf(error) };
  const why = refusal.status?.message ?? refusal.message;
  const outcome: Outcome = { is: 'refused', code: String(refusal.code), message: why };
  // Nobody waits for the token of a pod that ends; one that is gone or another by now is not refused, but missed.
  if (work.situation.tenantObject?.metadata.deletionTimestamp !== undefined) return { is: 'failed', outcome };
  const consequence =
    work.situation.superObject === undefined ? 'the pod waits for it' : 'the pod keeps the one that it has';
  const message = `no new token of the service account ${serviceAccount}: ${why}; ${consequence}`;
  return { is: 'failed', outcome, notice: { type: 'Warning', reason: 'TokenRefused', message } };
}

/** T's UID did not match, or T is gone: 409 and 404 as well, but those are the cache's fault. */
function lacksServiceAccount(error: unknown): error is ApiError {
  return !isConflict(error) && isNotFound(error) && error.status?.details?.kind === 'serviceaccounts';
}
