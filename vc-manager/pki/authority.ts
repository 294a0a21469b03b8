import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { damagedAuthority } from './errors.ts';
import { createKey, privatePem } from './keys.ts';
import { sign } from './sign.ts';
import { issuedNotBefore, wholeSecond } from './validity.ts';

export interface CertificateAuthority {
  readonly certPem: string;
  /** PKCS #8. */
  readonly keyPem: string;
}

const defaultYears = 20;
const yearMs = 365.25 * 24 * 60 * 60_000;

/**
 * A self-signed authority on ECDSA P-256 that signs leafs only (path length 0).
 * It lives long because it is never replaced: all that a control plane trusts hangs on it.
 */
export async function createAuthority(options: {
  commonName: string;
  years?: number;
  now?: Date;
}): Promise<CertificateAuthority> {
  const now = options.now ?? new Date();
  const key = await createKey();
  const name = [{ CN: [options.commonName] }];
  const certPem = await sign({
    subject: name,
    issuer: name,
    notBefore: issuedNotBefore(now),
    notAfter: wholeSecond(now.getTime() + (options.years ?? defaultYears) * yearMs),
    key,
    issuerKey: key,
  });
  return { certPem, keyPem: privatePem(key) };
}

/** Reads an authority and makes sure that it is one and that its key belongs to it; `entry` is its name in the error. */
export function readAuthority(
  entry: string,
  authority: CertificateAuthority,
): { certificate: X509Certificate; key: KeyObject } {
  let certificate: X509Certificate;
  let key: KeyObject;
  try {
    certificate = new X509Certificate(authority.certPem);
    key = createPrivateKey(authority.keyPem);
  } catch (error) {
    throw damagedAuthority(entry, 'its certificate or key cannot be read', error);
  }
  if (!certificate.ca) throw damagedAuthority(entry, 'its certificate is not that of an authority');
  if (!certificate.checkPrivateKey(key))
    throw damagedAuthority(entry, 'its key belongs to another certificate');
  return { certificate, key };
}
