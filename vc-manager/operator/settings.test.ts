import { describe, expect, it } from 'vitest';
import { operatorSettings } from './settings.ts';

const gateway = { domain: 'tenants.example.com', port: 443, ports: { first: 1, last: 2 } };
const least = { advertiseAddress: '192.0.2.1', etcdEndpoint: 'https://127.0.0.1:2379' };

describe('operatorSettings', () => {
  it('fills in what is not given', () => {
    expect(operatorSettings({ ...least, parallel: 9 })).toMatchObject({
      namespace: 'skerry-system',
      servicePool: '10.112.0.0/12',
      slicePrefixLength: 22,
      parallel: 9,
    });
  });

  it.each([
    ['an advertised address that pods could not reach', { advertiseAddress: '127.0.0.1' }, /loopback/],
    [
      'a gateway address that pods could not reach',
      { gateway: { ...gateway, podAddress: '127.0.0.1' } },
      /loopback/,
    ],
    [
      'a name as gateway address for pods',
      { gateway: { ...gateway, podAddress: 'example.org' } },
      /not an IP/,
    ],
    [
      'a gateway for pods without ports',
      { gateway: { domain: gateway.domain, port: 443, podAddress: '192.0.2.1' } },
      /--gateway-ports/,
    ],
    ['an advertised name', { advertiseAddress: 'example.org' }, /not an IP address/],
    ['a bind address that is none', { bindAddress: '' }, /bindAddress/],
    ['a range of ports that runs backwards', { portRange: { first: 9, last: 8 } }, /9-8/],
    ['no parallel work', { parallel: 0 }, /parallel/],
    ['a look without pause', { recheckMs: 0 }, /recheckMs/],
    ['a slice of no size', { slicePrefixLength: 0 }, /slicePrefixLength/],
  ])('refuses %s', (_name, wrong, message) => {
    expect(() => operatorSettings({ ...least, ...wrong })).toThrow(message);
  });
});
