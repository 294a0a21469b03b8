import { hash } from 'node:crypto';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import { apiVersionOf, type KubeObject, type MergePatch, resources } from '../../kube/index.ts';
import type { SyncContext } from '../context.ts';
import type { Admission } from '../kinds/contract.ts';
import { admitPod } from '../kinds/pods/admission.ts';
import {
  podOfTokenSecret,
  type TokenRequest,
  tokenKey,
  tokenRequests,
  tokenSecretName,
} from '../kinds/pods/token-requests.ts';
import { isFinished, type Pod } from '../kinds/pods/types.ts';
import { isOurs, originalUid } from '../mapping/labels.ts';
import { type SuperMetadataOptions, superMetadata, superMetadataPatch } from '../mapping/metadata.ts';
import { superNamespaceName } from '../mapping/names.ts';
import type { ChargedObjects } from '../quota/quota-admission.ts';

/**
 * The Secret with the tokens of one pod, in the place of those that kubelet would ask for (sync rule `pod-tokens`):
 * which pods have one, what it holds, and when its tokens are renewed. All functions are pure.
 */

/** Share of its life after which a token is renewed. */
const lifeShare = 0.8;
/** Kubelet takes up to two minutes to bring a changed Secret into a pod. */
const marginMs = 3 * 60_000;
/** As kubelet does it with tokens that live longer. */
const longestMs = 24 * 3_600_000;
/** So much of its life earlier at most: pods that were made together are not renewed together. */
const spreadShare = 0.05;

/** Before a token ends, an API server that is asleep has to start, and kubelet to bring the new token into the pod. */
const wakeMarginMs = marginMs + 60_000;
/** So much of the time from the renewal to the end earlier at most, and no more than this: not all wake at once. */
const wakeSpread = { share: 0.25, longestMs: 6 * 3_600_000 };

/** When to renew a token that a pod gets now. The same for the same pod. */
export function renewalMs(lifetimeSeconds: number, podUid: string, nowMs: number): number {
  const lifeMs = lifetimeSeconds * 1_000;
  const latest = Math.min(lifeShare * lifeMs, lifeMs - marginMs, longestMs);
  const after = latest - fractionOf(podUid) * spreadShare * Math.min(lifeMs, longestMs);
  // No server grants so little; one that did would be asked without end.
  return nowMs + Math.round(Math.max(after, Math.min(lifeMs, longestMs) / 2));
}

/** Also for a time that no correct clock can have written. */
export function isRenewalDue(renewAtMs: number, nowMs: number): boolean {
  return !(renewAtMs > nowMs && renewAtMs <= nowMs + longestMs);
}

/** In [0, 1). */
function fractionOf(text: string): number {
  return Number.parseInt(hash('sha256', text, 'hex').slice(0, 8), 16) / 2 ** 32;
}

/** What a Secret says of one of its tokens, in an annotation. */
interface TokenRecord extends TokenRequest {
  /** ISO 8601. */
  readonly renewAt: string;
  /** When it ends, ISO 8601: default tokens are reported to live an hour, and live a year. */
  readonly expires?: string | undefined;
  /** Of the token as it was written: tells whether another client has written since. */
  readonly digest: string;
  /** Which key signed it (`TenantInfo.tokenKey`). */
  readonly key?: string | undefined;
}

/** What is kept of a Secret's tokens: enough to see whether they are the right ones. */
interface Contents {
  /** In the order of the pod's requests, whatever may be wrong with them. */
  readonly records: readonly Partial<TokenRecord>[];
  /** Of each key's value. */
  readonly digests: Readonly<Record<string, string>>;
}

export interface IssuedToken {
  /** A secret: belongs in the object that is written, and nowhere else. */
  readonly token: string;
  /** How long the server says that it lives. It may grant less than was asked for. */
  readonly lifetimeSeconds: number;
}

/** A token with when it is to be renewed, and when it ends. */
interface DatedToken extends IssuedToken {
  readonly renewAtMs: number;
  readonly expiresMs: number;
}

