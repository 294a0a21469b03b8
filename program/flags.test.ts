import { describe, expect, it } from 'vitest';
import { address, dnsDomain, positive } from './flags.ts';

describe('values of flags', () => {
  it('are read', () => {
    expect(address('127.0.0.1:80')).toEqual({ host: '127.0.0.1', port: 80 });
    expect(address('[::1]:0')).toEqual({ host: '::1', port: 0 });
    expect(address(':7443')).toEqual({ host: '0.0.0.0', port: 7443 });
    expect(positive('12')).toBe(12);
    expect(dnsDomain('tenants.example.com')).toBe('tenants.example.com');
  });

  it.each([
    [address, '127.0.0.1'],
    [address, 'host:65536'],
    [positive, '0'],
    [positive, '1.5'],
    [positive, 'many'],
    [dnsDomain, 'Upper.example.com'],
    [dnsDomain, '-a.example.com'],
    [dnsDomain, 'a..b'],
    [dnsDomain, `${'a'.repeat(60)}.`.repeat(4).slice(0, -1)],
  ])('are refused with an example: %o of %j', (parse, text) => {
    expect(() => parse(text)).toThrow(/^give /);
  });
});
