import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { podOfTokenSecret, tokenAsks, tokenSecretName } from './token-asks.ts';

describe('the Secret of a pod', () => {
  it('is called after the pod, and names it', () => {
    expect(tokenSecretName('web-1')).toBe('skerry-token-web-1');
    expect(podOfTokenSecret('skerry-token-web-1')).toBe('web-1');
    expect(podOfTokenSecret('web-1')).toBeUndefined();
  });

  it('is no longer than a name can be, and no two pods share it, however long their names are', () => {
    const long = 'a'.repeat(250);
    const cut = tokenSecretName(`${long}x`);
    expect(cut).toHaveLength(253);
    expect(podOfTokenSecret(cut)).toBeUndefined();
    expect(tokenSecretName(`${long}y`)).not.toBe(cut);
    // Neither does a pod that is called like the cut name of another.
    expect(tokenSecretName(cut.slice('skerry-token-'.length))).not.toBe(cut);
    fc.assert(
      fc.property(fc.stringMatching(/^[a-z]{1,253}$/), (name) => {
        const secret = tokenSecretName(name);
        expect(secret.length).toBeLessThanOrEqual(253);
        expect([name, undefined]).toContain(podOfTokenSecret(secret));
      }),
    );
  });
});

describe('the tokens that a pod asks for', () => {
  it('are none without volumes, or with others', () => {
    expect(tokenAsks(undefined)).toEqual([]);
    expect(
      tokenAsks({ volumes: [{}, { projected: { sources: null } }, { projected: { sources: [{}] } }] }),
    ).toEqual([]);
  });

  it('have the audience of the API server and an hour unless the pod says otherwise', () => {
    const sources = [
      { serviceAccountToken: { path: 'a' } },
      { serviceAccountToken: { path: 'b', audience: '', expirationSeconds: 3600 } },
      { serviceAccountToken: { path: 'c', audience: 'vault', expirationSeconds: 600 } },
    ];
    expect(tokenAsks({ volumes: [{ projected: { sources } }] })).toEqual([
      { audience: '', expirationSeconds: 3600 },
      { audience: 'vault', expirationSeconds: 600 },
    ]);
  });
});
