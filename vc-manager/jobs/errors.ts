import { CodedError } from '../../kube/index.ts';

export type JobErrorCode = 'TenantBusy' | 'InvalidRedis' | 'RedisLost';

export class JobError extends CodedError<JobErrorCode> {
  override readonly name = 'JobError';
}

export function tenantBusy(key: string): JobError {
  return new JobError('TenantBusy', `another manager is still at work on ${key}; it is tried again`, true);
}

export function invalidRedis(url: string, why: string): JobError {
  return new JobError(
    'InvalidRedis',
    `"${url}" is not the URL of a Redis server: ${why}. It looks like redis://HOST:6379/0, or rediss:// with TLS; ` +
      'a user name and a password go before the host, as in redis://user:password@HOST.',
    false,
  );
}

export function redisLost(cause: unknown): JobError {
  const why = cause instanceof Error ? cause.message : String(cause);
  return new JobError('RedisLost', `Redis cannot be used: ${why}`, true, { cause });
}
