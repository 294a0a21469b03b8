import { CodedError } from '../../kube/index.ts';

/** `InvalidName` and `UnsafeDirectory` are the caller's; the others are found on what was stored. */
export type PkiErrorCode =
  | 'DamagedAuthority'
  | 'EncryptionChanged'
  | 'ExpiredAuthority'
  | 'InvalidName'
  | 'InvalidValidity'
  | 'UnsafeDirectory';

/** Never retryable: each needs a person or a different request. */
class PkiError extends CodedError<PkiErrorCode> {
  override readonly name = 'PkiError';
  /** What the error is about: an entry of the PKI, a name, or a path. */
  readonly subject: string;

  constructor(code: PkiErrorCode, subject: string, message: string, options?: ErrorOptions) {
    super(code, message, false, options);
    this.subject = subject;
  }
}

export function damagedAuthority(entry: string, why: string, cause?: unknown): PkiError {
  return new PkiError(
    'DamagedAuthority',
    entry,
    `The certificate authority "${entry}" is damaged: ${why}. It is not replaced, because every certificate and pod that trusts it would break. Restore its certificate and key from a backup, or leave both entries there and empty to start with a new authority.`,
    { cause },
  );
}

export function lostPassword(entry: string): PkiError {
  return new PkiError(
    'DamagedAuthority',
    entry,
    `The password "${entry}" is missing, and other parts of the set are there. It is not replaced, because what it opens knows no other. Restore it from a backup.`,
  );
}

export function lostEncryptionKey(why: string): PkiError {
  return new PkiError(
    'DamagedAuthority',
    'encryption',
    `The key that this control plane's Secrets are encrypted with is not among its certificates: ${why}. No other one is made, because the API server could not read what is stored. Restore the Secret with the certificates from a backup, or delete the VirtualCluster and create it anew.`,
  );
}

export function encryptionChanged(): PkiError {
  return new PkiError(
    'EncryptionChanged',
    'encryption',
    'The Secrets of this control plane are encrypted, and its template has no argument encryption-provider-config with a file that uses ${encryptionProviders}: the API server could not read them. Put them back into the template, or choose one that has them. To store Secrets unencrypted, create another VirtualCluster.',
  );
}

export function expiredAuthority(entry: string, notAfter: Date): PkiError {
  return new PkiError(
    'ExpiredAuthority',
    entry,
    `The certificate authority "${entry}" expired on ${notAfter.toISOString()}. Check this machine's clock; if it is right, leave the entries of the authority's certificate and key there and empty so that a new one is made, and hand out new kubeconfigs.`,
  );
}

export function invalidName(value: string, why: string): PkiError {
  return new PkiError(
    'InvalidName',
    value,
    `"${value}" cannot stand in a certificate: ${why}. Use a DNS name (lower-case labels of letters, digits and "-", at most 253 characters, "*" only as the first label) or an IP address.`,
  );
}

export function invalidValidity(commonName: string, validForMs: number): PkiError {
  return new PkiError(
    'InvalidValidity',
    commonName,
    `The certificate "${commonName}" cannot be valid for ${validForMs} ms. Ask for at least one second.`,
  );
}

export function unsafeDirectory(directory: string, why: string): PkiError {
  return new PkiError(
    'UnsafeDirectory',
    directory,
    `Keys cannot be kept in ${directory}: ${why}. Choose another state directory, or make it a directory that belongs to you.`,
  );
}
