import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { damaged } from './errors.ts';
import { openStore } from './open-store.ts';
import { S3Store } from './s3-store.ts';
import type { SnapshotStore } from './store.ts';
import { FakeS3Server } from './testing/s3-server.ts';

const name = 'default/team-blue/2026-03-01T06-00-00Z-1a2b.snapshot';
const { signal } = new AbortController();
const httpStatus = (status: number) =>
  expect.objectContaining({ $metadata: expect.objectContaining({ httpStatusCode: status }) });

describe('a bucket of snapshots', () => {
  let server: FakeS3Server;
  let store: SnapshotStore;
  beforeEach(async () => {
    server = await FakeS3Server.start();
    for (const [key, value] of Object.entries({ ...server.env, AWS_MAX_ATTEMPTS: '2' }))
      vi.stubEnv(key, value);
    store = await openStore('s3://backups/skerry/', server.env);
  });
  afterEach(async () => {
    vi.unstubAllEnvs();
    await server.stop();
  });

  it('keeps, lists, reads and removes them by signed requests', async () => {
    expect(store.location).toBe('s3://backups/skerry');
    expect(await store.write(name, Readable.from([Buffer.from('abc')]), { signal })).toBe(3);
    expect([...server.objects.keys()]).toEqual([`backups/skerry/${name}`]);
    expect((await buffer(await store.read(name, { signal }))).toString()).toBe('abc');
    server.pageSize = 1;
    await store.write('default/team-blue/b.snapshot', Readable.from([Buffer.from('b')]), { signal });
    await store.write('default/team-grey/c.snapshot', Readable.from([Buffer.from('c')]), { signal });
    expect(await store.list('default', 'team-blue', { signal })).toEqual([
      name,
      'default/team-blue/b.snapshot',
    ]);
    expect(await store.sizes('default', { signal })).toEqual(
      new Map([
        [name, 3],
        ['default/team-blue/b.snapshot', 1],
        ['default/team-grey/c.snapshot', 1],
      ]),
    );
    await store.remove(name, { signal });
    await store.remove(name, { signal });
    await expect(store.read(name, { signal })).rejects.toMatchObject({ code: 'SnapshotNotFound' });
  });

  it('takes large ones in parts, as they come', async () => {
    const pieces = Array.from({ length: 12 }, () => randomBytes(1024 * 1024));
    expect(await store.write(name, Readable.from(pieces), { signal })).toBe(12 * 1024 * 1024);
    expect(server.uploads.size).toBe(0);
    const read = await buffer(await store.read(name, { signal }));
    expect(read.equals(Buffer.concat(pieces))).toBe(true);
  });

  it('has nothing of one whose content failed or was interrupted, nor parts of it', async () => {
    async function* failing() {
      for (let i = 0; i < 12; i++) yield randomBytes(1024 * 1024);
      throw damaged('x', 'on purpose');
    }
    await expect(store.write(name, Readable.from(failing()), { signal })).rejects.toMatchObject({
      code: 'SnapshotDamaged',
    });
    const interrupted = new AbortController();
    async function* endless() {
      for (let i = 0; ; i++) {
        if (i === 12) interrupted.abort(new Error('enough'));
        yield randomBytes(1024 * 1024);
      }
    }
    await expect(store.write(name, Readable.from(endless()), interrupted)).rejects.toThrow('enough');
    expect([server.objects.size, server.uploads.size]).toEqual([0, 0]);
    expect(server.requests.filter((method) => method === 'DELETE')).toHaveLength(2);
    server.requests.length = 0;
    await expect(store.write(name, Readable.from(['late']), interrupted)).rejects.toThrow('enough');
    expect(server.requests).toEqual([]);
  });

  it('says what has failed first when a part fails, and the others cannot be taken back', async () => {
    const pieces = Array.from({ length: 20 }, () => randomBytes(1024 * 1024));
    const write = () => store.write(name, Readable.from(pieces), { signal });
    server.fail = ({ url }) => (url?.includes('partNumber=2') === true ? 507 : undefined);
    await expect(write()).rejects.toMatchObject({ code: 'SnapshotStoreFailed', cause: httpStatus(507) });
    expect([server.objects.size, server.uploads.size]).toEqual([0, 0]);
    server.fail = ({ method, url }) =>
      url?.includes('partNumber=2') === true ? 507 : method === 'DELETE' ? 403 : undefined;
    await expect(write()).rejects.toMatchObject({ code: 'SnapshotStoreFailed', cause: httpStatus(507) });
  });

  it('gives a server up that takes requests and never answers', async () => {
    const silent = createServer();
    silent.listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const endpoint = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
    store = new S3Store({ bucket: 'backups', prefix: '', endpoint, idleMs: 50 });
    const failed = {
      code: 'SnapshotStoreFailed',
      retryable: true,
      message: expect.stringContaining('50 ms'),
    };
    await expect(store.write(name, Readable.from(['a']), { signal })).rejects.toMatchObject(failed);
    await expect(store.read(name, { signal })).rejects.toMatchObject(failed);
    silent.close();
  });

  it('calls one that stops coming no damaged one', async () => {
    await store.write(name, Readable.from([randomBytes(64 * 1024)]), { signal });
    server.breakAfterBytes = 1_000;
    await expect(buffer(await store.read(name, { signal }))).rejects.toMatchObject({
      ...{ code: 'SnapshotStoreFailed', retryable: true },
    });
  });

  it('says which store failed: wrong credentials, an error, no server', async () => {
    const write = () => store.write(name, Readable.from([Buffer.from('abc')]), { signal });
    const failed = { code: 'SnapshotStoreFailed', message: expect.stringContaining('s3://backups/skerry') };
    server.fail = () => 500;
    await expect(write()).rejects.toMatchObject(failed);
    server.fail = () => undefined;
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'another');
    store = await openStore('s3://backups/skerry/', server.env);
    await expect(write()).rejects.toMatchObject({ ...failed, message: expect.stringContaining('Signature') });
    await server.stop();
    await expect(write()).rejects.toMatchObject(failed);
    server = await FakeS3Server.start();
  });
});
