import 'reflect-metadata';
import {
  createPrivateKey,
  createPublicKey,
  generateKeyPair,
  type KeyObject,
  randomBytes,
  webcrypto,
  X509Certificate,
} from 'node:crypto';
import { isIP, SocketAddress } from 'node:net';
import { promisify } from 'node:util';
import {
  AuthorityKeyIdentifierExtension,
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  type Extension,
  type JsonName,
  KeyUsageFlags,
  KeyUsagesExtension,
  X509Certificate as ParsedCertificate,
  SubjectAlternativeNameExtension,
  SubjectKeyIdentifierExtension,
  X509CertificateGenerator,
} from '@peculiar/x509';
import { damagedAuthority, expiredAuthority, invalidName, invalidValidity } from './errors.ts';

const generate = promisify(generateKeyPair);

export interface ServiceAccountKey {
  /** PKCS #8; signs the tenant's service-account tokens. */
  readonly privatePem: string;
  /** SubjectPublicKeyInfo; verifies them. */
  readonly publicPem: string;
}

/** A new ECDSA key on P-256. */
async function createKey(): Promise<KeyObject> {
  const { privateKey } = await generate('ec', { namedCurve: 'P-256' });
  return privateKey;
}

function privatePem(key: KeyObject): string {
  return key.export({ type: 'pkcs8', format: 'pem' }).toString();
}

/** The public half of a private key in PEM. Throws when the text is not a private key. */
export function publicPemOf(privateKeyPem: string): string {
  return createPublicKey(createPrivateKey(privateKeyPem)).export({ type: 'spki', format: 'pem' }).toString();
}

/** A key for tokens (ES256). Kept for the life of a control plane: a new one invalidates the token of every running pod. */
export async function createServiceAccountKey(): Promise<ServiceAccountKey> {
  const pem = privatePem(await createKey());
  return { privatePem: pem, publicPem: publicPemOf(pem) };
}

/** The names a certificate is valid for; normalised, sorted, without doubles. */
export interface SubjectNames {
  readonly dnsNames: readonly string[];
  readonly ipAddresses: readonly string[];
}

const label = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;

/**
 * Sorts hosts into DNS names and addresses and brings them into the one form in which they are compared.
 * Throws `InvalidName` for what neither is.
 */
export function subjectNames(hosts: Iterable<string>): SubjectNames {
  const dnsNames = new Set<string>();
  const ipAddresses = new Set<string>();
  for (const host of hosts) {
    const family = isIP(host);
    if (family === 0) dnsNames.add(dnsName(host));
    else ipAddresses.add(ipAddress(host, family));
  }
  return { dnsNames: [...dnsNames].sort(), ipAddresses: [...ipAddresses].sort() };
}

function dnsName(host: string): string {
  const name = host.toLowerCase().replace(/\.$/, '');
  if (name === '') throw invalidName(host, 'it is empty');
  if (name.length > 253) throw invalidName(host, `it has ${name.length} characters`);
  const labels = name.split('.');
  if (labels[0] === '*' && labels.length > 2) labels.shift();
  const bad = labels.find((part) => !label.test(part));
  if (bad !== undefined) throw invalidName(host, `"${bad}" is not a DNS label`);
  // A resolver may read such a name as an address; no top-level domain is made of digits alone.
  if (/^[0-9]+$/.test(labels.at(-1) ?? '')) throw invalidName(host, 'it looks like an address but is none');
  return name;
}

function ipAddress(host: string, family: number): string {
  if (family === 4) return host;
  if (host.includes('%')) throw invalidName(host, 'an address with a zone means nothing on other machines');
  return new SocketAddress({ address: host, family: 'ipv6' }).address;
}

const backdatedMs = 5 * 60_000;

/** Certificates start five minutes in the past, so that a machine whose clock is a little behind accepts them. */
function issuedNotBefore(now: Date): Date {
  return wholeSecond(now.getTime() - backdatedMs);
}

/** X.509 knows no fractions of a second. */
function wholeSecond(ms: number): Date {
  return new Date(Math.floor(ms / 1000) * 1000);
}

/** When two thirds of a certificate's life are over: it is renewed from then on. */
export function renewalTime(certificate: X509Certificate): Date {
  const notBefore = certificate.validFromDate.getTime();
  const notAfter = certificate.validToDate.getTime();
  return wholeSecond(notBefore + ((notAfter - notBefore) * 2) / 3);
}

type Usage = 'server' | 'client';

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
async function sign(request: CertificateRequest): Promise<string> {
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
function subjectOfPem(certPem: string): JsonName {
  return new ParsedCertificate(certPem).subjectName.toJSON();
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

export interface CertificateAuthority {
  readonly certPem: string;
  /** PKCS #8. */
  readonly keyPem: string;
}

const defaultYears = 20;
const julianYearMs = 365.25 * 24 * 60 * 60_000;

/**
 * A self-signed authority on ECDSA P-256 that signs leafs only (path length 0).
 * It lives long because it is replaced on request only: all that a control plane trusts hangs on it.
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
    notAfter: wholeSecond(now.getTime() + (options.years ?? defaultYears) * julianYearMs),
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

export interface KeyPair {
  readonly certPem: string;
  /** PKCS #8. */
  readonly keyPem: string;
}

export interface LeafRequest {
  /** For Kubernetes and etcd: the user. Empty for a certificate without a user. */
  readonly commonName: string;
  /** For Kubernetes: the user's groups. */
  readonly organizations?: readonly string[];
  readonly dnsNames?: readonly string[];
  readonly ipAddresses?: readonly string[];
  readonly usage: readonly Usage[];
  /** Default one year; never beyond the end of the authority. */
  readonly validForMs?: number;
}

const yearMs = 365 * 24 * 60 * 60_000;

/**
 * A new key with a certificate signed by `authority`.
 * Throws PkiError: `DamagedAuthority`, `ExpiredAuthority`, `InvalidName`, `InvalidValidity`.
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
