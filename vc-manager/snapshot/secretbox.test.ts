import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { nameOf } from '../pki/encryption-keys.ts';
import { decrypted, encrypted } from './secretbox.ts';

function newKey() {
  const secret = randomBytes(32).toString('base64');
  return { name: nameOf(secret), secret };
}
const [one, two] = [newKey(), newKey()];
const plain = { key: 'secrets/shop/password', value: Buffer.from('k8s\0swordfish'), isSecret: true };

// That an API server reads and writes the same is shown by test/snapshot.test.ts.
describe('an encrypted value', () => {
  it('is decrypted with the key that it names, and encrypted with another', () => {
    const stored = encrypted(plain, one);
    expect(Buffer.from(stored.value).toString('latin1')).toMatch(
      new RegExp(`^k8s:enc:secretbox:v1:${one.name}:`),
    );
    expect(Buffer.from(stored.value).toString('latin1')).not.toContain('swordfish');
    const read = decrypted(stored, [two, one]);
    expect({ ...read, value: Buffer.from(read.value) }).toEqual(plain);
    expect(encrypted(plain, two).value).not.toEqual(stored.value);
  });

  it('stays as it is where nothing is encrypted', () => {
    const { key, value } = plain;
    expect(encrypted(plain, undefined)).toEqual({ key, value });
    expect(encrypted({ key, value, isSecret: false }, one)).toEqual({ key, value });
    expect(decrypted({ key, value }, [one])).toEqual({ key, value, isSecret: false });
  });

  it('is refused when its key is missing, another one of its name, or it was changed', () => {
    const stored = encrypted(plain, one);
    const changed = Buffer.from(stored.value);
    changed[changed.length - 1] = (changed.at(-1) ?? 0) ^ 1;
    const cases = [
      decrypted.bind(undefined, stored, [two]),
      decrypted.bind(undefined, stored, [{ ...two, name: one.name }]),
      decrypted.bind(undefined, { ...stored, value: changed }, [one]),
      decrypted.bind(undefined, { ...stored, value: Buffer.from(`k8s:enc:secretbox:v1:${one.name}:short`) }, [
        one,
      ]),
      decrypted.bind(undefined, { ...stored, value: Buffer.from('k8s:enc:secretbox:v1:noend') }, [one]),
      decrypted.bind(undefined, { ...stored, value: Buffer.from('k8s:enc:aesgcm:v1:a:xyz') }, [one]),
    ];
    for (const each of cases) expect(each).toThrow(expect.objectContaining({ code: 'UnknownEncryption' }));
  });
});
