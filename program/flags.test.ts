import { Command } from 'commander';
import { describe, expect, it } from 'vitest';
import { address, dnsDomain, flagHelp, positive } from './flags.ts';

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

it('defaults are shown as they are given, and not where there are none', () => {
  const shown = new Command()
    .configureHelp(flagHelp)
    .option('--listen <host:port>', 'where', address, { host: '127.0.0.1', port: 7443 })
    .option('--key <key>', 'repeatable', (text, before: string[]) => [...before, text], [])
    .option('--proxy', 'whether', false)
    .option('--workers <n>', 'at once', positive, 60)
    .helpInformation();
  expect(shown.match(/\(default: .*?\)/g)).toEqual(['(default: 127.0.0.1:7443)', '(default: 60)']);
});
