import { describe, expect, it } from 'vitest';
import { formatQuantity, largestQuantity, nano, parseExactQuantity, parseQuantity } from './quantity.ts';

describe('an exact quantity', () => {
  it.each<[unknown, bigint]>([
    ['1', nano],
    [2, 2n * nano],
    ['100m', nano / 10n],
    ['0.1', nano / 10n],
    ['.5', nano / 2n],
    ['5.', 5n * nano],
    ['1.5Gi', 3n * 2n ** 29n * nano],
    ['1e3', 1000n * nano],
    ['1E3', 1000n * nano],
    ['1E', 10n ** 18n * nano],
    ['1e-3', nano / 1000n],
    ['1n', 1n],
    ['-1', -nano],
    ['0.1Ki', 102_400_000_000n],
  ])('%s is read without loss', (text, value) => {
    expect(parseExactQuantity(text)).toBe(value);
  });

  it('rounds what is finer than a nano-unit up, and holds what is larger than Kubernetes can count', () => {
    expect(parseExactQuantity('0.1n')).toBe(1n);
    expect(parseExactQuantity('1e-999999')).toBe(1n);
    expect(parseExactQuantity('8Ei')).toBe(largestQuantity);
    expect(parseExactQuantity('1e99999999999')).toBe(largestQuantity);
    expect(parseExactQuantity('0e99999999999')).toBe(0n);
  });

  it.each([
    undefined,
    null,
    '',
    '.',
    '1GB',
    'big',
    ' 1',
    '1 ',
    '--1',
    '1e',
    {},
    [],
    true,
    '9'.repeat(10_000),
  ])('is not %j', (text) => {
    expect(parseExactQuantity(text)).toBeUndefined();
  });

  it('is printed in the largest unit in which it is whole', () => {
    for (const text of ['0', '1', '100m', '64Gi', '1500m', '3Ki', '1u', '7n', '1000'])
      expect(formatQuantity(parseExactQuantity(text) as bigint)).toBe(text);
  });
});

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
