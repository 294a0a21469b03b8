import { constants } from 'node:fs';
import { access, realpath, stat } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { execa } from 'execa';
import {
  type BinaryLocation,
  type BinaryName,
  type BinaryRequest,
  isCompatibleVersion,
  parseVersion,
} from './binary.ts';
import type { BinaryCache } from './binary-cache.ts';
import type { BinaryAttempt } from './errors.ts';

interface UserDirectory {
  path: string;
  /** Where it was named: `SKERRY_BINARIES`, `PATH`. */
  origin: string;
}

interface UserBinary {
  path: string;
  version: string;
  sizeBytes: number;
}

/** A file by the right name that is not used, and why. */
interface RejectedBinary {
  path: string;
  directory: UserDirectory;
  reason: string;
}

type Env = Readonly<Record<string, string | undefined>>;

/**
 * Looks for binaries where the user said that there are some. Unlike those of the cache nothing vouches for
 * their content or version, so each is asked for its version and passed over when it is another than wanted:
 * one directory may serve one Kubernetes version while tenants of other versions exist beside it.
 */
export class UserDirectories {
  readonly #directories: readonly UserDirectory[];
  readonly #env: Env;
  /** File and its stamp → what it answered; programs are asked once. */
  readonly #versions = new Map<string, Promise<string>>();

  constructor(explicit: readonly string[], env: Env) {
    const named = (origin: string) => split(env[origin]).map((path) => ({ path, origin }));
    this.#directories = [
      ...explicit.map((path) => ({ path, origin: 'option' })),
      ...named('SKERRY_BINARIES'),
      ...named('KUBEBUILDER_ASSETS'),
    ];
    this.#env = env;
  }

  async find({ name, version }: BinaryRequest): Promise<{
    found: UserBinary | undefined;
    rejected: RejectedBinary[];
    searched: readonly UserDirectory[];
  }> {
    const rejected: RejectedBinary[] = [];
    const seen = new Set<string>();
    const searched = this.#directoriesFor(name);
    for (const directory of searched) {
      const path = join(directory.path, name);
      const file = await stat(path).catch(() => undefined);
      if (file === undefined) continue;
      // `/bin` is often another name for `/usr/bin`.
      const real = await realpath(path).catch(() => path);
      if (seen.has(real)) continue;
      seen.add(real);
      try {
        if (!file.isFile()) throw new Error('is not a file');
        await access(path, constants.X_OK).catch(() => {
          throw new Error('is not executable');
        });
        const actual = await this.#versionOf(name, path, `${file.size} ${file.mtimeMs} ${file.ino}`);
        if (isCompatibleVersion(name, actual, version)) {
          return { found: { path, version: actual, sizeBytes: file.size }, rejected, searched };
        }
        throw new Error(`is version ${actual}, not ${version}`);
      } catch (error) {
        rejected.push({ path, directory, reason: (error as Error).message });
      }
    }
    return { found: undefined, rejected, searched };
  }

  /** A kubectl that people use on this machine serves as well; the other programs are not theirs to update under us. */
  #directoriesFor(name: BinaryName): readonly UserDirectory[] {
    if (name !== 'kubectl') return this.#directories;
    return [...this.#directories, ...split(this.#env['PATH']).map((path) => ({ path, origin: 'PATH' }))];
  }

  #versionOf(name: BinaryName, path: string, stamp: string): Promise<string> {
    const key = `${path} ${stamp}`;
    const known = this.#versions.get(key) ?? reportedVersion(name, path, this.#env);
    this.#versions.set(key, known);
    return known;
  }
}

/**
 * The version that a program says it has.
 * @throws Error whose message continues a sentence that began with the program's path
 */
export async function reportedVersion(name: BinaryName, path: string, env: Env): Promise<string> {
  const result = await execa(path, name === 'kubectl' ? ['version', '--client'] : ['--version'], {
    // A broken kubeconfig of the user must not get in the way of asking kubectl for its own version.
    env: { ...env, KUBECONFIG: '/dev/null' },
    extendEnv: false,
    reject: false,
    timeout: 10_000,
    forceKillAfterDelay: 1_000,
    stdin: 'ignore',
  });
  const version = result.failed ? undefined : parseVersion(result.stdout);
  if (version !== undefined) return version.text;
  throw new Error(`does not tell its version (${result.failed ? result.shortMessage : 'it printed none'})`);
}

function split(list: string | undefined): string[] {
  return (list ?? '').split(delimiter).filter((path) => path !== '');
}

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

  // The directories of PATH were not named by the user: a list of all of them would not help.
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
