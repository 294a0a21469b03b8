import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  hasTooManyTokenRequests,
  podOfTokenSecret,
  tokenRequests,
  tokenSecretName,
} from './token-requests.ts';

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
    expect(tokenRequests(undefined)).toEqual([]);
    expect(
      tokenRequests({ volumes: [{}, { projected: { sources: null } }, { projected: { sources: [{}] } }] }),
    ).toEqual([]);
  });

  it('have the audience of the API server and an hour unless the pod says otherwise', () => {
    const sources = [
      { serviceAccountToken: { path: 'a' } },
      { serviceAccountToken: { path: 'b', audience: '', expirationSeconds: 3600 } },
      { serviceAccountToken: { path: 'c', audience: 'vault', expirationSeconds: 600 } },
    ];
    expect(tokenRequests({ volumes: [{ projected: { sources } }] })).toEqual([
      { audience: '', expirationSeconds: 3600 },
      { audience: 'vault', expirationSeconds: 600 },
    ]);
  });

  it('are 32 at most, and no more sources are looked at than that takes', () => {
    let looks = 0;
    const source = (index: number): object => ({
      get serviceAccountToken() {
        looks += 1;
        return { path: `t${index}`, audience: `a${index}` };
      },
    });
    const spec = (count: number): { volumes: { projected: { sources: object[] } }[] } => ({
      volumes: [{ projected: { sources: Array.from({ length: count }, (_, index) => source(index)) } }],
    });
    expect(tokenRequests(spec(32))).toHaveLength(32);
    expect(hasTooManyTokenRequests(spec(32))).toBe(false);
    expect(hasTooManyTokenRequests(spec(33))).toBe(true);
    looks = 0;
    expect(tokenRequests(spec(10_000))).toHaveLength(32);
    expect(looks).toBe(32);
    const [last] = tokenRequests(spec(10_000)).slice(-1);
    expect(last).toEqual({ audience: 'a31', expirationSeconds: 3600 });
    const twice = { volumes: [...spec(32).volumes, ...spec(32).volumes] };
    expect(hasTooManyTokenRequests(twice)).toBe(false);
  });
});
