import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { makeDirectory } from './files.ts';

let base: string;

beforeEach(async () => {
  base = await mkdtemp(join(tmpdir(), 'skerry-files-'));
});

afterEach(() => rm(base, { recursive: true, force: true }));

describe('makeDirectory', () => {
  it('makes what is missing, with the mode asked for, and may be repeated', async () => {
    const path = join(base, 'a', 'b', 'c');
    await makeDirectory(path, 0o700);
    await makeDirectory(path, 0o755);
    expect((await stat(path)).mode & 0o777).toBe(0o700);
    expect((await stat(join(base, 'a'))).mode & 0o777).toBe(0o700);
  });

  it('can be asked for one directory several times at once', async () => {
    const path = join(base, 'a', 'b', 'c');
    await Promise.all(Array.from({ length: 8 }, () => makeDirectory(path)));
    expect((await stat(path)).isDirectory()).toBe(true);
  });

  it('fails where a file is in the way', async () => {
    await writeFile(join(base, 'file'), '');
    await expect(makeDirectory(join(base, 'file'))).rejects.toMatchObject({ code: 'EEXIST' });
    await expect(makeDirectory(join(base, 'file', 'a', 'b'))).rejects.toMatchObject({ code: 'ENOTDIR' });
  });

  it.runIf(process.platform === 'linux')('fails where no directory can be made (only on Linux)', async () => {
    await expect(makeDirectory('/proc/skerry/state')).rejects.toMatchObject({ code: 'ENOENT' });
  });
});
