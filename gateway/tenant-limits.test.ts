import { describe, expect, it } from 'vitest';
import { TenantLimits } from './tenant-limits.ts';

let nowMs = 0;
const limits = (connections: number, rate: number, burst: number) => {
  nowMs = 0;
  const some = new TenantLimits({ all: 1_000, connections, rate, burst }, () => nowMs);
  const closes: (() => void)[] = [];
  return {
    open(tenant: string): string | undefined {
      const opened = some.open(tenant, () => undefined);
      if (typeof opened === 'string') return opened;
      closes.push(opened);
      return undefined;
    },
    /** The oldest. */
    close: () => closes.shift()?.(),
    keep: (tenants: ReadonlySet<string>) => some.keep(tenants),
  };
};

describe('the connections of a tenant', () => {
  it('are refused beyond the burst, and come again at the rate, up to the burst', () => {
    const some = limits(100, 2, 3);
    const open = (times: number) => Array.from({ length: times }, () => some.open('blue'));
    expect(open(4)).toEqual([undefined, undefined, undefined, 'rate']);
    nowMs = 400;
    expect(open(1)).toEqual(['rate']);
    nowMs = 500;
    expect(open(2)).toEqual([undefined, 'rate']);
    // However long nobody comes.
    nowMs = 3_600_000;
    expect(open(4)).toEqual([undefined, undefined, undefined, 'rate']);
    expect(some.open('red')).toBeUndefined();
  });

  it('take no token when they are refused because there are too many', () => {
    const some = limits(1, 1, 2);
    expect(some.open('blue')).toBeUndefined();
    for (let count = 0; count < 5; count++) expect(some.open('blue')).toBe('connections');
    some.close();
    expect(some.open('blue')).toBeUndefined();
    some.close();
    expect(some.open('blue')).toBe('rate');
  });

  it('are forgotten with a tenant that is gone, once they are closed', () => {
    const some = limits(9, 1, 1);
    some.open('blue');
    some.keep(new Set());
    expect(some.open('blue')).toBe('rate');
    some.close();
    some.keep(new Set(['blue']));
    expect(some.open('blue')).toBe('rate');
    some.keep(new Set());
    expect(some.open('blue')).toBeUndefined();
  });
});
