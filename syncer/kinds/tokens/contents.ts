import { hash } from 'node:crypto';
import { annotationKeys } from '../../../api/labels.ts';
import type { KubeObject } from '../../../kube/index.ts';
import type { IssuedToken, TokenAsk } from '../action.ts';
import { tokenKey } from '../pod-tokens.ts';
import { isRenewalDue } from './renewal.ts';

/** What a Secret says of one of its tokens, in an annotation. */
interface TokenRecord extends TokenAsk {
  /** ISO 8601. */
  readonly renewAt: string;
  /** Of the token as it was written: tells whether somebody else has written since. */
  readonly digest: string;
}

/** What is kept of a Secret's tokens: enough to see whether they are the right ones. */
export interface Contents {
  /** In the order of the pod's asks, whatever may be wrong with them. */
  readonly records: readonly Partial<TokenRecord>[];
  /** Of each key's value. */
  readonly digests: Readonly<Record<string, string>>;
}

/** A token with when it is to be renewed. */
export interface DatedToken extends IssuedToken {
  readonly renewAtMs: number;
}

/** A Secret for the cache: digests of its values in place of the values. */
export function withoutTokens(secret: KubeObject): KubeObject {
  const { data: _data, stringData: _stringData, ...rest } = secret;
  return { ...rest, digests: digestsOf(secret) };
}

/** Of a Secret in full or as the cache has it. */
export function contentsOf(secret: KubeObject): Contents {
  const { annotations } = secret.metadata;
  return { records: parseRecords(annotations?.[annotationKeys.tokens]), digests: digestsOf(secret) };
}

/** The asks, by index, whose token is missing, not the one that was written, or due to be renewed. */
export function dueAsks(asks: readonly TokenAsk[], contents: Contents, nowMs: number): number[] {
  const { records, digests } = contents;
  return [...asks.keys()].filter((index) => {
    const ask = asks[index] as TokenAsk;
    const record = records[index];
    if (record?.audience !== ask.audience || record.expirationSeconds !== ask.expirationSeconds) return true;
    const digest = digests[tokenKey(index)];
    if (digest === undefined || digest !== record.digest) return true;
    return isRenewalDue(renewAtMs(record), nowMs);
  });
}

/** Keys that somebody else has put into the Secret. */
export function strayKeys(asks: readonly TokenAsk[], { digests }: Contents): string[] {
  const own = new Set([...asks.keys()].map(tokenKey));
  return Object.keys(digests).filter((key) => !own.has(key));
}

/** When the next of a pod's tokens is to be renewed; of contents in which none is due. */
export function nextRenewalMs(contents: Contents): number {
  return Math.min(...contents.records.map(renewAtMs));
}

/** The annotation and the data of a Secret that has these new tokens, by index of their ask, in place of others. */
export function replaceTokens(
  asks: readonly TokenAsk[],
  present: Contents,
  issued: ReadonlyMap<number, DatedToken>,
): { annotations: Record<string, string>; data: Record<string, string> } {
  const data: Record<string, string> = {};
  const records = asks.map((ask, index) => {
    const fresh = issued.get(index);
    if (fresh === undefined) return present.records[index];
    const value = Buffer.from(fresh.token).toString('base64');
    data[tokenKey(index)] = value;
    return { ...ask, renewAt: new Date(fresh.renewAtMs).toISOString(), digest: digestOf(value) };
  });
  return { annotations: { [annotationKeys.tokens]: JSON.stringify(records) }, data };
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
