import type { BinaryLocation, BinaryRequest } from './binary.ts';
import type { BinaryCache } from './binary-cache.ts';
import type { BinaryAttempt } from './errors.ts';
import type { UserDirectories } from './user-directories.ts';

export interface LocalResult {
  found: (BinaryLocation & { sizeBytes: number }) | undefined;
  /** The places that were searched in vain; empty when something was found. */
  attempts: BinaryAttempt[];
  /** Files that were seen and passed over, and why. */
  notes: string[];
}

/** Looks for a binary on this machine: the user's directories first, then the cache. */
export async function searchLocally(
  wanted: BinaryRequest,
  directories: UserDirectories,
  cache: BinaryCache,
): Promise<LocalResult> {
  const { found, rejected, searched } = await directories.find(wanted);
  const notes = rejected.map(({ path, reason }) => `${path} ${reason}; not used`);
  if (found !== undefined)
    return { found: { name: wanted.name, ...found, source: 'directory' }, attempts: [], notes };

  // Nobody asked for the directories of PATH, nor wants to read all of them.
  const named = searched.filter(({ origin }) => origin !== 'PATH');
  const attempts: BinaryAttempt[] = named.map(({ path, origin }) => {
    const reason = rejected.find(({ directory }) => directory.path === path)?.reason;
    return {
      what: `directory ${path} (${origin})`,
      reason: reason === undefined ? 'not there' : `what is there ${reason}`,
    };
  });
  if (attempts.length === 0) attempts.push({ what: 'directory', reason: 'SKERRY_BINARIES is not set' });

  const { path } = cache.entry(wanted);
  const cached = await cache.check(wanted);
  if (cached.state === 'sound') {
    return { found: { ...wanted, path, source: 'cache', sizeBytes: cached.sizeBytes }, attempts: [], notes };
  }
  if (cached.state === 'corrupt') notes.push(`${path} ${cached.reason}; not used, it will be replaced`);
  attempts.push({
    what: `cache ${cache.directory}`,
    reason: cached.state === 'missing' ? 'not there' : `what is there ${cached.reason}`,
  });
  return { found: undefined, attempts, notes };
}
