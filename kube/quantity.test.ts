import { expect, it } from 'vitest';
import { parseQuantity } from './quantity.ts';

it('reads quantities in all their forms', () => {
  const cases: [string | number | undefined, number | undefined][] = [
    ['1Gi', 2 ** 30],
    ['1024Mi', 2 ** 30],
    ['1.5Gi', 1.5 * 2 ** 30],
    ['500M', 5e8],
    ['1e3', 1000],
    ['1E', 1e18],
    ['1E2', 100],
    ['100m', 0.1],
    ['0', 0],
    [7, 7],
    ['', undefined],
    ['1GB', undefined],
    ['big', undefined],
    [undefined, undefined],
  ];
  for (const [text, value] of cases) {
    const parsed = parseQuantity(text);
    if (value === undefined) expect(parsed, String(text)).toBeUndefined();
    else expect(parsed, String(text)).toBeCloseTo(value, 6);
  }
});
