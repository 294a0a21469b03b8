import { describe, expect, it } from 'vitest';
import { ApiError, ConnectionError } from '../../kube/index.ts';
import { DriverError, podsNotReady } from '../drivers/errors.ts';
import { EtcdError } from '../etcd/errors.ts';
import { explain, poolExhausted } from './errors.ts';

describe('explain', () => {
  it('makes a reason of every code, as Kubernetes writes reasons', () => {
    const reasons = [
      new EtcdError('NoSpace', 'full'),
      new DriverError('PortInUse', 'in use', {}),
      new ConnectionError('https://127.0.0.1:1', 'ECONNREFUSED'),
      new ApiError(503, undefined, 'GET /x'),
      new ApiError(409, { reason: 'Conflict' }, 'PUT /x'),
      poolExhausted('10.0.0.0/30', 22),
      new Error('?'),
      Object.assign(new Error('no file'), { code: 'ENOENT' }),
      'a string',
    ].map((error) => explain(error).reason);
    expect(reasons).toEqual([
      'NoSpace',
      'PortInUse',
      'Unreachable',
      'HTTP503',
      'Conflict',
      'PoolExhausted',
      'InternalError',
      'ENOENT',
      'InternalError',
    ]);
    for (const reason of reasons) expect(reason).toMatch(/^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$/);
  });

  it('names the tenant as people do', () => {
    const error = new DriverError('NotReady', 'kube-apiserver of abc123 was not ready', {});
    const tenant = { key: 'teams/blue', vc: { metadata: {}, status: { id: 'abc123' } } };
    expect(explain(error, tenant).message).toBe('kube-apiserver of teams/blue was not ready');
    expect(explain(error, { ...tenant, vc: { metadata: {} } }).message).toBe(error.message);
  });

  it('keeps what the error says about trying again', () => {
    expect(explain(new EtcdError('Unreachable', 'down')).retryable).toBe(true);
    expect(explain(poolExhausted('10.0.0.0/30', 22)).retryable).toBe(false);
    expect(explain(new ApiError(429, undefined, 'GET /x', '7'))).toMatchObject({
      retryable: true,
      retryAfterMs: 7_000,
    });
    expect(explain(new ApiError(403, undefined, 'GET /x')).retryable).toBe(false);
  });

  it('waits no longer than a minute, whatever a server asks for', () => {
    expect(explain(new ApiError(429, undefined, 'GET /x', '86400')).retryAfterMs).toBe(60_000);
    const details = { retryAfterSeconds: 1e300 };
    expect(explain(new ApiError(503, { details }, 'GET /x')).retryAfterMs).toBe(60_000);
    expect(explain(new ApiError(503, { details }, 'GET /x', '59')).retryAfterMs).toBe(59_000);
  });

  it('takes no word of an API server that its machine is short of memory', () => {
    const said = new ApiError(
      500,
      { reason: 'InsufficientMemory', message: 'Insufficient memory' },
      'GET /x',
    );
    expect(explain(said).reason).toBe('HTTP500');
    const own = podsNotReady(
      { id: 'a', component: 'kube-apiserver' },
      1_000,
      'no node',
      [],
      'InsufficientMemory',
    );
    expect(explain(own).reason).toBe('InsufficientMemory');
  });

  it('cuts what would not fit into a condition', () => {
    expect(explain(new Error('x'.repeat(100_000))).message.length).toBeLessThan(5_000);
  });
});
