import { hash, randomBytes } from 'node:crypto';
import { encryptionChanged, lostEncryptionKey } from './errors.ts';
import type { PkiData } from './pki-set.ts';

/** Of secretbox (XSalsa20 and Poly1305), by name as the stored values bear it. */
export interface EncryptionKey {
  readonly name: string;
  /** 32 bytes in base64. */
  readonly secret: string;
}

/** Nothing is encrypted: how the Secrets of a control plane are stored that was made without a key. */
const unencrypted = 'identity';

/**
 * One stage of a change of key. Each begins when the API servers, all of them, have taken up the one before:
 * `distribute`: they can read what the new key has written. `write`: they write with it, and what is stored is
 * rewritten. After that the new key is the current one and the old one is gone.
 */
export type RotationStage = 'distribute' | 'write';

/** How far the Secrets are rewritten. */
export interface RewritePosition {
  /** Reconciles that have worked at it. */
  readonly slices: number;
  readonly pages: number;
  readonly done: number;
  /** Of the page that comes next; absent for the first one. */
  readonly token?: string;
  /** `namespace/name` of the last one on that page that is through. */
  readonly after?: string;
  /** How many could not be rewritten, and the first of them by name. */
  readonly refusals: number;
  readonly refused: readonly string[];
  /** Of the first one, in words. */
  readonly why?: string;
  /** Set after the last page: these are left. */
  readonly retries?: readonly string[];
  /** Set after the last page: as many were refused. */
  readonly blockedBy?: number;
}

export const rewriteStart: RewritePosition = { slices: 0, pages: 0, done: 0, refusals: 0, refused: [] };

export interface EncryptionRotation {
  readonly next: EncryptionKey;
  readonly stage: RotationStage;
  /** The request that it follows; absent when encryption is switched on for an existing control plane. */
  readonly request?: string;
  /** At the stage `write`, once it was interrupted. */
  readonly position?: RewritePosition;
}

/** What a tenant's Secrets are encrypted with in the datastore. Stored in its PKI Secret. */
export interface EncryptionState {
  readonly current: EncryptionKey | typeof unencrypted;
  readonly rotation?: EncryptionRotation;
  /** The last request that was followed or cancelled. */
  readonly followed?: string;
}

const entry = 'encryption.json';
/** The one key of control planes from before there were rotations, whose API servers also read what is not encrypted. */
const single = { name: 'key-1', secret: 'encryption.secret', digest: 'encryption.digest' } as const;

interface EnsureOptions {
  /** Its API server has stored something. */
  wasStarted: boolean;
  /** Its template names an EncryptionConfiguration: without one, Secrets are stored as they are. */
  isConfigured?: boolean;
  /** Name of the key that its status reports as in use. */
  reported?: string | undefined;
  /** A request for a new key that has not been followed. */
  request?: string | undefined;
  newKey?: () => EncryptionKey;
}

/**
 * The state as the PKI Secret has it, with what is asked for: a key from the beginning for a new control plane, a
 * rotation for one that stores its Secrets as they are or whose user asks for one.
 * Throws PkiError `DamagedAuthority` when the status reports a key that is not stored, and `EncryptionChanged` when
 * there is a key and the template does not use it: the API server could not read its Secrets.
 */
export function ensureEncryption(stored: PkiData | undefined, options: EnsureOptions): EncryptionState {
  const { wasStarted, reported, request, isConfigured = true, newKey = createKey } = options;
  const state = read(stored) ?? readSingle(stored, wasStarted);
  if (state === undefined || (state.current === unencrypted && state.rotation === undefined)) {
    if (reported !== undefined) throw lostEncryptionKey(`its entry ${entry} is missing`);
    if (!isConfigured) return { current: unencrypted };
    if (!wasStarted) return { current: newKey() };
    return { current: unencrypted, rotation: { next: newKey(), stage: 'distribute' } };
  }
  if (reported !== undefined && !keysOf(state).some(({ name }) => name === reported))
    throw lostEncryptionKey(`it has no key ${reported}`);
  if (!isConfigured) throw encryptionChanged();
  const { current, rotation, followed } = state;
  if (rotation !== undefined || request === undefined || request === followed) return state;
  return { current, rotation: { next: newKey(), stage: 'distribute', request } };
}

/**
 * Without the rotation that follows a request, or that this request asks for. Undefined when it cannot be cancelled:
 * something may be written with the new key, or no one has asked for it.
 */
export function cancelledRotation(
  stored: PkiData | undefined,
  request: string | undefined,
): EncryptionState | undefined {
  const state = read(stored);
  if (state === undefined) return undefined;
  const { current, rotation } = state;
  if (rotation === undefined) return request === undefined ? state : { current, followed: request };
  if (rotation.stage === 'write' || rotation.request === undefined) return undefined;
  return { current, followed: rotation.request };
}

/** The next state, once the API servers have taken up this one and, at `write`, everything is rewritten. */
export function advancedRotation({ current, rotation }: EncryptionState): EncryptionState {
  if (rotation === undefined) return { current };
  if (rotation.stage === 'distribute') return { current, rotation: { ...rotation, stage: 'write' } };
  return {
    current: rotation.next,
    ...(rotation.request === undefined ? {} : { followed: rotation.request }),
  };
}

