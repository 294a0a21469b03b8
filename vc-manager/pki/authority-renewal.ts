import { hash } from 'node:crypto';
import { createAuthority, createServiceAccountKey } from './certificates.ts';
import { damagedAuthority } from './errors.ts';
import type { PkiData } from './pki-set.ts';

/**
 * The authorities that are renewed, by name. That of a tenant's own datastore stays: nothing outside the control plane has a
 * certificate of it.
 */
const authorityNames = ['client-ca', 'serving-ca', 'front-proxy-ca', 'kubelet-client-ca'] as const;
const tokenKeyName = 'service-account';

/**
 * One stage of a renewal. `distribute`: the old ones sign, and everything learns to trust the new ones too. `overlap`: the new
 * ones sign, and the old ones are still trusted; but API servers still show a certificate of the old serving CA, the only one
 * that kubeconfigs from before know. After that the new ones are alone.
 */
export type AuthorityStage = 'distribute' | 'overlap';

interface AuthorityRenewal {
  readonly stage: AuthorityStage;
  /** The request that it follows. */
  readonly request: string;
  /** How long each stage lasts from when the control plane has taken it up; 0: the old ones go at once. */
  readonly overlapMs: number;
  /**
   * Trusted beside the current ones. At `distribute` the new ones, with their keys; at `overlap` the old ones, without, and
   * the new serving CA.
   */
  readonly others: PkiData;
  /** When the control plane had taken the stage up. ISO 8601. */
  readonly reachedAt?: string;
}

/** How far a renewal of a tenant's authorities is. Stored in its PKI Secret. */
export interface AuthorityState {
  readonly renewal?: AuthorityRenewal;
  /** The last request that was followed or cancelled. */
  readonly followed?: string;
  /** Stands for the key that signs tokens, once it was renewed: tokens that were asked for under another are renewed. */
  readonly tokenKey?: string;
}

const servingEntries = ['serving-ca.crt', 'serving-ca.key'];
const entry = 'authorities.json';

export interface AuthorityRequest {
  readonly request: string;
  readonly overlapMs: number;
}

/** Long enough for kubelets to bring changed Secrets into pods, and for what polls every few minutes. */
export const defaultOverlapMs = 10 * 60_000;
const longestOverlapMs = 30 * 24 * 60 * 60_000;

/** The value of the annotation: any text, with `overlap=SECONDS` if the default does not suit. */
export function parseAuthorityRequest(value: string): AuthorityRequest {
  const seconds = /(?:^|\s)overlap=([0-9]{1,8})$/.exec(value)?.[1];
  const overlapMs = seconds === undefined ? defaultOverlapMs : Number(seconds) * 1_000;
  return { request: value, overlapMs: Math.min(overlapMs, longestOverlapMs) };
}

/** Throws `DamagedAuthority` when the entry cannot be read: which authorities are trusted would be unknown. */
export function authorityState(data: PkiData | undefined): AuthorityState {
  const text = data?.[entry];
  if (text === undefined || text === '') return {};
  try {
    return JSON.parse(text) as AuthorityState;
  } catch (error) {
    throw damagedAuthority(entry, 'it is not JSON', error);
  }
}

function withState(data: PkiData, state: AuthorityState): PkiData {
  return { ...data, [entry]: JSON.stringify(state) };
}

interface EnsureOptions {
  readonly id: string;
  /** A request that has not been followed. */
  readonly request: AuthorityRequest | undefined;
  readonly now: Date;
}

/**
 * The data of a PKI with the stage of the renewal that is due: begun by a request, and the next one when the stage before
 * has lasted long enough. The same object when nothing is. A request for no overlap is followed at any stage and makes
 * all before it worthless; another one waits for the end of the renewal that is under way.
 */
