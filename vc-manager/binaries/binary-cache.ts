import { randomBytes } from 'node:crypto';
import {
  access,
  chmod,
  constants,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  writeFile,
} from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { makeDirectory, syncToDisk } from '../os/files.ts';
import { identify } from '../os/process-identity.ts';
import type { BinaryRequest, Platform } from './binary.ts';
import { BinaryError } from './errors.ts';
import { sha256OfFile } from './release.ts';

/** Where Skerry keeps what can be fetched again: SKERRY_CACHE, else `skerry` in the user's cache directory. */
export function defaultCacheDirectory(env: Readonly<Record<string, string | undefined>>): string {
  if (env['SKERRY_CACHE']) return env['SKERRY_CACHE'];
  return join(env['XDG_CACHE_HOME'] || join(env['HOME'] || homedir(), '.cache'), 'skerry');
}

interface CacheEntry {
  directory: string;
  path: string;
  /** SHA-256 and size at the time of installation, in the format of `sha256sum`. */
  record: string;
  lock: string;
}

type CacheState =
  | { state: 'missing' }
  | { state: 'corrupt'; reason: string }
  | { state: 'sound'; sizeBytes: number };

/**
 * Programs by name, version and platform under `<directory>/binaries`. What is found there is run only if it is,
 * byte for byte, what was installed.
 *
 * A file is hashed on its first use by each object and again when size, times or inode changed. Size and times
 * alone would miss pages that never reached the disk before a power cut; hashing 105 MB takes well under 0.1 s
 * and reads what is about to be executed anyway.
 */
export class BinaryCache {
  readonly directory: string;
  readonly #platform: Platform;
  /** Path → stamp of the file whose hash was last found to be right. */
  readonly #verified = new Map<string, string>();

  constructor(directory: string, platform: Platform) {
    this.directory = join(directory, 'binaries');
    this.#platform = platform;
  }

  entry({ name, version }: BinaryRequest): CacheEntry {
    const directory = join(this.directory, name, version, `${this.#platform.os}-${this.#platform.arch}`);
    const path = join(directory, name);
    return { directory, path, record: `${path}.sha256`, lock: `${path}.lock` };
  }

  async check(request: BinaryRequest): Promise<CacheState> {
    const { path, record } = this.entry(request);
    const found = await stat(path, { bigint: true }).catch(() => undefined);
    if (found === undefined) return { state: 'missing' };
    if (!found.isFile()) return { state: 'corrupt', reason: 'is not a file' };
    if ((Number(found.mode) & constants.S_IXUSR) === 0)
      return { state: 'corrupt', reason: 'is not executable' };
    const text = await readFile(record, 'utf8').catch(() => '');
    const [, size, hash] = /^# (\d+) bytes\n([0-9a-f]{64}) /.exec(text) ?? [];
    if (hash === undefined) return { state: 'corrupt', reason: 'has no record of its SHA-256' };
    if (size !== String(found.size))
      return { state: 'corrupt', reason: `has ${found.size} bytes instead of ${size}` };
    const stamp = [hash, found.size, found.mtimeNs, found.ctimeNs, found.ino].join(' ');
    if (this.#verified.get(path) !== stamp) {
      const actual = await sha256OfFile(path).catch((error: Error) => error.message);
      if (actual !== hash)
        return { state: 'corrupt', reason: `has the SHA-256 ${actual} instead of ${hash}` };
      this.#verified.set(path, stamp);
    }
    return { state: 'sound', sizeBytes: Number(found.size) };
  }

  /** @throws BinaryError CacheUnusable */
  async prepare(request: BinaryRequest): Promise<CacheEntry> {
    const entry = this.entry(request);
    await this.#guard(async () => {
      await makeDirectory(entry.directory);
      await access(entry.directory, constants.W_OK);
    });
    return entry;
  }

  /**
   * Moves a finished program into the cache; it must lie on the same file system. The record goes first: a crash
   * in between leaves an entry that is judged missing or corrupt, never one that is trusted wrongly. Processes
   * that run the old file keep it.
   */
  async install(request: BinaryRequest, file: string): Promise<void> {
    const entry = await this.prepare(request);
    await this.#guard(async () => {
      await chmod(file, 0o755);
      await syncToDisk(file);
      const { size } = await stat(file);
      const text = `# ${size} bytes\n${await sha256OfFile(file)}  ${request.name}\n`;
      const unfinished = `${entry.record}.${randomBytes(6).toString('hex')}`;
      await writeFile(unfinished, text);
      await syncToDisk(unfinished);
      await rename(unfinished, entry.record);
      await rename(file, entry.path);
      await syncToDisk(entry.directory);
    });
  }

  /** Runs `work` with a directory of its own on the cache's file system, gone afterwards. */
  async withTemporaryDirectory<T>(label: string, work: (directory: string) => Promise<T>): Promise<T> {
    const root = join(this.directory, '.tmp');
    const directory = await this.#guard(async () => {
      await makeDirectory(root);
      await this.#sweep(root);
      return mkdtemp(join(root, `${label}_${process.pid}_${await processStartLabel(process.pid)}_`));
    });
    try {
      return await work(directory);
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  }

  /** Removes what processes that were killed have left. */
  async #sweep(root: string): Promise<void> {
    for (const name of await readdir(root)) {
      const [, pid, start] = name.split('_');
      if ((await processStartLabel(Number(pid))) !== start)
        await rm(join(root, name), { recursive: true, force: true });
    }
  }

  async #guard<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw new BinaryError(
        'CacheUnusable',
        `the cache cannot be written: ${(error as Error).message}; free some space, or set SKERRY_CACHE to a directory that you may write to`,
        { cause: error },
      );
    }
  }
}

/** When the process was started, in letters that build tools take in the name of a directory. */
async function processStartLabel(pid: number): Promise<string | undefined> {
  return (await identify(pid))?.startTime.replaceAll(/[^a-zA-Z0-9]+/g, '-');
}
