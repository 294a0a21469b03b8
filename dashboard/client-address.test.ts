import { BlockList } from 'node:net';
import { describe, expect, it } from 'vitest';
import { clientAddress, networkOf } from './client-address.ts';

const trusted = new BlockList();
trusted.addSubnet('10.0.0.0', 8, 'ipv4');
trusted.addSubnet('fd00::', 8, 'ipv6');

describe('the address of a client', () => {
  it.each([
    ['is that of the connection', '192.0.2.1', undefined, '192.0.2.1'],
    [
      'is that of the connection, whatever one that is no proxy says',
      '192.0.2.1',
      '198.51.100.7',
      '192.0.2.1',
    ],
    ['is what a trusted proxy says', '10.1.2.3', '198.51.100.7', '198.51.100.7'],
    ['is what the last trusted proxy was asked by', '10.1.2.3', '198.51.100.7, 10.9.9.9', '198.51.100.7'],
    ['is not what the client itself wrote', '10.1.2.3', '203.0.113.5, 198.51.100.7', '198.51.100.7'],
    ['is found over IPv6', 'fd00::1', '2001:db8::9', '2001:db8::9'],
    ['is found over IPv4 in IPv6', '::ffff:10.1.2.3', '198.51.100.7', '198.51.100.7'],
    ['has no port', '10.1.2.3', '198.51.100.7:4711', '198.51.100.7'],
    ['has no brackets', '10.1.2.3', '[2001:db8::9]:4711', '2001:db8::9'],
    ['is that of the proxy where it names none', '10.1.2.3', 'unknown', '10.1.2.3'],
    ['is that of the proxy where it says nothing', '10.1.2.3', undefined, '10.1.2.3'],
    ['is the last one where all are proxies', '10.1.2.3', '10.4.4.4', '10.4.4.4'],
  ])('%s', (_, remote, forwardedFor, expected) => {
    expect(clientAddress(remote, forwardedFor, trusted)).toBe(expected);
  });

  it('is that of the connection where no proxy is trusted', () => {
    expect(clientAddress('10.1.2.3', '198.51.100.7', undefined)).toBe('10.1.2.3');
  });
});

describe('whom attempts to sign in are counted for', () => {
  it.each([
    ['192.0.2.1', '192.0.2.1'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:0DB8:1:2::9', '2001:db8:1:2::/64'],
    ['2001:db8::9', '2001:db8:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['unknown', 'unknown'],
  ])('%s counts as %s', (address, expected) => {
    expect(networkOf(address)).toBe(expected);
  });
});
