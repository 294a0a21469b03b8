import { describe, expect, it } from 'vitest';
import { direct, inTurn, neverReady, podsPerSecond, readyTimes, tenants } from './rounds.ts';

describe('the order of sides', () => {
  it('is reversed from repeat to repeat, so that none is always the first', () => {
    const order = [0, 1, 2].map((repeat) => inTurn([direct, tenants], repeat).map(({ name }) => name));
    expect(order).toEqual([
      ['direct', 'tenants'],
      ['tenants', 'direct'],
      ['direct', 'tenants'],
    ]);
  });
});

const pods = [
  { target: 'a', createdMs: 100, acceptedMs: 110, readyMs: 300 },
  { target: 'a', createdMs: 150, acceptedMs: 160, readyMs: 1100 },
  { target: 'b', createdMs: 200 },
];

describe('the figures of a round', () => {
  it('measure each pod from its own create call', () => {
    expect(readyTimes(pods)).toMatchObject({ count: 2, p50: 200, max: 950 });
  });

  it('count pods from the first create call until the last pod is Ready', () => {
    expect(podsPerSecond(pods)).toBe(2);
  });

  it('do not hide pods that never became Ready', () => {
    expect(neverReady(pods)).toBe(1);
  });
});
