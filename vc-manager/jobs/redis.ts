import { Redis } from 'ioredis';

/**
 * A connection that is made again for as long as it takes. `onProblem` is told of each failure; a command that waits
 * for the server waits until it is back.
 */
export function redisConnection(url: string, onProblem: (error: Error) => void): Redis {
  const redis = new Redis(url, {
    maxRetriesPerRequest: null,
    connectTimeout: 5_000,
    keepAlive: 5_000,
    // The protocol that BullMQ is made for.
    protocol: 2,
    retryStrategy: (times) => Math.min(100 * 2 ** Math.min(times, 5), 2_000),
  });
  redis.on('error', onProblem);
  return redis;
}
