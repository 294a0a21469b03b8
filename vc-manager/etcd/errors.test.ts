import { describe, expect, it } from 'vitest';
import { answeredError, connectionError } from './errors.ts';

describe('errors of the datastore', () => {
  it.each([
    ['etcdserver: authentication failed, invalid user ID or password', 'password-refused', false],
    ['etcdserver: invalid auth token', 'token-refused', true],
    ['etcdserver: revision of auth store is old', 'auth-store-moved', true],
    ['etcdserver: authentication is not enabled', 'auth-disabled', true],
    ['etcdserver: mvcc: database space exceeded', 'no-space', true],
    ['etcdserver: user name already exists', 'already-exists', false],
    ['etcdserver: role name not found', 'not-found', false],
    ['etcdserver: permission denied', 'permission-denied', false],
    ['etcdserver: leader changed', 'unavailable', true],
    ['something new', 'request-refused', false],
  ])('tell %j apart', (message, code, retryable) => {
    const error = answeredError('https://127.0.0.1:1', '/v3/x', 400, message);
    expect(error).toMatchObject({ code, retryable, endpoint: 'https://127.0.0.1:1', path: '/v3/x' });
    expect(error.message).toContain(message.replace('etcdserver: ', ''));
  });

  it('take an unknown fault of the server for one that passes', () => {
    expect(answeredError('https://127.0.0.1:1', '/v3/x', 503, '')).toMatchObject({
      code: 'unavailable',
      message: expect.stringContaining('HTTP 503'),
    });
  });

  it.each([
    ['ECONNREFUSED', 'unreachable'],
    ['UND_ERR_HEADERS_TIMEOUT', 'timeout'],
    ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'tls-refused'],
    ['ERR_TLS_CERT_ALTNAME_INVALID', 'tls-refused'],
    ['ERR_SSL_TLSV1_ALERT_UNKNOWN_CA', 'tls-refused'],
  ])('tell the missing answer %s apart', (code, expected) => {
    const cause = Object.assign(new Error('why'), { code });
    expect(connectionError('https://127.0.0.1:1', '/v3/x', cause)).toMatchObject({ code: expected, cause });
  });
});