/** A Secret for the cache: digests and lengths of its values in place of the values. */
export function withoutTokens(secret: KubeObject): KubeObject {
  const { data: _data, stringData: _stringData, ...rest } = secret;
  return { ...rest, digests: digestsOf(secret), lengths: lengthsOf(secret) };
}

/** Size as JSON of a Secret in full, or as the cache has it, or of such a one with new tokens. */
function bytesOfSecret(secret: KubeObject): number {
  const { data: _data, digests: _digests, lengths: _lengths, ...rest } = secret;
  let bytes = Buffer.byteLength(JSON.stringify(rest));
  for (const [key, length] of Object.entries(lengthsOf(secret)))
    bytes += Buffer.byteLength(JSON.stringify(key)) + length + bytesBesideValue;
  return bytes;
}

/** Quotes, a colon and a comma. */
const bytesBesideValue = 4;

/** Of each key's value; what is there in full goes before what was kept. */
function lengthsOf(secret: KubeObject): Record<string, number> {
  const data = (secret['data'] ?? {}) as Record<string, string>;
  const shown = Object.entries(data).map(([key, value]) => [key, value.length] as const);
  return { ...(secret['lengths'] as Record<string, number> | undefined), ...Object.fromEntries(shown) };
}

/** Of a Secret in full or as the cache has it. */
function contentsOf(secret: KubeObject): Contents {
  const { annotations } = secret.metadata;
  return { records: parseRecords(annotations?.[annotationKeys.tokens]), digests: digestsOf(secret) };
}

/** When it is, and which key signs tokens. */
interface Present {
  readonly nowMs: number;
  readonly tenant: Pick<SyncContext['tenant'], 'tokenKey'>;
}

/** The requests, by index, whose token is missing, not the one that was written, signed by a key that goes, or due. */
function dueRequests(
  requests: readonly TokenRequest[],
  contents: Contents,
  { nowMs, tenant }: Present,
): number[] {
  const { records, digests } = contents;
  return [...requests.keys()].filter((index) => {
    const request = requests[index] as TokenRequest;
    const record = records[index];
    if (record?.audience !== request.audience || record.expirationSeconds !== request.expirationSeconds)
      return true;
    const digest = digests[tokenKey(index)];
    if (digest === undefined || digest !== record.digest) return true;
    return record.key !== tenant.tokenKey || isRenewalDue(renewAtMs(record), nowMs);
  });
}

/** Keys that another client has put into the Secret. */
function strayKeys(requests: readonly TokenRequest[], { digests }: Contents): string[] {
  const own = new Set([...requests.keys()].map(tokenKey));
  return Object.keys(digests).filter((key) => !own.has(key));
}

/** When the next of a pod's tokens is to be renewed; of contents in which none is due. */
function nextRenewalMs(contents: Contents): number {
  return Math.min(...contents.records.map(renewAtMs));
}

/** The annotation and the data of a Secret that has these new tokens, by index of their request, in place of others. */
function replaceTokens(
  requests: readonly TokenRequest[],
  present: Contents,
  issued: ReadonlyMap<number, DatedToken>,
  key: string | undefined,
): { annotations: Record<string, string>; data: Record<string, string> } {
  const data: Record<string, string> = {};
  const records = requests.map((request, index) => {
    const fresh = issued.get(index);
    if (fresh === undefined) return present.records[index];
    const value = Buffer.from(fresh.token).toString('base64');
    data[tokenKey(index)] = value;
    const [renewAt, expires] = [fresh.renewAtMs, fresh.expiresMs].map((ms) => new Date(ms).toISOString());
    return { ...request, renewAt, expires, digest: digestOf(value), key };
  });
  return { annotations: { [annotationKeys.tokens]: JSON.stringify(records) }, data };
}

/** As the token itself says. What makes no sense there is taken for what the server says. */
function expiryMs({ token, lifetimeSeconds }: IssuedToken, nowMs: number): number {
  const reportedMs = nowMs + Math.min(lifetimeSeconds * 1_000, longestLifeMs);
  try {
    const payload = Buffer.from(token.split('.', 2)[1] ?? '', 'base64url').toString();
    const { exp } = JSON.parse(payload) as { exp?: unknown };
    const ms = typeof exp === 'number' ? exp * 1_000 : Number.NaN;
    return ms >= reportedMs && ms <= nowMs + longestLifeMs ? ms : reportedMs;
  } catch {
    return reportedMs;
  }
}

