import { homedir } from 'node:os';
import { join } from 'node:path';

/** Where Skerry keeps what can be fetched again: SKERRY_CACHE, else `skerry` in the user's cache directory. */
export function defaultCacheDirectory(env: Readonly<Record<string, string | undefined>>): string {
  if (env['SKERRY_CACHE']) return env['SKERRY_CACHE'];
  return join(env['XDG_CACHE_HOME'] || join(env['HOME'] || homedir(), '.cache'), 'skerry');
}
