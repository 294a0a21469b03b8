import { describe, expect, it } from 'vitest';
import { hostInUrl, isLoopback, ListenError } from './addresses.ts';

describe('an address', () => {
  it.each(['localhost', '127.0.0.1', '127.8.9.10', '::1', '[::1]'])(
    '%s is reached by the machine itself only',
    (host) => expect(isLoopback(host)).toBe(true),
  );

  it.each([
    // Names that anybody may have: a page of theirs must not read the dashboard.
    ...['127.evil.example', '127.0.0.1.evil.example', 'localhost.evil.example', 'evil.localhost.example'],
    ...['10.0.0.1', '0.0.0.0', '::', '[::]', '[fd00::1]', ''],
  ])('%j is reached by others', (host) => expect(isLoopback(host)).toBe(false));

  it('is in brackets in a URL where it has colons', () => {
    expect(['::1', 'fd00::1', '10.0.0.1', 'gateway.example'].map(hostInUrl)).toEqual([
      ...['[::1]', '[fd00::1]', '10.0.0.1', 'gateway.example'],
    ]);
  });
});

it.each([
  ['EADDRINUSE', 'AddressInUse', 'the port is taken'],
  ['EADDRNOTAVAIL', 'AddressNotAvailable', 'this machine does not have that address'],
  ['EACCES', 'PortNotPermitted', 'ports below 1024 need privileges'],
  ['EINVAL', 'CannotListen', 'as the system says it'],
])('%s is told as %s, with what to do', (code, expected, text) => {
  const cause = Object.assign(new Error('as the system says it'), { code });
  const error = new ListenError('serve metrics', '10.0.0.1', 80, cause);
  expect(error).toMatchObject({ code: expected, host: '10.0.0.1', port: 80 });
  expect(error.message).toMatch(`cannot serve metrics on 10.0.0.1:80: ${text}`);
  const own = new ListenError('serve metrics', '10.0.0.1', 80, cause, 'give --metrics-port another port');
  expect(own.message).toBe('cannot serve metrics on 10.0.0.1:80: give --metrics-port another port');
});
