import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { run } from '../machine/machine.ts';
import { directory, file, type LayerEntry, symlink, text, tree } from './layer.ts';
import { TarWriter } from './tar-writer.ts';

describe('TarWriter', () => {
  let place: string;
  beforeEach(async () => {
    place = await mkdtemp(join(tmpdir(), 'skerry-tar-'));
  });
  afterEach(() => rm(place, { recursive: true }));

  const written = async (entries: readonly LayerEntry[]) => {
    const path = join(place, 'made.tar');
    const writer = await TarWriter.create(path);
    for (const entry of entries) await writer.add(entry);
    return { path, ...(await writer.end()) };
  };
  const listed = (path: string): Promise<string> => run('tar', ['--numeric-owner', '-tvf', path]);

  it('is read by tar as it was meant: kinds, modes, owners, targets', async () => {
    await writeFile(join(place, 'program'), '#!/bin/sh\n');
    const { path } = await written([
      directory('tmp', 0o1777),
      file('bin/program', join(place, 'program')),
      symlink('bin/other', '/bin/program'),
      { path: 'bin/same', type: 'hardlink', mode: 0o755, target: 'bin/program' },
      { ...text('etc/mine', 'a=b\n', 0o4640), uid: 1000, gid: 50_000 },
    ]);
    const lines = (await listed(path)).split('\n').map((line) => line.replace(/ +/g, ' '));
    expect(lines).toEqual([
      'drwxrwxrwt 0/0 0 1970-01-01 00:00 tmp/',
      '-rwxr-xr-x 0/0 10 1970-01-01 00:00 bin/program',
      'lrwxrwxrwx 0/0 0 1970-01-01 00:00 bin/other -> /bin/program',
      'hrwxr-xr-x 0/0 0 1970-01-01 00:00 bin/same link to bin/program',
      '-rwSr----- 1000/50000 4 1970-01-01 00:00 etc/mine',
    ]);
  });

  it('keeps names and targets of any length, and in any script', async () => {
    const names = [99, 100, 101, 255, 900].map((length) => `${'d'.repeat(length - 2)}/f`);
    const { path } = await written([
      ...names.map((name) => text(name, 'x')),
      text('é'.repeat(80), 'x'),
      symlink('link', 't'.repeat(300)),
    ]);
    const found = (await run('tar', ['--quoting-style=literal', '-tf', path])).split('\n');
    expect(found).toEqual([...names, 'é'.repeat(80), 'link']);
    expect(await listed(path)).toContain(`link -> ${'t'.repeat(300)}`);
  });

  it('fills blocks up whatever the size, and tells size and SHA-256 of the whole', async () => {
    const sizes = [0, 1, 511, 512, 513, 3_000_000];
    const { path, sha256, sizeBytes } = await written(
      sizes.map((size) => text(`f${size}`, 'x'.repeat(size))),
    );
    const bytes = await readFile(path);
    expect(bytes.length).toBe(sizeBytes);
    expect(createHash('sha256').update(bytes).digest('hex')).toBe(sha256);
    expect((await listed(path)).match(/0\/0 +(\d+)/g)?.map((size) => Number(size.split(/ +/)[1]))).toEqual(
      sizes,
    );
  });

  it('of a tree holds all but its sockets and devices, hard links once, and is the same every time', async () => {
    const root = join(place, 'root');
    await mkdir(join(root, 'b/c'), { recursive: true });
    await writeFile(join(root, 'b/one'), '1', { mode: 0o600 });
    await run('ln', [join(root, 'b/one'), join(root, 'b/two')]);
    await run('ln', ['-s', 'one', join(root, 'a')]);
    await run('mkfifo', [join(root, 'pipe')]);
    const entries = await tree(root);
    expect(entries.map(({ path, type, target }) => [path, type, target])).toEqual([
      ['a', 'symlink', 'one'],
      ['b', 'directory', undefined],
      ['b/c', 'directory', undefined],
      ['b/one', 'file', undefined],
      ['b/two', 'hardlink', 'b/one'],
    ]);
    expect((await written(entries)).sha256).toBe((await written(await tree(root))).sha256);
  });
});
