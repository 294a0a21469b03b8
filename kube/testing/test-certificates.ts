import 'reflect-metadata';
import { webcrypto } from 'node:crypto';
import {
  BasicConstraintsExtension,
  cryptoProvider,
  SubjectAlternativeNameExtension,
  type X509Certificate,
  X509CertificateGenerator,
} from '@peculiar/x509';

export interface TestCertificates {
  ca: string;
  server: { cert: string; key: string };
  client: { cert: string; key: string };
}

const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };

/** A CA with a server certificate for loopback and these names, and a client certificate, good for a day. */
export async function createTestCertificates(names: readonly string[] = []): Promise<TestCertificates> {
  cryptoProvider.set(webcrypto as Crypto);
  const notBefore = new Date(Date.now() - 60_000);
  const notAfter = new Date(Date.now() + 24 * 3_600_000);
  const caKeys = await keyPair();
  const ca = await X509CertificateGenerator.createSelfSigned({
    serialNumber: '01',
    name: 'CN=test-ca',
    keys: caKeys,
    signingAlgorithm: algorithm,
    notBefore,
    notAfter,
    extensions: [new BasicConstraintsExtension(true, undefined, true)],
  });
  const leaf = async (serialNumber: string, name: string): Promise<{ cert: string; key: string }> => {
    const keys = await keyPair();
    const cert: X509Certificate = await X509CertificateGenerator.create({
      serialNumber,
      subject: name,
      issuer: ca.subject,
      notBefore,
      notAfter,
      signingAlgorithm: algorithm,
      publicKey: keys.publicKey,
      signingKey: caKeys.privateKey,
      extensions: [
        new SubjectAlternativeNameExtension([
          { type: 'dns', value: 'localhost' },
          { type: 'ip', value: '127.0.0.1' },
          ...names.map((value) => ({ type: 'dns' as const, value })),
        ]),
      ],
    });
    const der = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', keys.privateKey)).toString('base64');
    const key = `-----BEGIN PRIVATE KEY-----\n${der.replace(/(.{64})/g, '$1\n')}\n-----END PRIVATE KEY-----\n`;
    return { cert: cert.toString('pem'), key };
  };
  return {
    ca: ca.toString('pem'),
    server: await leaf('02', 'CN=server'),
    client: await leaf('03', 'CN=client'),
  };
}

let shared: Promise<TestCertificates> | undefined;

/** The same in all tests of a process: for those that do not depend on having others than the rest. */
export function sharedTestCertificates(): Promise<TestCertificates> {
  shared ??= createTestCertificates();
  return shared;
}

function keyPair(): Promise<webcrypto.CryptoKeyPair> {
  return webcrypto.subtle.generateKey(algorithm, true, [
    'sign',
    'verify',
  ]) as Promise<webcrypto.CryptoKeyPair>;
}
