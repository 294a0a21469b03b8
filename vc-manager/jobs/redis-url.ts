import type { BullmqRunner, BullmqRunnerOptions } from './bullmq-runner.ts';
import { invalidRedis } from './job-runner.ts';

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

/** Only who shares jobs pays for the client of Redis. */
export async function loadBullmq(options: BullmqRunnerOptions): Promise<BullmqRunner> {
  const { BullmqRunner } = await import('./bullmq-runner.ts');
  return new BullmqRunner(options);
}
