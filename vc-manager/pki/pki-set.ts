import { createPrivateKey, randomBytes, X509Certificate } from 'node:crypto';
import {
  type CertificateAuthority,
  createAuthority,
  createServiceAccountKey,
  issue,
  type KeyPair,
  type LeafRequest,
  publicPemOf,
  readAuthority,
  renewalTime,
  type ServiceAccountKey,
  type SubjectNames,
  subjectNames,
} from './certificates.ts';
import { damagedAuthority, expiredAuthority, lostPassword } from './errors.ts';

/** Why a leaf is issued anew. */
export type RenewalReason =
  | 'missing'
  | 'unreadable'
  | 'key-mismatch'
  | 'other-authority'
  | 'subject-changed'
  | 'names-changed'
  | 'usage-changed'
  | 'not-yet-valid'
  | 'due'
  | 'asked';

const usageOids = { server: '1.3.6.1.5.5.7.3.1', client: '1.3.6.1.5.5.7.3.2' };

/** Compares a stored leaf with what is asked for today; undefined when it can stay. */
function renewalReason(
  stored: Partial<KeyPair>,
  wanted: LeafRequest,
  authority: X509Certificate,
  now: Date,
): RenewalReason | undefined {
  if (stored.certPem === undefined || stored.keyPem === undefined) return 'missing';
  let certificate: X509Certificate;
  try {
    certificate = new X509Certificate(stored.certPem);
    if (!certificate.checkPrivateKey(createPrivateKey(stored.keyPem))) return 'key-mismatch';
  } catch {
    return 'unreadable';
  }
  if (!certificate.checkIssued(authority) || !certificate.verify(authority.publicKey))
    return 'other-authority';
  if (!sameSubject(certificate, wanted)) return 'subject-changed';
  if (!sameNames(certificate, wanted)) return 'names-changed';
  const usages = wanted.usage.map((usage) => usageOids[usage]);
  if (!sameSet(certificate.keyUsage ?? [], usages)) return 'usage-changed';
  if (certificate.validFromDate > now) return 'not-yet-valid';
  if (renewalTime(certificate) <= now) return 'due';
  return undefined;
}

function sameSubject(certificate: X509Certificate, wanted: LeafRequest): boolean {
  const subject = certificate.toLegacyObject().subject as unknown as Record<
    string,
    string | string[] | undefined
  >;
  return (
    sameSet([subject['CN'] ?? []].flat(), wanted.commonName === '' ? [] : [wanted.commonName]) &&
    sameSet([subject['O'] ?? []].flat(), wanted.organizations ?? [])
  );
}

function sameNames(certificate: X509Certificate, wanted: LeafRequest): boolean {
  const names = subjectNames([...(wanted.dnsNames ?? []), ...(wanted.ipAddresses ?? [])]);
  const found = namesOf(certificate);
  return (
    found !== undefined &&
    sameSet(found.dnsNames, names.dnsNames) &&
    sameSet(found.ipAddresses, names.ipAddresses)
  );
}

/** The alternative names of a certificate; undefined when it has any that `sign` would not have written. */
function namesOf(certificate: X509Certificate): SubjectNames | undefined {
  const hosts: string[] = [];
  for (const entry of certificate.subjectAltName?.split(', ') ?? []) {
    const host = /^(?:DNS|IP Address):(.+)$/.exec(entry)?.[1];
    if (host === undefined) return undefined;
    hosts.push(host);
  }
  try {
    return subjectNames(hosts);
  } catch {
    return undefined;
  }
}

function sameSet(left: readonly string[], right: readonly string[]): boolean {
  const wanted = new Set(right);
  return new Set(left).size === wanted.size && left.every((value) => wanted.has(value));
}

/**
 * Everything of a PKI by file name: `<name>.crt` and `<name>.key` for authorities and leafs,
 * `<name>.key` and `<name>.pub` for token keys, `<name>.password` for passwords; `renewal` for the last request.
 */
export type PkiData = Readonly<Record<string, string>>;

/** What a PKI consists of. Names become file names. */
export interface PkiSpec {
  readonly authorities: Readonly<Record<string, AuthoritySpec>>;
  readonly serviceAccountKeys?: readonly string[];
  readonly passwords?: readonly string[];
  /** `authority`: one of the set's own by name, or one that is kept elsewhere. */
  readonly leafs: Readonly<
    Record<
      string,
      LeafRequest & {
        readonly authority: string | CertificateAuthority;
        /** `renewal` is not about this one. */
        readonly onlyWhenDue?: boolean;
      }
    >
  >;
  /** Another value than the last one asks for all leafs anew, once: it is kept along with them. */
  readonly renewal?: string | undefined;
  /** Leafs that are due may wait. */
  readonly isHeld?: boolean;
}

interface AuthoritySpec {
  readonly commonName: string;
  /** It may come to a set that was made without it: then it is lost only where a certificate of it is left. */
  readonly mayBeAdded?: boolean;
}

export interface Renewal {
  readonly name: string;
  readonly reason: RenewalReason;
}

export interface EnsuredPki {
  readonly data: PkiData;
  readonly changed: boolean;
  /** The leafs that were issued by this call. */
  readonly renewals: readonly Renewal[];
  /** When the first leaf is due: call again then at the latest. */
  readonly renewAt: Date;
}

/**
 * Completes stored data to what the spec asks for; undefined: nothing was ever stored. Authorities, token keys and
 * passwords are made with the set and never again: one that is missing later was lost, and an error. Only where both
 * entries of one are there and empty, as a person has left them, a new one is made. Leafs are issued anew when they are
 * due, no longer what is asked for, or when `renewal` asks for it.
 * Entries that the spec does not name are kept. Same input and nothing due: same output, `changed` false.
 * Throws PkiError; nothing is half done then, as the input is not touched.
 */
