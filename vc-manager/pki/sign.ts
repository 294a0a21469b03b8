import 'reflect-metadata';
import { createPublicKey, type KeyObject, randomBytes, webcrypto } from 'node:crypto';
import {
  AuthorityKeyIdentifierExtension,
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  type Extension,
  type JsonName,
  KeyUsageFlags,
  KeyUsagesExtension,
  SubjectAlternativeNameExtension,
  SubjectKeyIdentifierExtension,
  X509Certificate,
  X509CertificateGenerator,
} from '@peculiar/x509';
import type { SubjectNames } from './names.ts';

export type Usage = 'server' | 'client';

interface CertificateRequest {
  readonly subject: JsonName;
  readonly issuer: JsonName;
  readonly notBefore: Date;
  readonly notAfter: Date;
  /** Private key of the certificate's owner; only its public half goes into the certificate. */
  readonly key: KeyObject;
  readonly issuerKey: KeyObject;
  /** Absent for an authority. */
  readonly leaf?: { readonly names: SubjectNames; readonly usage: readonly Usage[] };
}

const algorithm = { name: 'ECDSA', namedCurve: 'P-256' } as const;

/** The one place that builds certificates. Returns PEM that ends with a newline. */
export async function sign(request: CertificateRequest): Promise<string> {
  const publicKey = createPublicKey(request.key).toCryptoKey(algorithm, true, ['verify']);
  const issuerPublicKey = createPublicKey(request.issuerKey).toCryptoKey(algorithm, true, ['verify']);
  const extensions: Extension[] = [
    ...(request.leaf === undefined ? authorityExtensions() : leafExtensions(request.leaf)),
    await SubjectKeyIdentifierExtension.create(publicKey, false, webcrypto as Crypto),
    await AuthorityKeyIdentifierExtension.create(issuerPublicKey, false, webcrypto as Crypto),
  ];
  const certificate = await X509CertificateGenerator.create(
    {
      serialNumber: randomBytes(16).toString('hex'),
      subject: request.subject,
      issuer: request.issuer,
      notBefore: request.notBefore,
      notAfter: request.notAfter,
      signingAlgorithm: { name: 'ECDSA', hash: 'SHA-256' },
      publicKey,
      signingKey: request.issuerKey.toCryptoKey(algorithm, false, ['sign']),
      extensions,
    },
    webcrypto as Crypto,
  );
  return `${certificate.toString('pem')}\n`;
}

/** The subject of a certificate as it has to stand, unchanged, as issuer in what it signs. */
export function subjectOfPem(certPem: string): JsonName {
  return new X509Certificate(certPem).subjectName.toJSON();
}

function authorityExtensions(): Extension[] {
  return [
    // No authority below this one: a leaf can never be used to sign.
    new BasicConstraintsExtension(true, 0, true),
    new KeyUsagesExtension(
      KeyUsageFlags.digitalSignature | KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign,
      true,
    ),
  ];
}

function leafExtensions(leaf: { names: SubjectNames; usage: readonly Usage[] }): Extension[] {
  const alternatives = [
    ...leaf.names.dnsNames.map((value) => ({ type: 'dns' as const, value })),
    ...leaf.names.ipAddresses.map((value) => ({ type: 'ip' as const, value })),
  ];
  return [
    new BasicConstraintsExtension(false, undefined, true),
    new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
    new ExtendedKeyUsageExtension(
      leaf.usage.map((usage) =>
        usage === 'server' ? ExtendedKeyUsage.serverAuth : ExtendedKeyUsage.clientAuth,
      ),
    ),
    ...(alternatives.length > 0 ? [new SubjectAlternativeNameExtension(alternatives)] : []),
  ];
}
