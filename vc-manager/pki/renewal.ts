import { createPrivateKey, X509Certificate } from 'node:crypto';
import type { KeyPair, LeafRequest } from './issue.ts';
import { type SubjectNames, subjectNames } from './names.ts';
import { renewalTime } from './validity.ts';

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

const oids = { server: '1.3.6.1.5.5.7.3.1', client: '1.3.6.1.5.5.7.3.2' };

/** Compares a stored leaf with what is asked for today; undefined when it can stay. */
export function renewalReason(
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
  const usages = wanted.usage.map((usage) => oids[usage]);
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

/** The alternative names of a certificate; undefined when it has any that this room would not have written. */
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
