import { hash, randomBytes } from 'node:crypto';
import { lostEncryptionKey } from './errors.ts';
import type { PkiData } from './pki-set.ts';

/** Of secretbox (XSalsa20 and Poly1305), by name as the stored values bear it. */
export interface EncryptionKey {
  readonly name: string;
  /** 32 bytes in base64. */
  readonly secret: string;
}

/** Nothing is encrypted: how the Secrets of a control plane are stored that was made without a key. */
export const unencrypted = 'identity';

/**
 * One stage of a change of key. Each begins when the API servers, all of them, have taken up the one before:
 * `distribute`: they can read what the new key has written. `write`: they write with it, and what is stored is
 * rewritten. After that the new key is the current one and the old one is gone.
 */
export type RotationStage = 'distribute' | 'write';

/** What a tenant's Secrets are encrypted with in the datastore. Stored in its PKI Secret. */
export interface EncryptionState {
  readonly current: EncryptionKey | typeof unencrypted;
  readonly rotation?: {
    readonly next: EncryptionKey;
    readonly stage: RotationStage;
    /** The request that it follows; absent when encryption is switched on for an existing control plane. */
    readonly request?: string;
  };
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
  /** The last request that was followed or cancelled. */
  followed?: string | undefined;
  newKey?: () => EncryptionKey;
}

/**
 * The state as the PKI Secret has it, with what is asked for: a key from the beginning for a new control plane, a
 * rotation for one that stores its Secrets as they are or whose user asks for one. A rotation that was cancelled before
 * anything was written with the new key is undone.
 * Throws PkiError `damaged-authority` when the status reports a key that is not stored.
 */
export function ensureEncryption(stored: PkiData | undefined, options: EnsureOptions): EncryptionState {
  const { wasStarted, reported, request, followed, isConfigured = true, newKey = createKey } = options;
  const state = read(stored) ?? readSingle(stored, wasStarted);
  if (state === undefined || (state.current === unencrypted && state.rotation === undefined)) {
    if (reported !== undefined) throw lostEncryptionKey(`its entry ${entry} is missing`);
    if (!isConfigured) return { current: unencrypted };
    if (!wasStarted) return { current: newKey() };
    return { current: unencrypted, rotation: { next: newKey(), stage: 'distribute' } };
  }
  if (reported !== undefined && !keysOf(state).some(({ name }) => name === reported))
    throw lostEncryptionKey(`it has no key ${reported}`);
  const { current, rotation } = state;
  if (rotation === undefined)
    return request === undefined || !isConfigured
      ? state
      : { current, rotation: { next: newKey(), stage: 'distribute', request } };
  const isCancelled =
    rotation.stage === 'distribute' && rotation.request !== undefined && rotation.request === followed;
  return isCancelled ? { current } : state;
}

/** The next state, once the API servers have taken up this one and, at `write`, everything is rewritten. */
export function advancedRotation({ current, rotation }: EncryptionState): EncryptionState {
  if (rotation === undefined) return { current };
  if (rotation.stage === 'distribute') return { current, rotation: { ...rotation, stage: 'write' } };
  return { current: rotation.next };
}

/** The entries of the PKI Secret that hold the state; the key from before is in it. */
export function encryptionData(state: EncryptionState): PkiData {
  return { [entry]: JSON.stringify(state), [single.secret]: '', [single.digest]: '' };
}

/** Name of the key that writes; undefined when none does. */
export function writingKey({ current, rotation }: EncryptionState): string | undefined {
  if (rotation?.stage === 'write') return rotation.next.name;
  return current === unencrypted ? undefined : current.name;
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

function keysOf({ current, rotation }: EncryptionState): EncryptionKey[] {
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
  const { current, rotation } = found ?? {};
  if (current !== unencrypted && !isKey(current)) throw lostEncryptionKey(`its entry ${entry} is damaged`);
  const own = current === unencrypted ? current : { name: current.name, secret: current.secret };
  if (rotation === undefined) return { current: own };
  const { next, stage, request } = rotation ?? {};
  if (!isKey(next) || (stage !== 'distribute' && stage !== 'write'))
    throw lostEncryptionKey(`its entry ${entry} is damaged`);
  return {
    current: own,
    rotation: {
      next: { name: next.name, secret: next.secret },
      stage,
      ...(typeof request === 'string' ? { request } : {}),
    },
  };
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
