import { mkdir, mkdtemp, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { systemClock } from '../../../kube/index.ts';
import { defaultCacheDirectory, withFileLock } from '../../../vc-manager/binaries/index.ts';

/** What is told while something is made: one line at a time. */
export type Tell = (line: string) => void;

export interface CacheOptions {
  env: Readonly<Record<string, string | undefined>>;
  signal: AbortSignal;
  tell: Tell;
  /** Its folder among those of Skerry: `real-node` unless said otherwise. */
  room?: string;
}

/** Programs, images and image stores that were made once, outside the repository. */
export class Cache {
  readonly directory: string;
  readonly env: CacheOptions['env'];
  readonly signal: AbortSignal;
  readonly tell: Tell;

  constructor({ env, signal, tell, room = 'real-node' }: CacheOptions) {
    this.directory = join(defaultCacheDirectory(env), room);
    this.env = env;
    this.signal = signal;
    this.tell = tell;
  }

  path(...parts: string[]): string {
    return join(this.directory, ...parts);
  }

  /**
   * The file or directory at `path`; where there is none, `make` is called with an empty directory, and what it
   * names is moved there. A half-made one is never seen, and no two processes make the same.
   */
  async ensure(path: string, make: (directory: string, tell: Tell) => Promise<string>): Promise<string> {
    if (await exists(path)) return path;
    await mkdir(dirname(path), { recursive: true });
    const name = basename(path);
    const lock = {
      path: `${path}.lock`,
      clock: systemClock,
      signal: this.signal,
      onWait: (pid: number) => this.tell(`${name}: process ${pid} is making it`),
    };
    return withFileLock(lock, async () => {
      if (await exists(path)) return path;
      const directory = await mkdtemp(`${path}.making-`);
      const since = performance.now();
      try {
        const made = await make(directory, (line) => this.tell(`${name}: ${line}`));
        await rename(made, path);
      } finally {
        await rm(directory, { recursive: true, force: true });
      }
      this.tell(`${name}: made in ${Math.round((performance.now() - since) / 1000)} s`);
      return path;
    });
  }
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
