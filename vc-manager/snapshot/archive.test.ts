import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { gunzipSync, gzipSync } from 'node:zlib';
import { generateX25519Identity, identityToRecipient } from 'age-encryption';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readArchive, type SnapshotHeader, writeArchive } from './archive.ts';
import type { PlainEntry } from './secretbox.ts';

const header: SnapshotHeader = {
  namespace: 'default',
  name: 'team-blue',
  id: 'abcdefghij',
  identity: '6f2d',
  kubernetes: '1.36.3',
  serviceCIDR: '10.112.0.0/22',
  revision: 7,
  takenAt: '2026-03-01T06:00:00.000Z',
};

const entries: PlainEntry[] = [
  { key: 'configmaps/shop/settings', value: Buffer.from('k8s\0blue'), isSecret: false },
  { key: 'secrets/shop/password', value: Buffer.from([0, 255, 10, 13]), isSecret: true },
];

const write = async (what: readonly PlainEntry[] = entries, recipients: string[] = []): Promise<Buffer> =>
  buffer(await writeArchive(header, Readable.from(what), { recipients }));

async function read(bytes: Uint8Array, identities: string[] = []) {
  const name = 'default/team-blue/x.snapshot';
  // In pieces of all sizes, as a network gives them.
  const pieces = Array.from({ length: Math.ceil(bytes.length / 7) }, (_, i) =>
    Buffer.from(bytes.subarray(i * 7, i * 7 + 7)),
  );
  const archive = await readArchive(Readable.from(pieces, { objectMode: false }), { name, identities });
  const found: PlainEntry[] = [];
  for await (const { key, value, isSecret } of archive.entries)
    found.push({ key, value: Buffer.from(value), isSecret });
  return { header: archive.header, entries: found };
}

describe('a snapshot', () => {
  it('is read as it was written', async () => {
    expect(await read(await write())).toEqual({ header, entries });
    expect(await read(await write([]))).toEqual({ header, entries: [] });
  });

  it('is read as it was written, whatever is in it', async () => {
    const entry = fc.record({
      key: fc.string({ minLength: 1, unit: 'binary' }).filter((key) => key.isWellFormed()),
      value: fc.uint8Array({ maxLength: 2_000 }).map((bytes) => Buffer.from(bytes)),
      isSecret: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(entry, { maxLength: 20 }), async (what) => {
        expect((await read(await write(what))).entries).toEqual(what);
      }),
      { numRuns: 25 },
    );
  });

  it('is refused when it is cut short anywhere', async () => {
    const bytes = await write();
    for (let length = 0; length < bytes.length; length++)
      await expect(read(bytes.subarray(0, length)), `${length} bytes`).rejects.toMatchObject({
        code: expect.stringMatching(/^(SnapshotDamaged|NotASnapshot)$/),
      });
  });

  it('is refused when lines are taken out, put in or changed, although the compression is in order', async () => {
    const lines = gunzipSync(await write())
      .toString()
      .split('\n');
    const changed = [
      lines.filter((_, i) => i !== 1),
      [...lines.slice(0, 2), lines[1], ...lines.slice(2)],
      lines.map((line) => line?.replace('settings', 'sittings')),
      lines.map((line, i) => (i === 0 ? line?.replace('team-blue', 'team-grey') : line)),
      [...lines, lines[1]],
      lines.slice(0, -2),
    ];
    for (const each of changed)
      await expect(read(gzipSync(each.join('\n')))).rejects.toMatchObject({ code: 'SnapshotDamaged' });
  });

  it('is no other file', async () => {
    for (const other of ['', 'hello, this is a text', '{"format":"skerry-snapshot"}'])
      await expect(read(Buffer.from(other))).rejects.toMatchObject({
        code: other === '' ? 'SnapshotDamaged' : 'NotASnapshot',
      });
    for (const other of ['hello\n', '{"format":"other"}\n', '[]\n', '\n'])
      await expect(read(gzipSync(other))).rejects.toMatchObject({ code: 'NotASnapshot' });
    await expect(read(gzipSync('{"format":"skerry-snapshot","formatVersion":2}\n'))).rejects.toMatchObject({
      code: 'SnapshotTooNew',
    });
  });

  it('is refused with a line longer than an entry can be, before that is in memory', async () => {
    const endless = gzipSync(Buffer.alloc(5 * 1024 * 1024, 'x'));
    await expect(read(endless)).rejects.toMatchObject({ code: 'SnapshotDamaged' });
  });

  it('is encrypted for recipients, and read by one of them only', async () => {
    const [identity, other] = [await generateX25519Identity(), await generateX25519Identity()];
    const bytes = await write(entries, [await identityToRecipient(identity)]);
    expect(bytes.toString('latin1')).not.toContain('settings');
    expect(await read(bytes, [other, identity])).toEqual({ header, entries });
    for (const identities of [[], [other]])
      await expect(read(bytes, identities)).rejects.toMatchObject({ code: 'SnapshotEncrypted' });
    const cut = bytes.subarray(0, -3);
    await expect(read(cut, [identity])).rejects.toMatchObject({ code: 'SnapshotDamaged' });
  });

  it('is not called damaged or encrypted for others when the way to it breaks', async () => {
    const identity = await generateX25519Identity();
    const plain = await write();
    const sealed = await write(entries, [await identityToRecipient(identity)]);
    const broken = new Error('the connection is lost');
    async function* pieces(bytes: Buffer) {
      for (let at = 0; at < bytes.length; at += 16) yield bytes.subarray(at, at + 16);
      throw broken;
    }
    for (const bytes of [plain, sealed])
      for (const length of [0, 16, 32, bytes.length - 8]) {
        const source = Readable.from(pieces(bytes.subarray(0, length)), { objectMode: false });
        const reading = async (): Promise<void> => {
          const archive = await readArchive(source, { name: 'x', identities: [identity] });
          for await (const _ of archive.entries);
        };
        await expect(reading(), `${length} bytes`).rejects.toBe(broken);
      }
  });
});
