import { describe, expect, it } from 'vitest';
import { coversHost, coversRange } from './covers.ts';

describe('coversHost', () => {
  it.each([
    ['shop.example.com', 'shop.example.com'],
    ['*.example.com', 'shop.example.com'],
    ['*.example.com', 'a.b.example.com'],
    ['*.example.com', '*.example.com'],
    ['*.example.com', '*.shop.example.com'],
    ['*', 'anything.org'],
    ['*', '*.org'],
  ])('%s covers %s', (allowed, host) => {
    expect(coversHost(['x.org', allowed], host)).toBe(true);
  });

  it.each([
    ['shop.example.com', 'a.shop.example.com'],
    ['shop.example.com', '*.shop.example.com'],
    ['*.example.com', 'example.com'],
    ['*.example.com', 'evilexample.com'],
    ['*.shop.example.com', '*.example.com'],
    ['*.example.com', '*.com'],
  ])('%s does not cover %s', (allowed, host) => {
    expect(coversHost([allowed], host)).toBe(false);
  });
});

describe('coversRange', () => {
  it.each([
    ['192.0.2.0/24', '192.0.2.0/24'],
    ['192.0.2.0/24', '192.0.2.128/25'],
    ['192.0.2.0/24', '192.0.2.7/32'],
    ['0.0.0.0/0', '10.0.0.0/8'],
    ['2001:db8::/32', '2001:db8:1::/48'],
  ])('%s covers %s', (allowed, range) => {
    expect(coversRange(['198.51.100.0/24', allowed], range)).toBe(true);
  });

  it.each([
    ['192.0.2.0/24', '192.0.2.0/23'],
    ['192.0.2.0/25', '192.0.2.128/25'],
    ['192.0.2.0/24', '0.0.0.0/0'],
    ['0.0.0.0/0', '2001:db8::/32'],
    ['0.0.0.0/0', '999.0.0.1/32'],
    ['0.0.0.0/0', '10.0.0.0/33'],
    ['0.0.0.0/0', '10.0.0.0'],
    ['nonsense', '10.0.0.0/8'],
  ])('%s does not cover %s', (allowed, range) => {
    expect(coversRange([allowed], range)).toBe(false);
  });
});