/** The entries of the PKI Secret that hold the state; the key from before is in it. */
export function encryptionData(state: EncryptionState): PkiData {
  return { [entry]: JSON.stringify(state), [single.secret]: '', [single.digest]: '' };
}

/** The key that writes; undefined when none does. */
export function writingKey({ current, rotation }: EncryptionState): EncryptionKey | undefined {
  if (rotation?.stage === 'write') return rotation.next;
  return current === unencrypted ? undefined : current;
}

/**
 * `providers` of an EncryptionConfiguration: the first one writes, all of them read. JSON, which is YAML too.
 */
export function encryptionProviders({ current, rotation }: EncryptionState): string {
  const { next, stage } = rotation ?? {};
  const inOrder = next === undefined ? [current] : stage === 'write' ? [next, current] : [current, next];
  const providers: object[] = [];
  // Keys that follow each other belong into one provider.
  let keys: EncryptionKey[] | undefined;
  for (const each of inOrder) {
    if (each === unencrypted) {
      providers.push({ identity: {} });
      keys = undefined;
    } else if (keys === undefined) {
      keys = [each];
      providers.push({ secretbox: { keys } });
    } else keys.push(each);
  }
  return JSON.stringify(providers);
}

/** What the PKI Secret says of a control plane that was started. Throws PkiError `DamagedAuthority`. */
export function storedEncryption(stored: PkiData | undefined): EncryptionState {
  return read(stored) ?? readSingle(stored, true) ?? { current: unencrypted };
}

/** All keys that something may be encrypted with. */
export function keysOf({ current, rotation }: EncryptionState): EncryptionKey[] {
  return [...(current === unencrypted ? [] : [current]), ...(rotation === undefined ? [] : [rotation.next])];
}

function createKey(): EncryptionKey {
  const secret = randomBytes(32).toString('base64');
  return { name: nameOf(secret), secret };
}

/** Of the key itself: no name is used twice, and another key is not taken for this one. */
export function nameOf(secret: string): string {
  return `key-${hash('sha256', secret, 'hex').slice(0, 12)}`;
}

/** What a started API server has written before may not be encrypted: it is rewritten. */
function readSingle(stored: PkiData | undefined, wasStarted: boolean): EncryptionState | undefined {
  const secret = stored?.[single.secret] || undefined;
  const digest = stored?.[single.digest] || undefined;
  if (secret === undefined && digest === undefined) return undefined;
  if (secret === undefined || hash('sha256', secret, 'hex') !== digest)
    throw lostEncryptionKey(`its entry ${single.secret} is missing or another one`);
  const key = { name: single.name, secret };
  return wasStarted ? { current: unencrypted, rotation: { next: key, stage: 'write' } } : { current: key };
}

/** The owner of a VirtualCluster may edit its Secrets, and what is in them becomes part of a configuration file. */
function read(stored: PkiData | undefined): EncryptionState | undefined {
  const text = stored?.[entry];
  if (text === undefined) return undefined;
  let found: Partial<EncryptionState> | null;
  try {
    found = JSON.parse(text) as Partial<EncryptionState> | null;
  } catch {
    throw lostEncryptionKey(`its entry ${entry} is damaged`);
  }
  const { current, rotation, followed } = found ?? {};
  if (current !== unencrypted && !isKey(current)) throw lostEncryptionKey(`its entry ${entry} is damaged`);
  const own = current === unencrypted ? current : { name: current.name, secret: current.secret };
  const before = typeof followed === 'string' ? { followed } : {};
  if (rotation === undefined) return { current: own, ...before };
  const { next, stage, request, position } = rotation ?? {};
  if (!isKey(next) || (stage !== 'distribute' && stage !== 'write'))
    throw lostEncryptionKey(`its entry ${entry} is damaged`);
  return {
    current: own,
    ...before,
    rotation: {
      next: { name: next.name, secret: next.secret },
      stage,
      ...(typeof request === 'string' ? { request } : {}),
      ...(isPosition(position) ? { position } : {}),
    },
  };
}

/** One that is damaged is left out: everything is rewritten once more. */
function isPosition(value: unknown): value is RewritePosition {
  if (typeof value !== 'object' || value === null) return false;
  const { slices, pages, done, refusals, refused, token, after, why, retries, blockedBy } = value as Record<
    string,
    unknown
  >;
  const isText = (each: unknown): boolean => typeof each === 'string';
  const isOptional = (each: unknown, is: (some: unknown) => boolean): boolean =>
    each === undefined || is(each);
  const areTexts = (each: unknown): boolean => Array.isArray(each) && each.every(isText);
  return (
    [slices, pages, done, refusals].every(Number.isSafeInteger) &&
    areTexts(refused) &&
    isOptional(retries, areTexts) &&
    isOptional(blockedBy, Number.isSafeInteger) &&
    [token, after, why].every((each) => isOptional(each, isText))
  );
}

function isKey(value: unknown): value is EncryptionKey {
  if (typeof value !== 'object' || value === null) return false;
  const { name, secret } = value as Record<string, unknown>;
  return (
    typeof name === 'string' &&
    typeof secret === 'string' &&
    (name === single.name || name === nameOf(secret)) &&
    /^[A-Za-z0-9+/]{43}=$/.test(secret)
  );
}
