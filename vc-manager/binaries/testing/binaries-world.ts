import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Binaries, type BinariesOptions } from '../binaries.ts';
import type { BinaryProgress } from '../binary.ts';

/** A directory of its own for one test, with a cache and a `bin` that is the whole of PATH besides `/usr/bin` and `/bin`. */
export class BinariesWorld {
  readonly directory: string;
  readonly cache: string;
  readonly bin: string;
  readonly progress: BinaryProgress[] = [];

  private constructor(directory: string) {
    this.directory = directory;
    this.cache = join(directory, 'cache');
    this.bin = join(directory, 'bin');
  }

  static async create(): Promise<BinariesWorld> {
    const workplace = new BinariesWorld(await mkdtemp(join(tmpdir(), 'skerry-binaries-')));
    await mkdir(workplace.bin);
    return workplace;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.directory, { recursive: true, force: true });
  }

  async script(path: string, text: string): Promise<string> {
    const file = join(this.directory, path);
    await mkdir(join(file, '..'), { recursive: true });
    await writeFile(file, text);
    await chmod(file, 0o755);
    return file;
  }

  env(more: Record<string, string> = {}): Record<string, string> {
    return { PATH: `${this.bin}:/usr/bin:/bin`, HOME: this.directory, ...more };
  }

  binaries(options: Partial<BinariesOptions> = {}): Binaries {
    return new Binaries({
      cacheDir: this.cache,
      env: this.env(),
      platform: { os: 'linux', arch: 'amd64' },
      onProgress: (progress) => this.progress.push(progress),
      ...options,
    });
  }

  /** Path of a cached program. */
  cached(name: string, version: string): string {
    return join(this.cache, 'binaries', name, version, 'linux-amd64', name);
  }

  messages(stage: string): string[] {
    return this.progress.filter((progress) => progress.stage === stage).map(({ message }) => message);
  }
}

/** A program that says what version it has. */
export function program(saying: string, padding = ''): string {
  return `#!/bin/sh\necho '${saying}'\n#${padding}\n`;
}
