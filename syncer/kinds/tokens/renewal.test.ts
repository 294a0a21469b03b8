import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isRenewalDue, renewalMs } from './renewal.ts';

const minute = 60_000;
const day = 24 * 60 * minute;

describe('when a token is renewed (rule 6)', () => {
  it('is at 80 % of its life, at most a twentieth of it earlier', () => {
    fc.assert(
      fc.property(fc.uuid(), fc.integer({ min: 900, max: 86_400 }), (uid, seconds) => {
        const share = renewalMs(seconds, uid, 0) / (seconds * 1000);
        expect(share).toBeGreaterThanOrEqual(0.75 - 1e-6);
        expect(share).toBeLessThanOrEqual(0.8);
      }),
    );
  });

  it('is three minutes before it ends at the latest', () => {
    fc.assert(
      fc.property(fc.uuid(), fc.integer({ min: 600, max: 2 ** 32 }), (uid, seconds) => {
        expect(renewalMs(seconds, uid, 0)).toBeLessThanOrEqual(seconds * 1000 - 3 * minute);
      }),
    );
    expect(renewalMs(600, 'any', 0)).toBeGreaterThan(6 * minute);
  });

  it('is after a day at the latest', () => {
    expect(renewalMs(365 * 86_400, 'any', 0)).toBeLessThanOrEqual(day);
    expect(renewalMs(365 * 86_400, 'any', 0)).toBeGreaterThan(0.9 * day);
  });

  it('differs between pods, and not for the same one', () => {
    const times = Array.from({ length: 200 }, (_, index) => renewalMs(3607, `pod-${index}`, 0));
    expect(new Set(times).size).toBeGreaterThan(190);
    expect(Math.max(...times) - Math.min(...times)).toBeGreaterThan(2 * minute);
    expect(renewalMs(3607, 'pod-7', 0)).toBe(times[7]);
  });

  it('has come when its time has, and when the time makes no sense', () => {
    expect(isRenewalDue(1000, 999)).toBe(false);
    expect(isRenewalDue(1000, 1000)).toBe(true);
    expect(isRenewalDue(Number.NaN, 0)).toBe(true);
    expect(isRenewalDue(day + 1, 0)).toBe(true);
  });
});
