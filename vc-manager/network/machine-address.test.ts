import type { NetworkInterfaceInfo } from 'node:os';
import { describe, expect, it } from 'vitest';
import { machineAddress } from './machine-address.ts';

function ipv4(address: string, internal = false): NetworkInterfaceInfo {
  return {
    address,
    internal,
    family: 'IPv4',
    netmask: '255.255.255.0',
    mac: '00:00:00:00:00:00',
    cidr: null,
  };
}

const ipv6: NetworkInterfaceInfo = {
  address: 'fd00::1',
  internal: false,
  family: 'IPv6',
  netmask: 'ffff::',
  mac: '00:00:00:00:00:00',
  cidr: null,
  scopeid: 0,
};

describe('machineAddress', () => {
  it('takes the first IPv4 address that is neither loopback nor link-local', () => {
    const interfaces = {
      lo: [ipv4('127.0.0.1', true)],
      usb0: [ipv4('169.254.3.4')],
      eth0: [ipv6, ipv4('192.0.2.7')],
      eth1: [ipv4('192.0.2.8')],
    };
    expect(machineAddress(interfaces)).toBe('192.0.2.7');
  });

  it('is undefined on a machine with loopback only', () => {
    expect(machineAddress({ lo: [ipv4('127.0.0.1', true)], down: undefined })).toBeUndefined();
  });
});