export async function ensureAuthorities(
  data: PkiData,
  { id, request, now }: EnsureOptions,
): Promise<PkiData> {
  const state = authorityState(data);
  const { renewal } = state;
  const asked = request?.request === state.followed ? undefined : request;
  if (asked?.overlapMs === 0 && asked.request !== renewal?.request) {
    const fresh = await newAuthorities(id, now);
    return withState({ ...data, ...fresh }, begun(state, { ...asked, stage: 'overlap', others: {} }));
  }
  if (renewal === undefined) {
    if (asked === undefined) return data;
    const others = await newAuthorities(id, now);
    return withState(data, begun(state, { ...asked, stage: 'distribute', others }));
  }
  const { stage, reachedAt, overlapMs, others } = renewal;
  if (reachedAt === undefined || now.getTime() < Date.parse(reachedAt) + overlapMs) return data;
  const serving = Object.fromEntries(servingEntries.map((name) => [name, others[name] ?? data[name] ?? '']));
  if (stage === 'overlap') return withState({ ...data, ...serving }, ended(state, renewal.request));
  const { reachedAt: _, ...rest } = renewal;
  return withState(
    { ...data, ...without(others, servingEntries) },
    begun(state, { ...rest, stage: 'overlap', others: { ...trustOnly(data), ...serving } }),
  );
}

function begun(state: AuthorityState, renewal: AuthorityRenewal): AuthorityState {
  return { ...state, renewal };
}

function ended({ renewal: _, ...state }: AuthorityState, request: string): AuthorityState {
  return { ...state, followed: request };
}

async function newAuthorities(id: string, now: Date): Promise<PkiData> {
  const data: Record<string, string> = {};
  for (const name of authorityNames) {
    const made = await createAuthority({ commonName: authorityCommonName(id, name), now });
    data[`${name}.crt`] = made.certPem;
    data[`${name}.key`] = made.keyPem;
  }
  const key = await createServiceAccountKey();
  data[`${tokenKeyName}.key`] = key.privatePem;
  data[`${tokenKeyName}.pub`] = key.publicPem;
  return data;
}

/** The same for old and new: by it the kubelet proxy knows the tenant. */
export function authorityCommonName(id: string, name: (typeof authorityNames)[number]): string {
  return `skerry ${id} ${name.replace(/-ca$/, '')} CA`;
}

function without(data: PkiData, names: readonly string[]): PkiData {
  return Object.fromEntries(Object.entries(data).filter(([name]) => !names.includes(name)));
}

function trustOnly(data: PkiData): PkiData {
  const names = [...authorityNames.map((name) => `${name}.crt`), `${tokenKeyName}.pub`];
  return Object.fromEntries(names.map((name) => [name, data[name] ?? '']));
}

/** The control plane runs with this stage. The same object where that is known. */
export function reachedStage(data: PkiData, now: Date): PkiData {
  const state = authorityState(data);
  const { renewal } = state;
  if (renewal === undefined || renewal.reachedAt !== undefined) return data;
  const reached = { ...renewal, reachedAt: now.toISOString() };
  // From now on the API servers sign with the new key.
  const tokenKey = hash('sha256', data[`${tokenKeyName}.pub`] ?? '', 'hex').slice(0, 16);
  return withState(data, { ...state, renewal: reached, ...(renewal.stage === 'overlap' && { tokenKey }) });
}

/** Without the renewal that nothing depends on yet, or that this request asks for; undefined: too late. */
export function cancelledAuthorities(
  data: PkiData,
  request: string | undefined,
): { data: PkiData; followed: string } | undefined {
  const state = authorityState(data);
  const { renewal } = state;
  if (renewal?.stage === 'overlap') return undefined;
  const followed = renewal?.request ?? request;
  return followed === undefined ? undefined : { data: withState(data, ended(state, followed)), followed };
}

/** What may have signed what is valid now. PEM, the one that signs first. */
export interface TenantTrust {
  readonly clientCa: string;
  readonly servingCa: string;
  readonly frontProxyCa: string;
  readonly kubeletClientCa: string;
  /** Public keys. */
  readonly serviceAccountKeys: string;
}

export function trustOf(data: PkiData): TenantTrust {
  const { others = {} } = authorityState(data).renewal ?? {};
  const both = (name: string): string => `${data[name] ?? ''}${others[name] ?? ''}`;
  return {
    clientCa: both('client-ca.crt'),
    servingCa: both('serving-ca.crt'),
    frontProxyCa: both('front-proxy-ca.crt'),
    kubeletClientCa: both('kubelet-client-ca.crt'),
    serviceAccountKeys: both(`${tokenKeyName}.pub`),
  };
}
