import { hash } from 'node:crypto';

/** Which tokens a pod asks for, and where they are in the super cluster (sync rule `pod-tokens`). */

/** A token that a pod asks for. */
export interface TokenRequest {
  /** Empty: the default audience of the tenant's API server. */
  readonly audience: string;
  readonly expirationSeconds: number;
}

/** A token as a source of a projected volume. */
export interface TokenSource {
  audience?: string;
  expirationSeconds?: number;
  path?: string;
}

interface WithVolumes {
  volumes?: readonly { projected?: { sources?: readonly { serviceAccountToken?: TokenSource }[] | null } }[];
}

/** What the API server puts in where a pod does not say. */
const defaultSeconds = 3_600;

/** As many different tokens as a pod may ask for: each is a request of its own. */
export const maxTokenRequests = 32;

/**
 * The tokens that a pod asks for, each once, and no more than it may. A pod's volumes never change, so the order is for
 * its life.
 */
export function tokenRequests(spec: WithVolumes | undefined): TokenRequest[] {
  return requestsUpTo(spec, maxTokenRequests);
}

/** Whether a pod asks for more different tokens than it may. */
export function hasTooManyTokenRequests(spec: WithVolumes | undefined): boolean {
  return requestsUpTo(spec, maxTokenRequests + 1).length > maxTokenRequests;
}

function requestsUpTo(spec: WithVolumes | undefined, most: number): TokenRequest[] {
  const requests = new Map<string, TokenRequest>();
  for (const { projected } of spec?.volumes ?? []) {
    for (const { serviceAccountToken } of projected?.sources ?? []) {
      if (serviceAccountToken === undefined) continue;
      const request = requestOf(serviceAccountToken);
      const id = `${request.expirationSeconds} ${request.audience}`;
      if (!requests.has(id)) requests.set(id, request);
      if (requests.size === most) return [...requests.values()];
    }
  }
  return [...requests.values()];
}

/** Under which key the Secret of a pod holds the token of a source. */
export function tokenKeyOf(source: TokenSource, requests: readonly TokenRequest[]): string {
  const request = requestOf(source);
  return tokenKey(requests.findIndex((other) => isSame(request, other)));
}

/** The key of the request at this place in `tokenRequests`. */
export function tokenKey(index: number): string {
  return `token-${index}`;
}

const prefix = 'skerry-token-';
/** Of an object's name. */
const maxLength = 253;
const hashLength = 16;

/** The Secret in the super namespace that holds the tokens of this pod. Two pods never share one. */
export function tokenSecretName(podName: string): string {
  const whole = prefix + podName;
  // Cut names are exactly as long as a name can be, whole ones shorter.
  if (whole.length < maxLength) return whole;
  const cut = whole.slice(0, maxLength - hashLength - 1);
  return `${cut}-${hash('sha256', podName, 'hex').slice(0, hashLength)}`;
}

/** Inverse of `tokenSecretName`; undefined where the name does not tell. */
export function podOfTokenSecret(secretName: string): string | undefined {
  if (!secretName.startsWith(prefix) || secretName.length === maxLength) return undefined;
  return secretName.slice(prefix.length);
}

function requestOf({ audience = '', expirationSeconds = defaultSeconds }: TokenSource): TokenRequest {
  return { audience, expirationSeconds };
}

function isSame(a: TokenRequest, b: TokenRequest): boolean {
  return a.audience === b.audience && a.expirationSeconds === b.expirationSeconds;
}
