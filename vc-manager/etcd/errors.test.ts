import { describe, expect, it } from 'vitest';
import { answeredError, connectionError } from './errors.ts';

describe('errors of the datastore', () => {
  it.each([
    ['etcdserver: authentication failed, invalid user ID or password', 'PasswordRefused', false],
    ['etcdserver: invalid auth token', 'TokenRefused', true],
    ['etcdserver: revision of auth store is old', 'AuthStoreMoved', true],
    ['etcdserver: authentication is not enabled', 'AuthDisabled', true],
    ['etcdserver: mvcc: database space exceeded', 'NoSpace', true],
    ['etcdserver: user name already exists', 'AlreadyExists', false],
    ['etcdserver: role name not found', 'NotFound', false],
    ['etcdserver: permission denied', 'PermissionDenied', false],
    ['etcdserver: leader changed', 'Unavailable', true],
    ['something new', 'RequestRefused', false],
  ])('tell %j apart', (message, code, retryable) => {
    const error = answeredError('https://127.0.0.1:1', '/v3/x', 400, message);
    expect(error).toMatchObject({ code, retryable, endpoint: 'https://127.0.0.1:1', path: '/v3/x' });
    expect(error.message).toContain(message.replace('etcdserver: ', ''));
  });

  it('take an unknown fault of the server for one that passes', () => {
    expect(answeredError('https://127.0.0.1:1', '/v3/x', 503, '')).toMatchObject({
      code: 'Unavailable',
      message: expect.stringContaining('HTTP 503'),
    });
  });

  it.each([
    ['ECONNREFUSED', 'Unreachable'],
    ['UND_ERR_HEADERS_TIMEOUT', 'Timeout'],
    ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'TlsRefused'],
    ['ERR_TLS_CERT_ALTNAME_INVALID', 'TlsRefused'],
    ['ERR_SSL_TLSV1_ALERT_UNKNOWN_CA', 'TlsRefused'],
  ])('tell the missing answer %s apart', (code, expected) => {
    const cause = Object.assign(new Error('why'), { code });
    expect(connectionError('https://127.0.0.1:1', '/v3/x', cause)).toMatchObject({ code: expected, cause });
  });
});