export async function ensurePkiSet(
  existing: PkiData | undefined,
  spec: PkiSpec,
  now: Date,
): Promise<EnsuredPki> {
  const data: Record<string, string> = { ...existing };
  const before = JSON.stringify(data);

  const isNew = existing === undefined;
  for (const [name, { commonName, mayBeAdded = false }] of Object.entries(spec.authorities)) {
    const isWanted = isNew || isEmptied(data, `${name}.crt`, `${name}.key`);
    const isAdded = mayBeAdded && isAbsent(data, name) && !hasIssued(commonName, data, spec);
    if (isWanted || isAdded) storePair(data, name, await createAuthority({ commonName, now }));
    else pairOf(data, name);
  }
  for (const name of spec.serviceAccountKeys ?? []) await ensureServiceAccountKey(data, name, isNew);
  for (const name of spec.passwords ?? []) {
    if (isNew) data[`${name}.password`] = randomBytes(32).toString('base64url');
    else if (!data[`${name}.password`]) throw lostPassword(name);
  }

  const isAsked = spec.renewal !== undefined && data['renewal'] !== spec.renewal;
  if (isAsked) data['renewal'] = spec.renewal;
  const renewals: Renewal[] = [];
  let renewAt = Number.POSITIVE_INFINITY;
  for (const [name, { authority: signer, onlyWhenDue = false, ...wanted }] of Object.entries(spec.leafs)) {
    const entry = typeof signer === 'string' ? signer : `signer of ${name}`;
    const authority = typeof signer === 'string' ? pairOf(data, signer) : signer;
    const { certificate: issuer } = readAuthority(entry, authority);
    if (issuer.validToDate <= now) throw expiredAuthority(entry, issuer.validToDate);
    const asked = isAsked && !onlyWhenDue ? 'asked' : undefined;
    const needed = renewalReason(storedPair(data, name), wanted, issuer, now);
    const reason = needed === 'due' && spec.isHeld ? asked : (needed ?? asked);
    if (reason !== undefined) {
      storePair(data, name, await issue(authority, { ...wanted, now }));
      renewals.push({ name, reason });
    }
    renewAt = Math.min(renewAt, renewalTime(new X509Certificate(pairOf(data, name).certPem)).getTime());
  }
  const changed = JSON.stringify(data) !== before;
  return { data, changed, renewals, renewAt: new Date(Math.min(renewAt, maximumDateMs)) };
}

/** The last moment that a Date can hold: stands for "never" in a set without leafs. */
const maximumDateMs = 8.64e15;

function isEmptied(data: PkiData, ...names: string[]): boolean {
  return names.every((name) => data[name] === '');
}

function isAbsent(data: PkiData, authority: string): boolean {
  return data[`${authority}.crt`] === undefined && data[`${authority}.key`] === undefined;
}

/** Whether a certificate is left that an authority of this name has issued. */
function hasIssued(commonName: string, data: PkiData, { leafs }: PkiSpec): boolean {
  return Object.keys(leafs).some((name) => {
    try {
      return new X509Certificate(data[`${name}.crt`] ?? '').issuer === `CN=${commonName}`;
    } catch {
      return false;
    }
  });
}

async function ensureServiceAccountKey(
  data: Record<string, string>,
  name: string,
  isNew: boolean,
): Promise<void> {
  const stored = data[`${name}.key`] || undefined;
  if (stored === undefined) {
    const isWanted = isNew || isEmptied(data, `${name}.key`, `${name}.pub`);
    if (!isWanted) throw damagedAuthority(name, 'its private key is missing');
    const key = await createServiceAccountKey();
    data[`${name}.key`] = key.privatePem;
    data[`${name}.pub`] = key.publicPem;
    return;
  }
  try {
    const publicPem = publicPemOf(stored);
    if (data[`${name}.pub`] !== publicPem) data[`${name}.pub`] = publicPem;
  } catch (error) {
    throw damagedAuthority(name, 'its private key cannot be read', error);
  }
}

/** An authority or a leaf of a set; throws `DamagedAuthority` when a half of it is missing. */
export function pairOf(data: PkiData, name: string): KeyPair {
  const { certPem, keyPem } = storedPair(data, name);
  if (certPem === undefined && keyPem === undefined)
    throw damagedAuthority(
      name,
      'its certificate and its key are missing, and other parts of the set are there',
    );
  if (certPem === undefined) throw damagedAuthority(name, 'its certificate is missing');
  if (keyPem === undefined) throw damagedAuthority(name, 'its key is missing');
  return { certPem, keyPem };
}

/** A token key that `ensurePkiSet` has put there. */
export function serviceAccountKeyOf(data: PkiData, name: string): ServiceAccountKey {
  return { privatePem: data[`${name}.key`] ?? '', publicPem: data[`${name}.pub`] ?? '' };
}

function storedPair(data: PkiData, name: string): Partial<KeyPair> {
  const certPem = data[`${name}.crt`] || undefined;
  const keyPem = data[`${name}.key`] || undefined;
  return { ...(certPem !== undefined && { certPem }), ...(keyPem !== undefined && { keyPem }) };
}

function storePair(data: Record<string, string>, name: string, pair: KeyPair): void {
  data[`${name}.crt`] = pair.certPem;
  data[`${name}.key`] = pair.keyPem;
}