/** Of what is believed: dates have to stay such. */
const longestLifeMs = 100 * 365 * 24 * 3_600_000;

/**
 * When a tenant that is asleep has to be woken for these tokens: in time before one ends, and not before it is to be
 * renewed. Infinity: for none, as for those of which it is not known.
 */
export function wakeAtMs(secret: KubeObject): number {
  const spread = fractionOf(secret.metadata.uid ?? '');
  const times = parseRecords(secret.metadata.annotations?.[annotationKeys.tokens]).map((record) => {
    const renewMs = renewAtMs(record);
    const endMs = Date.parse(record.expires ?? '');
    if (Number.isNaN(renewMs) || Number.isNaN(endMs)) return Number.POSITIVE_INFINITY;
    const early = spread * Math.min(wakeSpread.share * Math.max(endMs - renewMs, 0), wakeSpread.longestMs);
    return Math.max(renewMs, endMs - wakeMarginMs - early);
  });
  return Math.min(...times, Number.POSITIVE_INFINITY);
}

function digestsOf(secret: KubeObject): Record<string, string> {
  const kept = secret['digests'] as Record<string, string> | undefined;
  if (kept !== undefined) return kept;
  const data = (secret['data'] ?? {}) as Record<string, string>;
  return Object.fromEntries(Object.entries(data).map(([key, value]) => [key, digestOf(value)]));
}

function digestOf(value: string): string {
  return hash('sha256', value, 'base64url').slice(0, 22);
}

function renewAtMs({ renewAt = '' }: Partial<TokenRecord>): number {
  return Date.parse(renewAt);
}

/** Tolerates anything: the annotation can be edited in the super cluster. */
function parseRecords(text: string | undefined): Partial<TokenRecord>[] {
  try {
    const parsed: unknown = JSON.parse(text ?? '[]');
    if (!Array.isArray(parsed)) return [];
    return parsed.map((record: unknown) => (typeof record === 'object' && record !== null ? record : {}));
  } catch {
    return [];
  }
}

/** What these Secrets are called; their keys are those of their pods, but for the kind. */
export const tokenSecrets: ChargedObjects = {
  name: 'tokens',
  resource: resources.secrets,
  tenantResource: resources.pods,
  superName: tokenSecretName,
  tenantName: (superName, superObject) =>
    podOfTokenSecret(superName) ?? superObject?.metadata.annotations?.[annotationKeys.pod] ?? superName,
  bytesOf: bytesOfSecret,
};

/** Whether a pod asks for tokens, and has the node that they name: before that is known, none is asked for. */
export function isReadyForTokens({ spec }: Pod): boolean {
  return (spec?.nodeName ?? '') !== '' && tokenRequests(spec).length > 0;
}

/**
 * A bound pod gets its tokens, one that has run keeps its last, as does one whose super pod is not there. Before the
 * binding there is none: the tenant's API server puts the node into the token, and kubelet waits for the Secret as it
 * would for a token.
 */
export function admitTokens(pod: Pod, context: SyncContext): Admission {
  if (tokenRequests(pod.spec).length === 0) return { wanted: false };
  if (isFinished(pod)) return { wanted: false, keep: true };
  if (!isReadyForTokens(pod)) return { wanted: false };
  // A tenant can mark any pod as bound; only what has passed admission and quota runs.
  if (!hasSuperPod(pod, context)) return { wanted: false, keep: true };
  // Most pods, and looked at before.
  if (pod.metadata.annotations?.[annotationKeys.superUid] !== undefined) return { wanted: true };
  return { wanted: admitPod(pod, context).wanted };
}

function hasSuperPod({ metadata: { namespace = '', name = '', uid } }: Pod, context: SyncContext): boolean {
  const { tenant, superObjects } = context;
  const ref = { namespace: superNamespaceName(tenant, namespace), name };
  const superPod = superObjects.get<Pod>(resources.pods, ref);
  return superPod !== undefined && isOurs(superPod, tenant) && originalUid(superPod) === uid;
}

