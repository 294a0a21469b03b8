import { hash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import {
  advancedRotation,
  cancelledRotation,
  type EncryptionState,
  encryptionData,
  encryptionProviders,
  ensureEncryption,
  nameOf,
  writingKey,
} from './encryption-keys.ts';

const keyOf = (secret: string) => ({ name: nameOf(secret), secret });
const k1 = keyOf(`${'A'.repeat(43)}=`);
const k2 = keyOf(`${'B'.repeat(43)}=`);

const providers = (state: EncryptionState): unknown => JSON.parse(encryptionProviders(state));
const started = { wasStarted: true, newKey: () => k2 };

describe('encryption keys of a tenant', () => {
  it('are there from the beginning, alone: nothing unencrypted is ever read', () => {
    const state = ensureEncryption(undefined, { wasStarted: false });
    expect(providers(state)).toEqual([
      { secretbox: { keys: [{ name: expect.stringMatching(/^key-/), secret: expect.any(String) }] } },
    ]);
    const other = ensureEncryption(undefined, { wasStarted: false });
    expect(other).not.toEqual(state);
    expect(
      ensureEncryption(encryptionData(state), { wasStarted: true, reported: writingKey(state)?.name }),
    ).toEqual(state);
  });

  it('come to an existing control plane in an order in which every server can read every value', () => {
    const first = ensureEncryption({ 'client-ca.crt': 'x' }, started);
    const second = advancedRotation(first);
    const last = advancedRotation(second);
    expect([first, second, last].map(providers)).toEqual([
      [{ identity: {} }, { secretbox: { keys: [k2] } }],
      [{ secretbox: { keys: [k2] } }, { identity: {} }],
      [{ secretbox: { keys: [k2] } }],
    ]);
    expect([first, second, last].map(writingKey)).toEqual([undefined, k2, k2]);
  });

  it('are not made under a template without an EncryptionConfiguration, and come with one', () => {
    const plain = ensureEncryption(undefined, { wasStarted: false, isConfigured: false });
    expect(writingKey(plain)).toBeUndefined();
    const later = ensureEncryption(encryptionData(plain), started);
    expect(providers(later)).toEqual([{ identity: {} }, { secretbox: { keys: [k2] } }]);
  });

  it('are rotated on request, once, through both keys', () => {
    const stored = encryptionData({ current: k1 });
    const first = ensureEncryption(stored, { ...started, reported: k1.name, request: 'one' });
    const again = ensureEncryption(encryptionData(first), { ...started, request: 'one', newKey: () => k1 });
    expect(again).toEqual(first);
    const second = advancedRotation(first);
    expect([first, second, advancedRotation(second)].map(providers)).toEqual([
      [{ secretbox: { keys: [k1, k2] } }],
      [{ secretbox: { keys: [k2, k1] } }],
      [{ secretbox: { keys: [k2] } }],
    ]);
  });

  it('go back when the rotation is cancelled before anything was written with the new one, and not later', () => {
    const first = ensureEncryption(encryptionData({ current: k1 }), { ...started, request: 'one' });
    const back = cancelledRotation(encryptionData(first), 'another');
    expect(back).toEqual({ current: k1, followed: 'one' });
    const data = encryptionData(back as EncryptionState);
    expect(ensureEncryption(data, { ...started, request: 'one' })).toEqual(back);
    expect(ensureEncryption(data, { ...started, request: 'two' }).rotation?.request).toBe('two');
    const second = advancedRotation(first);
    expect(cancelledRotation(encryptionData(second), 'one')).toBeUndefined();
    expect(advancedRotation(second)).toEqual({ current: k2, followed: 'one' });
    // Encryption that is switched on was asked for by no one who could take it back.
    expect(cancelledRotation(encryptionData(ensureEncryption({}, started)), 'one')).toBeUndefined();
    expect(cancelledRotation(encryptionData({ current: k1 }), 'one')).toEqual({
      current: k1,
      followed: 'one',
    });
  });

  it('are not left out under a template that does not use them', () => {
    const changed = expect.objectContaining({ code: 'EncryptionChanged' });
    const off = { ...started, isConfigured: false, request: 'one' };
    expect(() => ensureEncryption(encryptionData({ current: k1 }), off)).toThrow(changed);
    expect(() => ensureEncryption(encryptionData(ensureEncryption({}, started)), off)).toThrow(changed);
    expect(ensureEncryption(encryptionData({ current: 'identity' }), off)).toEqual({ current: 'identity' });
  });

  it('remember how far Secrets are rewritten, and begin anew with what cannot be read of it', () => {
    const position = { slices: 1, pages: 2, done: 3, refusals: 1, refused: ['a/b'], token: 't', why: 'w' };
    const stage = 'write';
    const state = { current: k1, rotation: { next: k2, stage, position } } as const;
    expect(ensureEncryption(encryptionData(state), started)).toEqual(state);
    for (const damaged of [null, 7, {}, { ...position, refused: [1] }, { ...position, token: {} }]) {
      const data = encryptionData({ current: k1, rotation: { next: k2, stage, position: damaged as never } });
      expect(ensureEncryption(data, started)).toEqual({ current: k1, rotation: { next: k2, stage } });
    }
  });

  it('from before there were rotations are kept, and what was written without one is rewritten', () => {
    const before = { 'encryption.secret': k1.secret, 'encryption.digest': hash('sha256', k1.secret, 'hex') };
    const key = { name: 'key-1', secret: k1.secret };
    const state = ensureEncryption(before, started);
    expect(providers(state)).toEqual([{ secretbox: { keys: [key] } }, { identity: {} }]);
    expect(encryptionData(state)).toMatchObject({ 'encryption.secret': '', 'encryption.digest': '' });
    expect(ensureEncryption(encryptionData(state), { ...started, reported: 'key-1' })).toEqual(state);
    expect(advancedRotation(state)).toEqual({ current: key });
    expect(() => ensureEncryption({ ...before, 'encryption.secret': k2.secret }, started)).toThrow(
      'another one',
    );
  });

  it.each([
    ['gone', {}],
    ['another one', encryptionData({ current: k2 })],
    ['under its name', encryptionData({ current: { ...k1, secret: k2.secret } })],
    ['no JSON', { 'encryption.json': '{' }],
    ['null', { 'encryption.json': 'null' }],
    ['a name that would be YAML', encryptionData({ current: { ...k1, name: 'a"}]\n- x' } })],
    ['too short', encryptionData({ current: { ...k1, secret: 'QQ==' } })],
    ['half a rotation', { 'encryption.json': JSON.stringify({ current: k1, rotation: null }) }],
  ])('that were lost are an error, not replaced: %s', (_, stored) => {
    expect(() => ensureEncryption(stored, { ...started, reported: k1.name })).toThrow(
      expect.objectContaining({ code: 'DamagedAuthority' }),
    );
  });
});
