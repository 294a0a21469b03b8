import { describe, expect, it } from 'vitest';
import { direct, inTurn, tenants } from './rounds.ts';

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
