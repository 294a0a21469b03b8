import { JobError } from './job-runner.ts';

/** Throws `InvalidRedis`. */
export function checkRedisUrl(url: string): string {
  const shown = url.replace(/(:\/\/[^:@/]*:).*@/, '$1***@');
  let parsed: URL;
  try {
    parsed = new URL(url);
  } catch (error) {
    throw invalidRedis(shown, error instanceof Error ? error.message : String(error));
  }
  if (parsed.protocol !== 'redis:' && parsed.protocol !== 'rediss:')
    throw invalidRedis(shown, `it begins with ${parsed.protocol}//`);
  if (parsed.hostname === '') throw invalidRedis(shown, 'it names no host');
  if (!/^(\/\d*)?$/.test(parsed.pathname))
    throw invalidRedis(shown, 'what follows the host is no database number');
  return url;
}

function invalidRedis(url: string, why: string): JobError {
  return new JobError(
    'InvalidRedis',
    `"${url}" is not the URL of a Redis server: ${why}. It looks like redis://HOST:6379/0, or rediss:// with TLS; ` +
      'a user name and a password go before the host, as in redis://user:password@HOST.',
    false,
  );
}
