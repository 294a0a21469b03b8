import type { X509Certificate } from 'node:crypto';
import { type CertificateAuthority, readAuthority } from './authority.ts';
import { expiredAuthority, invalidValidity } from './errors.ts';
import { createKey, privatePem } from './keys.ts';
import { subjectNames } from './names.ts';
import { sign, subjectOfPem, type Usage } from './sign.ts';
import { issuedNotBefore, wholeSecond } from './validity.ts';

export interface KeyPair {
  readonly certPem: string;
  /** PKCS #8. */
  readonly keyPem: string;
}

export interface LeafRequest {
  /** For Kubernetes and etcd: the user. Empty for a certificate that names nobody. */
  readonly commonName: string;
  /** For Kubernetes: the user's groups. */
  readonly organizations?: readonly string[];
  readonly dnsNames?: readonly string[];
  readonly ipAddresses?: readonly string[];
  readonly usage: readonly Usage[];
  /** Default one year; never beyond the end of the authority. */
  readonly validForMs?: number;
}

export const yearMs = 365 * 24 * 60 * 60_000;

/**
 * A new key with a certificate signed by `authority`.
 * Throws PkiError: `damaged-authority`, `expired-authority`, `invalid-name`, `invalid-validity`.
 */
export async function issue(
  authority: CertificateAuthority,
  request: LeafRequest & { readonly now?: Date },
): Promise<KeyPair> {
  const now = request.now ?? new Date();
  const validForMs = request.validForMs ?? yearMs;
  if (!(validForMs >= 1000)) throw invalidValidity(request.commonName, validForMs);
  const names = subjectNames([...(request.dnsNames ?? []), ...(request.ipAddresses ?? [])]);
  const { certificate: issuer, key: issuerKey } = readAuthority('issuer', authority);
  if (issuer.validToDate <= now) throw expiredAuthority(subjectOf(issuer), issuer.validToDate);

  const key = await createKey();
  const certPem = await sign({
    subject: [
      ...(request.organizations ?? []).map((organization) => ({ O: [organization] })),
      ...(request.commonName === '' ? [] : [{ CN: [request.commonName] }]),
    ],
    issuer: subjectOfPem(authority.certPem),
    notBefore: issuedNotBefore(now),
    notAfter: wholeSecond(Math.min(now.getTime() + validForMs, issuer.validToDate.getTime())),
    key,
    issuerKey,
    leaf: { names, usage: request.usage },
  });
  return { certPem, keyPem: privatePem(key) };
}

function subjectOf(certificate: X509Certificate): string {
  return certificate.subject.replaceAll('\n', ', ');
}
