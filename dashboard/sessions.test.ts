import { describe, expect, it } from 'vitest';
import { Sessions, SessionTooLarge } from './sessions.ts';

const hourMs = 3_600_000;

function sessions(key = 7): { sessions: Sessions; pass: (ms: number) => void } {
  let now = Date.parse('2026-01-01T00:00:00Z');
  return {
    sessions: new Sessions(new Uint8Array(32).fill(key), () => now),
    pass: (ms) => {
      now += ms;
    },
  };
}

const who = { user: 'ann', as: { is: 'token', token: 'secret-token' } } as const;

describe('a session', () => {
  it('is read from its cookie by whoever has the key, and shows nothing to others', () => {
    const { sessions: one } = sessions();
    const session = one.begin(who);
    const cookie = one.seal(session);
    expect(sessions().sessions.open(cookie)).toEqual(session);
    expect(Buffer.from(cookie, 'base64url').toString()).not.toContain('secret-token');
    expect(cookie).not.toContain('secret-token');
    expect(sessions(8).sessions.open(cookie)).toBeUndefined();
  });

  it('is not read from a cookie of which one bit was changed, or from anything else', () => {
    const { sessions: one } = sessions();
    const cookie = one.seal(one.begin(who));
    const bytes = Buffer.from(cookie, 'base64url');
    for (const at of [0, 20, bytes.length - 1]) {
      const changed = Buffer.from(bytes);
      changed[at] = (changed[at] ?? 0) ^ 1;
      expect(one.open(changed.toString('base64url'))).toBeUndefined();
    }
    for (const text of ['', 'x', 'x'.repeat(40), 'x'.repeat(5_000)]) expect(one.open(text)).toBeUndefined();
  });

  it('ends after twelve hours, and when it is ended', () => {
    const { sessions: one, pass } = sessions();
    const [first, second] = [one.begin(who), one.begin(who)];
    const [a, b] = [one.seal(first), one.seal(second)];
    one.end(first);
    expect([one.open(a), one.open(b)]).toEqual([undefined, second]);
    pass(12 * hourMs);
    expect(one.open(b)).toBeUndefined();
  });

  it('is refused when no browser would keep its cookie', () => {
    const { sessions: one } = sessions();
    const long = one.begin({ user: 'ann', as: { is: 'token', token: 'x'.repeat(3_500) } });
    expect(() => one.seal(long)).toThrow(SessionTooLarge);
  });

  it('is not taken from what was sealed for the way to an OIDC provider, or the other way round', () => {
    const { sessions: one, pass } = sessions();
    const pending = { state: 's', nonce: 'n', verifier: 'v' };
    const sealed = one.sealPending(pending);
    expect(one.openPending(sealed)).toMatchObject(pending);
    expect(one.open(sealed)).toBeUndefined();
    expect(one.openPending(one.seal(one.begin(who)))).toBeUndefined();
    pass(11 * 60_000);
    expect(one.openPending(sealed)).toBeUndefined();
  });
});

describe('a link', () => {
  it('signs in once, within a quarter of an hour', () => {
    const { sessions: one, pass } = sessions();
    const [first, second] = [one.link(), one.link()];
    expect(first).not.toBe(second);
    const giveBack = one.redeem(first);
    expect([giveBack === undefined, one.redeem(first)]).toEqual([false, undefined]);
    giveBack?.();
    expect(one.redeem(first)).toBeDefined();
    expect(one.redeem('')).toBeUndefined();
    pass(15 * 60_000);
    expect(one.redeem(second)).toBeUndefined();
  });
});