/** The Secret as it is created, but for the tokens: they have to be asked for. */
export function emptyTokenSecret(pod: Pod, context: SyncContext): KubeObject {
  const metadata = superMetadata(pod, context, metadataOptions(pod));
  return {
    apiVersion: apiVersionOf(resources.secrets),
    kind: resources.secrets.kind,
    metadata: {
      ...metadata,
      annotations: { ...metadata.annotations, [annotationKeys.pod]: pod.metadata.name ?? '' },
    },
    type: 'Opaque',
  };
}

/**
 * What is to be done about the Secret that a pod has: a patch, to which the tokens that are due are added when it is
 * written; a deletion, where it cannot be changed; nothing before it is time to renew.
 */
export type TokenSecretAction =
  | { readonly do: 'patch'; readonly patch: MergePatch }
  | { readonly do: 'delete' }
  | { readonly do: 'later'; readonly afterMs: number };

export function tokenSecretAction(pod: Pod, secret: KubeObject, context: SyncContext): TokenSecretAction {
  const requests = tokenRequests(pod.spec);
  const contents = contentsOf(secret);
  const due = dueRequests(requests, contents, context);
  const stray = strayKeys(requests, contents);
  if (due.length + stray.length > 0 && secret['immutable'] === true) return { do: 'delete' };
  const metadata = marksPatch(pod, secret, context);
  const emptied = stray.length === 0 ? {} : { data: Object.fromEntries(stray.map((key) => [key, null])) };
  if (metadata !== undefined || stray.length > 0 || due.length > 0)
    return { do: 'patch', patch: { ...(metadata && { metadata }), ...emptied } };
  return { do: 'later', afterMs: nextRenewalMs(contents) - context.nowMs };
}

/** Which tokens a pod's Secret lacks or is to have renewed, by index of their request; all of them without a Secret. */
export function dueTokens(
  pod: Pod,
  secret: KubeObject | undefined,
  present: Present,
): readonly { readonly index: number; readonly request: TokenRequest }[] {
  const requests = tokenRequests(pod.spec);
  const due =
    secret === undefined ? [...requests.keys()] : dueRequests(requests, contentsOf(secret), present);
  return due.map((index) => ({ index, request: requests[index] as TokenRequest }));
}

/** What is added to a Secret, or to its patch, for these tokens, by index of their request. */
export function issuedContent(
  pod: Pod,
  secret: KubeObject | undefined,
  issued: ReadonlyMap<number, IssuedToken>,
  { nowMs, tenant }: Present,
): MergePatch {
  const dated = new Map(
    [...issued].map(([index, token]): [number, DatedToken] => [
      index,
      {
        ...token,
        renewAtMs: renewalMs(token.lifetimeSeconds, pod.metadata.uid ?? '', nowMs),
        expiresMs: expiryMs(token, nowMs),
      },
    ]),
  );
  const present = secret === undefined ? { records: [], digests: {} } : contentsOf(secret);
  const { annotations, data } = replaceTokens(tokenRequests(pod.spec), present, dated, tenant.tokenKey);
  return { metadata: { annotations }, data };
}

/** Nothing of the pod's own labels and annotations: nothing selects this Secret by them. */
function metadataOptions(pod: Pod): SuperMetadataOptions {
  return {
    name: tokenSecretName(pod.metadata.name ?? ''),
    goesDown: () => false,
    labels: { [labelKeys.token]: 'true' },
  };
}

function marksPatch(
  pod: Pod,
  secret: KubeObject,
  context: SyncContext,
): { annotations?: MergePatch; labels?: MergePatch } | undefined {
  const patch = superMetadataPatch(pod, secret, context, metadataOptions(pod))?.['metadata'] as
    | { annotations?: MergePatch; labels?: MergePatch }
    | undefined;
  const { name = '' } = pod.metadata;
  if (secret.metadata.annotations?.[annotationKeys.pod] === name) return patch;
  return { ...patch, annotations: { ...patch?.annotations, [annotationKeys.pod]: name } };
}
