import { hash } from 'node:crypto';

/** Which tokens a pod asks for, and where they are in the super cluster (sync rule `pod-tokens`). */

/** A token that a pod asks for. */
export interface TokenAsk {
  /** Empty: whom the tenant's API server itself issues tokens for. */
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
export const mostTokenAsks = 32;

/**
 * The tokens that a pod asks for, each once, and no more than it may. A pod's volumes never change, so the order is for
 * its life.
 */
export function tokenAsks(spec: WithVolumes | undefined): TokenAsk[] {
  return asksUpTo(spec, mostTokenAsks);
}

/** Whether a pod asks for more different tokens than it may. */
export function hasTooManyAsks(spec: WithVolumes | undefined): boolean {
  return asksUpTo(spec, mostTokenAsks + 1).length > mostTokenAsks;
}

function asksUpTo(spec: WithVolumes | undefined, most: number): TokenAsk[] {
  const asks = new Map<string, TokenAsk>();
  for (const { projected } of spec?.volumes ?? []) {
    for (const { serviceAccountToken } of projected?.sources ?? []) {
      if (serviceAccountToken === undefined) continue;
      const ask = askOf(serviceAccountToken);
      const id = `${ask.expirationSeconds} ${ask.audience}`;
      if (!asks.has(id)) asks.set(id, ask);
      if (asks.size === most) return [...asks.values()];
    }
  }
  return [...asks.values()];
}

/** Under which key the Secret of a pod holds the token of a source. */
export function tokenKeyOf(source: TokenSource, asks: readonly TokenAsk[]): string {
  const ask = askOf(source);
  return tokenKey(asks.findIndex((other) => isSame(ask, other)));
}

/** The key of the ask at this place in `tokenAsks`. */
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

function askOf({ audience = '', expirationSeconds = defaultSeconds }: TokenSource): TokenAsk {
  return { audience, expirationSeconds };
}

function isSame(a: TokenAsk, b: TokenAsk): boolean {
  return a.audience === b.audience && a.expirationSeconds === b.expirationSeconds;
}
