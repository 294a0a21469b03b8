import { createReadStream, createWriteStream } from 'node:fs';
import { lstat, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { dirname, join, relative, sep } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { syncToDisk } from '../os/files.ts';
import { SnapshotError, snapshotNotFound, storeFailed } from './errors.ts';

/** Where snapshots are kept, by name: `NAMESPACE/VIRTUALCLUSTER/FILE`. Throws SnapshotError. */
export interface SnapshotStore {
  /** For people: a directory or URL. */
  readonly location: string;
  /** All or nothing. Returns the size in bytes. */
  write(name: string, content: Readable, options: { signal: AbortSignal }): Promise<number>;
  read(name: string, options: { signal: AbortSignal }): Promise<Readable>;
  /** Nothing to remove is no error. */
  remove(name: string, options: { signal: AbortSignal }): Promise<void>;
  /** Names below `NAMESPACE/VIRTUALCLUSTER/`, sorted. */
  list(namespace: string, name: string, options: { signal: AbortSignal }): Promise<string[]>;
  /** Bytes of everything below `NAMESPACE/`, other files included, by name. */
  sizes(namespace: string, options: { signal: AbortSignal }): Promise<Map<string, number>>;
}

export const snapshotSuffix = '.snapshot';

const segment = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
const file = /^[A-Za-z0-9][-.A-Za-z0-9]{0,100}$/;

/** Whether this can be the name of a snapshot: nothing that leads out of its directory. */
export function isSnapshotName(name: string): boolean {
  const [namespace = '', virtualCluster = '', last = '', ...more] = name.split('/');
  return (
    more.length === 0 &&
    segment.test(namespace) &&
    segment.test(virtualCluster) &&
    file.test(last) &&
    last.endsWith(snapshotSuffix)
  );
}

const partialSuffix = '.partial';
/** No snapshot takes so long to write. */
const leftoverMs = 24 * 60 * 60_000;

/** What a manager that was killed has begun. Files of others stay, whatever they are called. */
async function removeLeftovers(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    if (!name.endsWith(`${snapshotSuffix}${partialSuffix}`)) continue;
    const path = join(folder, name);
    const { mtimeMs } = await stat(path).catch(() => ({ mtimeMs: Date.now() }));
    if (Date.now() - mtimeMs > leftoverMs) await rm(path, { force: true });
  }
}

function goneIsEmpty(error: unknown): { size: number } {
  if ((error as { code?: string }).code === 'ENOENT') return { size: 0 };
  throw error;
}

/**
 * A directory. A snapshot is written under another name first, and is on the disk when it gets its own; the name is when
 * `write` returns.
 */
export class DirectoryStore implements SnapshotStore {
  readonly location: string;

  readonly #sync: (directory: string) => Promise<void>;

  constructor(root: string, sync = syncToDisk) {
    this.location = root;
    this.#sync = sync;
  }

  async write(name: string, content: Readable, { signal }: { signal: AbortSignal }): Promise<number> {
    const path = this.#path(name);
    const partial = `${path}${partialSuffix}`;
    // It may break before it is read here: an error without a listener would end the program.
    let broken: Error | undefined;
    content.once('error', (error) => {
      broken = error;
    });
    try {
      const folder = dirname(path);
      const made = await mkdir(folder, { recursive: true, mode: 0o700 });
      await removeLeftovers(folder);
      await pipeline(content, createWriteStream(partial, { mode: 0o600 }), { signal });
      const written = await open(partial, 'r+');
      try {
        await written.sync();
      } finally {
        await written.close();
      }
      await rename(partial, path);
      // Those that were made, too, in those above them.
      const last = made === undefined ? folder : dirname(made);
      for (let each = folder; ; each = dirname(each)) {
        await this.#sync(each);
        if (each === last || each === dirname(each)) break;
      }
      return (await stat(path)).size;
    } catch (error) {
      content.destroy();
      // The error that counts is the first.
      await rm(partial, { force: true }).catch(() => {});
      throw this.#explained(broken ?? error, name, signal);
    }
  }

  async read(name: string, { signal }: { signal: AbortSignal }): Promise<Readable> {
    try {
      // Opened first: a file that is not there is an error of this call.
      const handle = await open(this.#path(name), 'r');
      return createReadStream('', { fd: handle, signal });
    } catch (error) {
      throw this.#explained(error, name, signal);
    }
  }

  async remove(name: string, { signal }: { signal: AbortSignal }): Promise<void> {
    try {
      await rm(this.#path(name), { force: true });
    } catch (error) {
      throw this.#explained(error, name, signal);
    }
  }

  async list(
    namespace: string,
    virtualCluster: string,
    { signal }: { signal: AbortSignal },
  ): Promise<string[]> {
    try {
      const files = await readdir(join(this.location, namespace, virtualCluster));
      return files
        .map((each) => `${namespace}/${virtualCluster}/${each}`)
        .filter(isSnapshotName)
        .sort();
    } catch (error) {
      if ((error as { code?: string }).code === 'ENOENT') return [];
      throw this.#explained(error, `${namespace}/${virtualCluster}`, signal);
    }
  }

  async sizes(namespace: string, { signal }: { signal: AbortSignal }): Promise<Map<string, number>> {
    const sizes = new Map<string, number>();
    try {
      if (!segment.test(namespace)) throw snapshotNotFound(namespace, this.location);
      const found = await readdir(join(this.location, namespace), { recursive: true, withFileTypes: true });
      for (const entry of found) {
        signal.throwIfAborted();
        if (!entry.isFile()) continue;
        const path = join(entry.parentPath, entry.name);
        const { size } = await lstat(path).catch(goneIsEmpty);
        sizes.set(relative(this.location, path).split(sep).join('/'), size);
      }
    } catch (error) {
      if ((error as { code?: string }).code !== 'ENOENT') throw this.#explained(error, namespace, signal);
    }
    return sizes;
  }

  #path(name: string): string {
    if (!isSnapshotName(name)) throw snapshotNotFound(name, this.location);
    return join(this.location, name);
  }

  #explained(error: unknown, name: string, signal: AbortSignal): unknown {
    if (signal.aborted) return signal.reason;
    if (error instanceof SnapshotError) return error;
    const { code, syscall } = error as { code?: string; syscall?: string };
    if (code === 'ENOENT') return snapshotNotFound(name, this.location);
    // Errors of what is written come from elsewhere, and are their own explanation.
    return syscall === undefined ? error : storeFailed(this.location, error);
  }
}
