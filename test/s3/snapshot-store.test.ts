import { randomBytes } from 'node:crypto';
import { mkdir, readdir, readFile, stat, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { ListMultipartUploadsCommand, S3Client } from '@aws-sdk/client-s3';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, vi } from 'vitest';
import { annotationKeys } from '../../api/labels.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { itInTestAll } from '../../kube/testing/broad.ts';
import { jobRequests, World } from '../../vc-manager/operator/testing/world.ts';
import { readArchive, writeArchive } from '../../vc-manager/snapshot/archive.ts';
import { damaged } from '../../vc-manager/snapshot/errors.ts';
import { openStore } from '../../vc-manager/snapshot/open-store.ts';
import { S3Store } from '../../vc-manager/snapshot/s3-store.ts';
import type { SnapshotStore } from '../../vc-manager/snapshot/store.ts';
import { VersityGateway } from './versity-gateway.ts';

const mebibyte = 1024 * 1024;
const name = 'default/team-blue/2026-03-01T06-00-00Z-1a2b.snapshot';
const { signal } = new AbortController();
vi.setConfig({ testTimeout: 300_000 });

const failed = { code: 'SnapshotStoreFailed', retryable: true };

describe('a bucket of a real S3 server', () => {
  let server: VersityGateway;
  let store: SnapshotStore;
  // The program is built once, which takes minutes.
  beforeAll(async () => {
    server = await VersityGateway.start();
  }, 1_800_000);
  afterAll(() => server?.stop());

  let bucket: string;
  let buckets = 0;
  beforeEach(async () => {
    for (const [key, value] of Object.entries({ ...server.env, AWS_MAX_ATTEMPTS: '2' }))
      vi.stubEnv(key, value);
    bucket = `backups-${++buckets}`;
    await mkdir(join(server.directory, bucket));
    store = await openStore(`s3://${bucket}/skerry`, server.env);
  });
  afterEach(() => vi.unstubAllEnvs());

  const fileOf = (object: string): string => join(server.directory, bucket, 'skerry', object);
  const pieces = (count: number): Buffer[] => Array.from({ length: count }, () => randomBytes(mebibyte));
  const uploads = async (): Promise<unknown[]> => {
    const client = new S3Client({ endpoint: server.endpoint, forcePathStyle: true });
    const { Uploads = [] } = await client.send(new ListMultipartUploadsCommand({ Bucket: bucket }));
    client.destroy();
    return Uploads;
  };

  itInTestAll('keeps small ones and large ones, lists, reads and removes them', async () => {
    const large = 'default/team-blue/large.snapshot';
    const whole = 'default/team-blue/two-parts.snapshot';
    const contents = new Map([
      [name, [Buffer.from('abc')]],
      [whole, pieces(16)],
      [large, pieces(21)],
      ['default/team-blue-2/x.snapshot', [Buffer.from('of another')]],
    ]);
    for (const [each, content] of contents) {
      const bytes = Buffer.concat(content);
      expect(await store.write(each, Readable.from(content), { signal }), each).toBe(bytes.length);
      expect((await readFile(fileOf(each))).equals(bytes), each).toBe(true);
      expect((await buffer(await store.read(each, { signal }))).equals(bytes), each).toBe(true);
    }
    await writeFile(fileOf('default/team-blue/notes.txt'), 'of somebody');
    expect(await store.list('default', 'team-blue', { signal })).toEqual([name, large, whole]);
    await store.remove(large, { signal });
    await store.remove(large, { signal });
    await expect(store.read(large, { signal })).rejects.toMatchObject({ code: 'SnapshotNotFound' });
    expect((await readdir(fileOf('default/team-blue'))).sort()).toEqual(
      [name, whole]
        .map((each) => each.split('/')[2])
        .concat('notes.txt')
        .sort(),
    );
    expect(await uploads()).toEqual([]);
  });

  itInTestAll('takes them without checksums in requests, as servers that know none need it', async () => {
    vi.stubEnv('AWS_REQUEST_CHECKSUM_CALCULATION', 'WHEN_REQUIRED');
    const without = await openStore(`s3://${bucket}/skerry`, server.env);
    for (const content of [pieces(1), pieces(17)]) {
      await without.write(name, Readable.from(content), { signal });
      expect((await readFile(fileOf(name))).equals(Buffer.concat(content))).toBe(true);
    }
  });

  itInTestAll('lists more than fit into one answer', async () => {
    const names = Array.from({ length: 1_234 }, (_, i) => `${String(i).padStart(4, '0')}.snapshot`);
    await mkdir(fileOf('default/team-blue'), { recursive: true });
    for (const each of names) await writeFile(fileOf(`default/team-blue/${each}`), '');
    expect(await store.list('default', 'team-blue', { signal })).toEqual(
      names.map((each) => `default/team-blue/${each}`),
    );
  });

  itInTestAll('may be kept below any prefix', async () => {
    for (const prefix of ['', 'a/b', 'with space', "a+b&c=d;e@f,g:h!i'j(k)*", 'Größe/雪', '%25', '~._-']) {
      const path = prefix.split('/').map(encodeURIComponent).join('/');
      const below = await openStore(`s3://${bucket}/${path}`, server.env);
      await below.write(name, Readable.from([Buffer.from(prefix)]), { signal });
      expect((await stat(join(server.directory, bucket, prefix, name))).isFile(), prefix).toBe(true);
      expect((await buffer(await below.read(name, { signal }))).toString()).toBe(prefix);
      expect(await below.list('default', 'team-blue', { signal }), prefix).toEqual([name]);
      await below.remove(name, { signal });
      expect(await below.list('default', 'team-blue', { signal }), prefix).toEqual([]);
    }
  });

  itInTestAll('has nothing of one whose content failed or was interrupted, nor parts of it', async () => {
    async function* failing() {
      yield* pieces(20);
      throw damaged('x', 'on purpose');
    }
    await expect(store.write(name, Readable.from(failing()), { signal })).rejects.toMatchObject({
      code: 'SnapshotDamaged',
    });
    const interrupted = new AbortController();
    async function* endless() {
      for (let i = 0; ; i++) {
        if (i === 20) interrupted.abort(new Error('enough'));
        yield randomBytes(mebibyte);
      }
    }
    await expect(store.write(name, Readable.from(endless()), interrupted)).rejects.toThrow('enough');
    expect(await store.list('default', 'team-blue', { signal })).toEqual([]);
    expect(await uploads()).toEqual([]);
  });

  const everything = (of: SnapshotStore): (() => Promise<unknown>)[] => [
    () => of.write(name, Readable.from([Buffer.from('abc')]), { signal }),
    () => of.write(name, Readable.from(pieces(9)), { signal }),
    () => of.read(name, { signal }),
    () => of.list('default', 'team-blue', { signal }),
  ];

  itInTestAll('says that the credentials are wrong, the bucket is missing, or nobody answers', async () => {
    const missing = await openStore('s3://missing/skerry', server.env);
    for (const each of everything(missing))
      await expect(each()).rejects.toMatchObject({ ...failed, message: expect.stringMatching(/bucket/i) });
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'another');
    for (const each of everything(await openStore(`s3://${bucket}/skerry`, server.env)))
      await expect(each()).rejects.toMatchObject({ ...failed, message: expect.stringMatching(/signature/i) });
    vi.stubEnv('AWS_ACCESS_KEY_ID', 'AKIANOBODY');
    for (const each of everything(await openStore(`s3://${bucket}/skerry`, server.env)))
      await expect(each()).rejects.toMatchObject({ ...failed, message: expect.stringMatching(/key/i) });
    vi.unstubAllEnvs();
    for (const [key, value] of Object.entries({ ...server.env, AWS_MAX_ATTEMPTS: '1' }))
      vi.stubEnv(key, value);
    const { endpoint } = server;
    server.pause();
    try {
      for (const each of everything(new S3Store({ bucket, prefix: 'skerry', endpoint, idleMs: 200 })))
        await expect(each()).rejects.toMatchObject({ ...failed, message: expect.stringContaining('200 ms') });
    } finally {
      server.resume();
    }
    await server.kill();
    try {
      for (const each of everything(store))
        await expect(each()).rejects.toMatchObject({ ...failed, message: expect.stringMatching(/ECONN/) });
    } finally {
      await server.start();
    }
  });

  itInTestAll(
    'that goes away in the middle leaves no half snapshot, and none is called damaged',
    async () => {
      await store.write(name, Readable.from(pieces(40)), { signal });
      const reading = await store.read(name, { signal });
      async function* dying() {
        yield* pieces(20);
        await server.kill();
        yield* pieces(20);
      }
      const half = 'default/team-blue/half.snapshot';
      await expect(store.write(half, Readable.from(dying()), { signal })).rejects.toMatchObject(failed);
      await expect(buffer(reading)).rejects.toMatchObject(failed);
      await server.start();
      expect(await store.list('default', 'team-blue', { signal })).toEqual([name]);
    },
  );

  itInTestAll('whose objects were cut short or changed gives none that is taken for whole', async () => {
    const header = {
      ...{
        namespace: 'default',
        name: 'team-blue',
        id: 'abcdefghij',
        identity: '6f2d',
        kubernetes: '1.36.3',
      },
      ...{ serviceCIDR: '10.112.0.0/22', revision: 7, takenAt: '2026-03-01T06:00:00.000Z' },
    };
    // Of the one the server keeps a checksum of the whole, of the other one of each part.
    for (const count of [1, 9]) {
      const entries = Array.from({ length: count }, (_, i) => ({
        ...{ key: `configmaps/shop/${i}`, value: randomBytes(mebibyte), isSecret: false },
      }));
      await store.write(name, await writeArchive(header, Readable.from(entries)), { signal });
      const read = async (): Promise<number> => {
        const archive = await readArchive(await store.read(name, { signal }), { name });
        let found = 0;
        for await (const _ of archive.entries) found++;
        return found;
      };
      expect(await read()).toBe(count);
      const { size } = await stat(fileOf(name));
      const bytes = await readFile(fileOf(name));
      bytes.writeUInt8(bytes.readUInt8(size >> 1) ^ 1, size >> 1);
      await writeFile(fileOf(name), bytes);
      await expect(read()).rejects.toMatchObject({ code: 'SnapshotDamaged' });
      for (const length of [size - 1, size >> 1, 0]) {
        await truncate(fileOf(name), length);
        await expect(read(), `${length} of ${size} bytes`).rejects.toMatchObject({
          code: expect.stringMatching(/^(SnapshotDamaged|NotASnapshot)$/),
        });
      }
    }
  });

  itInTestAll(
    'has as many snapshots of a tenant as are to be kept, and tenants are put back to them',
    async () => {
      const world = await World.start();
      try {
        world.run({ snapshots: { store, recipients: [], identities: [] } });
        world.create('a', { snapshots: { keep: 2 } });
        await world.untilReady('a');
        const id = world.get('a')?.status?.id ?? '';
        const has = (value: Buffer): void =>
          void world.datastore.entries.set(id, [{ key: 'configmaps/shop/settings', value }]);
        const { annotate } = jobRequests(() => world);
        const taken: string[] = [];
        for (const request of ['1', '2', '3']) {
          has(Buffer.from(request));
          annotate('a', annotationKeys.snapshot, request);
          const { status } = await world.until('a', (vc) => vc.status?.snapshots?.taken === request);
          taken.push(status?.snapshots?.kept?.[0]?.name ?? '');
        }
        expect(await store.list('team', 'a', { signal })).toEqual(taken.slice(1).sort());
        annotate('a', annotationKeys.restoreFrom, taken[1] ?? '');
        annotate('a', annotationKeys.restore, 'now');
        const isOver = ({ status }: VirtualCluster): boolean =>
          status?.restored?.request === 'now' && status.restore === undefined;
        const { status } = await world.until('a', isOver);
        expect(status?.restored?.refused).toBeUndefined();
        expect(world.datastore.entries.get(id)?.map(({ value }) => Buffer.from(value).toString())).toEqual([
          '2',
        ]);
        expect(await store.list('team', 'a', { signal })).toHaveLength(3);
      } finally {
        await world.end();
      }
    },
  );
});
