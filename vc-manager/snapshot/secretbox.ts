import { randomBytes } from 'node:crypto';
import { xsalsa20poly1305 } from '@noble/ciphers/salsa.js';
import type { Entry } from '../etcd/keyspace.ts';
import type { EncryptionKey } from '../pki/index.ts';
import { unknownEncryption } from './errors.ts';

/** How kube-apiserver begins a value that it has encrypted (`staging/src/k8s.io/apiserver/pkg/server/options/encryptionconfig`). */
const encryptedPrefix = 'k8s:enc:';
const secretboxPrefix = 'k8s:enc:secretbox:v1:';
const nonceLength = 24;
const longestKeyName = 64;

/** An entry of a datastore whose value is readable. */
export interface PlainEntry extends Entry {
  /** Its value was encrypted, and has to be where it is written again. */
  readonly isSecret: boolean;
}

/**
 * Decrypts what an API server has encrypted with one of these keys: a snapshot then depends neither on a key that is
 * rotated away nor on the tenant that it came from. Throws `UnknownEncryption`.
 */
export function decrypted({ key, value }: Entry, keys: readonly EncryptionKey[]): PlainEntry {
  const start = Buffer.from(value.buffer, value.byteOffset, Math.min(value.length, 128));
  if (!start.subarray(0, encryptedPrefix.length).equals(Buffer.from(encryptedPrefix)))
    return { key, value, isSecret: false };
  const isSecretbox = start.subarray(0, secretboxPrefix.length).equals(Buffer.from(secretboxPrefix));
  const end = isSecretbox ? start.indexOf(':', secretboxPrefix.length) : -1;
  const name = start.subarray(secretboxPrefix.length, end).toString();
  const found =
    end === -1 || name.length > longestKeyName ? undefined : keys.find((each) => each.name === name);
  if (found === undefined) throw unknownEncryption(key, isSecretbox ? `the key ${name}` : 'another cipher');
  const box = value.subarray(end + 1);
  try {
    const nonce = box.subarray(0, nonceLength);
    const plain = xsalsa20poly1305(secretOf(found), nonce).decrypt(box.subarray(nonceLength));
    return { key, value: plain, isSecret: true };
  } catch {
    throw unknownEncryption(key, `another key of the name ${name}`);
  }
}

/** As an API server would write it that writes with `writing`; undefined: one that encrypts nothing. */
export function encrypted({ key, value, isSecret }: PlainEntry, writing: EncryptionKey | undefined): Entry {
  if (!isSecret || writing === undefined) return { key, value };
  const nonce = randomBytes(nonceLength);
  const box = xsalsa20poly1305(secretOf(writing), nonce).encrypt(value);
  return { key, value: Buffer.concat([Buffer.from(`${secretboxPrefix}${writing.name}:`), nonce, box]) };
}

function secretOf({ secret }: EncryptionKey): Uint8Array {
  return Buffer.from(secret, 'base64');
}
