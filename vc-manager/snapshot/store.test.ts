import { mkdtemp, readdir, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { damaged } from './errors.ts';
import { openStore } from './open-store.ts';
import { DirectoryStore, isSnapshotName } from './store.ts';

const name = 'default/team-blue/2026-03-01T06-00-00Z-1a2b.snapshot';
const { signal } = new AbortController();

describe('names of snapshots', () => {
  it('lead nowhere but into their directory', () => {
    expect(isSnapshotName(name)).toBe(true);
    for (const bad of [
      ...['x.snapshot', 'default/x.snapshot', `${name}/x.snapshot`, `/${name}`, `../${name}`],
      ...['default/../x.snapshot', 'default/team-blue/..snapshot', 'default/team-blue/.snapshot'],
      ...[
        'default/team-blue/a\0.snapshot',
        'default/team-blue/a/../../b.snapshot',
        'default/team-blue/a.txt',
      ],
      ...['default/team-blue/a b.snapshot', 'Default/team-blue/a.snapshot', ''],
    ])
      expect(isSnapshotName(bad), bad).toBe(false);
  });
});

describe('a directory of snapshots', () => {
  let root: string;
  let store: DirectoryStore;
  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), 'skerry-snapshots-'));
    store = new DirectoryStore(join(root, 'below'));
  });
  afterEach(() => rm(root, { recursive: true }));

  it('says why content breaks before it is read, and keeps nothing of it', async () => {
    const content = new Readable({ read() {} });
    const written = store.write(name, content, { signal });
    // One that nobody listens to would end the program.
    expect(content.listenerCount('error')).toBeGreaterThan(0);
    content.destroy(new Error('it is cut off'));
    await expect(written).rejects.toThrow('it is cut off');
    expect(await store.list('default', 'team-blue', { signal })).toEqual([]);
  });

  it('keeps, lists, reads and removes them, for its owner alone', async () => {
    expect(await store.list('default', 'team-blue', { signal })).toEqual([]);
    expect(await store.write(name, Readable.from(['a', 'bc']), { signal })).toBe(3);
    expect((await stat(join(root, 'below', name))).mode & 0o777).toBe(0o600);
    expect(await text(await store.read(name, { signal }))).toBe('abc');
    await writeFile(join(root, 'below/default/team-blue/notes.txt'), '');
    expect(await store.list('default', 'team-blue', { signal })).toEqual([name]);
    await store.remove(name, { signal });
    await store.remove(name, { signal });
    await expect(store.read(name, { signal })).rejects.toMatchObject({ code: 'SnapshotNotFound' });
  });

  it('says what everything of a namespace takes, also what is no snapshot, or not whole yet', async () => {
    expect(await store.sizes('default', { signal })).toEqual(new Map());
    await store.write(name, Readable.from(['abc']), { signal });
    await store.write('other/x/a.snapshot', Readable.from(['abcd']), { signal });
    await writeFile(join(root, 'below/default/team-blue/b.snapshot.partial'), '12');
    await writeFile(join(root, 'below/default/notes.txt'), '1');
    expect(await store.sizes('default', { signal })).toEqual(
      new Map([
        ['default/notes.txt', 1],
        ['default/team-blue/b.snapshot.partial', 2],
        [name, 3],
      ]),
    );
    await expect(store.sizes('..', { signal })).rejects.toMatchObject({ code: 'SnapshotNotFound' });
  });

  it('has the name on the disk when it is written, and those of the folders that it makes', async () => {
    const synced: [string, boolean][] = [];
    const recording = new DirectoryStore(join(root, 'below'), async (directory) => {
      const there = (await readdir(directory, { recursive: true })).some((each) =>
        each.endsWith('1a2b.snapshot'),
      );
      synced.push([relative(root, directory), there]);
    });
    await recording.write(name, Readable.from(['a']), { signal });
    expect(synced).toEqual([
      ['below/default/team-blue', true],
      ['below/default', true],
      ['below', true],
      ['', true],
    ]);
    await recording.write(name, Readable.from(['b']), { signal });
    expect(synced.slice(4)).toEqual([['below/default/team-blue', true]]);
  });

  it('has nothing of one whose content failed or was interrupted, and still has the one from before', async () => {
    await store.write(name, Readable.from(['before']), { signal });
    async function* failing() {
      yield 'half';
      throw damaged('x', 'on purpose');
    }
    await expect(store.write(name, Readable.from(failing()), { signal })).rejects.toMatchObject({
      code: 'SnapshotDamaged',
    });
    const interrupted = new AbortController();
    const endless = new Readable({ read: () => interrupted.abort(new Error('enough')) });
    await expect(store.write(name, endless, { signal: interrupted.signal })).rejects.toThrow('enough');
    expect(await text(await store.read(name, { signal }))).toBe('before');
    expect(await readdir(join(root, 'below/default/team-blue'))).toEqual([name.split('/')[2]]);
  });

  it('removes what was begun a day ago and never ended, and leaves what is being written and files of others', async () => {
    await store.write(name, Readable.from(['a']), { signal });
    const folder = join(root, 'below/default/team-blue');
    for (const each of ['old', 'new']) await writeFile(join(folder, `${each}.snapshot.partial`), '');
    const before = new Date(Date.now() - 25 * 60 * 60_000);
    await writeFile(join(folder, 'download.partial'), '');
    for (const each of ['old.snapshot.partial', 'download.partial'])
      await utimes(join(folder, each), before, before);
    await store.write(name, Readable.from(['b']), { signal });
    expect((await readdir(folder)).sort()).toEqual([
      name.split('/')[2],
      'download.partial',
      'new.snapshot.partial',
    ]);
  });

  it('says what is wrong with the place', async () => {
    await writeFile(join(root, 'below'), 'a file');
    await expect(store.write(name, Readable.from(['a']), { signal })).rejects.toMatchObject({
      code: 'SnapshotStoreFailed',
      retryable: true,
    });
    for (const bad of [
      ...[
        'http://x/y',
        's3://',
        's3://user@bucket',
        's3://:secret@bucket',
        's3://bucket?x=1',
        's3://bucket#x',
      ],
      // An address where the bucket belongs would be taken for a bucket.
      ...['s3://minio:9000/bucket', 's3://bucket/100%'],
    ])
      await expect(openStore(bad, {}), bad).rejects.toMatchObject({ code: 'InvalidSnapshotStore' });
  });
});
