import { createPrivateKey, createPublicKey, generateKeyPair, type KeyObject } from 'node:crypto';
import { promisify } from 'node:util';

const generate = promisify(generateKeyPair);

export interface ServiceAccountKey {
  /** PKCS #8; signs the tenant's service-account tokens. */
  readonly privatePem: string;
  /** SubjectPublicKeyInfo; verifies them. */
  readonly publicPem: string;
}

/** A new ECDSA key on P-256. */
export async function createKey(): Promise<KeyObject> {
  const { privateKey } = await generate('ec', { namedCurve: 'P-256' });
  return privateKey;
}

export function privatePem(key: KeyObject): string {
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
