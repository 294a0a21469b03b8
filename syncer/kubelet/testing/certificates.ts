import 'reflect-metadata';
import { webcrypto } from 'node:crypto';
import {
  BasicConstraintsExtension,
  cryptoProvider,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  X509CertificateGenerator,
} from '@peculiar/x509';

const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
const dayMs = 24 * 3_600_000;

export interface TestPair {
  readonly cert: string;
  readonly key: string;
}

export interface LeafOptions {
  notBefore?: Date;
  notAfter?: Date;
  usage?: 'client' | 'server' | 'none';
  isAuthority?: boolean;
}

/** An authority for tests that signs whatever it is asked to. */
export class TestAuthority {
  readonly name: string;
  readonly cert: string;
  readonly #keys: webcrypto.CryptoKeyPair;

  private constructor(name: string, cert: string, keys: webcrypto.CryptoKeyPair) {
    this.name = name;
    this.cert = cert;
    this.#keys = keys;
  }

  static async create(name: string, isAuthority = true): Promise<TestAuthority> {
    cryptoProvider.set(webcrypto as Crypto);
    const keys = await keyPair();
    const cert = await X509CertificateGenerator.createSelfSigned({
      serialNumber: '01',
      name: `CN=${name}`,
      keys,
      signingAlgorithm: algorithm,
      notBefore: new Date(Date.now() - dayMs),
      notAfter: new Date(Date.now() + dayMs),
      extensions: [new BasicConstraintsExtension(isAuthority, undefined, true)],
    });
    return new TestAuthority(name, cert.toString('pem'), keys);
  }

  /** `subject` as in `CN=tenant-x`. */
  async issue(subject: string, options: LeafOptions = {}): Promise<TestPair> {
    const { usage = 'client', isAuthority = false } = options;
    const keys = await keyPair();
    const cert = await X509CertificateGenerator.create({
      serialNumber: '02',
      subject,
      issuer: `CN=${this.name}`,
      notBefore: options.notBefore ?? new Date(Date.now() - dayMs),
      notAfter: options.notAfter ?? new Date(Date.now() + dayMs),
      signingAlgorithm: algorithm,
      publicKey: keys.publicKey,
      signingKey: this.#keys.privateKey,
      extensions: [
        new BasicConstraintsExtension(isAuthority, undefined, true),
        ...(usage === 'none'
          ? []
          : [
              new ExtendedKeyUsageExtension([
                usage === 'client' ? ExtendedKeyUsage.clientAuth : ExtendedKeyUsage.serverAuth,
              ]),
            ]),
      ],
    });
    const der = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', keys.privateKey)).toString('base64');
    const key = `-----BEGIN PRIVATE KEY-----\n${der.replace(/(.{64})/g, '$1\n')}\n-----END PRIVATE KEY-----\n`;
    return { cert: cert.toString('pem'), key };
  }
}

function keyPair(): Promise<webcrypto.CryptoKeyPair> {
  return webcrypto.subtle.generateKey(algorithm, true, [
    'sign',
    'verify',
  ]) as Promise<webcrypto.CryptoKeyPair>;
}
