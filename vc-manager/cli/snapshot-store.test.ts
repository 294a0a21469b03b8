import { randomBytes } from 'node:crypto';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { generateIdentity, identityToRecipient } from 'age-encryption';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { writeArchive } from '../snapshot/archive.ts';
import type { Cli } from './context.ts';
import { snapshotFileName, snapshotKeys } from './snapshot-store.ts';

let home: string;
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'skerry-snapshot-store-'));
});
afterEach(() => rm(home, { recursive: true, force: true }));

const header = {
  ...{ namespace: 'acme', name: 'blue', id: 'abc', identity: 'i', kubernetes: '1.36.3' },
  ...{ serviceCIDR: '10.0.0.0/24', revision: 1, takenAt: '2026-01-01T00:00:00.000Z' },
};
async function* noEntries() {}

describe('the snapshot that is named', () => {
  const ref = { namespace: 'acme', name: 'blue' };
  const cli = { env: {}, signal: new AbortController().signal } as Cli;
  const nameOf = (from: string) => snapshotFileName(cli, { from, snapshotStore: join(home, 'store') }, ref);

  it.each([
    ['one.snapshot', 'copied-one.snapshot'],
    ['my backup (2).snapshot', 'copied-my-backup--2-.snapshot'],
    ['..hidden', 'copied-hidden.snapshot'],
    ['äö', 'copied-file.snapshot'],
    [`${'x'.repeat(200)}`, `copied-${'x'.repeat(80)}.snapshot`],
  ])(
    'is a file, %s, which is copied into the store under a name that the manager never gives',
    async (file, copy) => {
      await writeFile(join(home, file), await writeArchive(header, noEntries()));
      expect(await nameOf(join(home, file))).toBe(`acme/blue/${copy}`);
      expect(await readdir(join(home, 'store', 'acme', 'blue'))).toEqual([copy]);
    },
  );

  it('is one of the store by its name, and nothing else', async () => {
    expect(await nameOf('acme/blue/one.snapshot')).toBe('acme/blue/one.snapshot');
    for (const wrong of ['one.snapshot', 'acme/blue/one', '../blue/one.snapshot', join(home, 'nosuch')])
      await expect(nameOf(wrong)).rejects.toMatchObject({ code: 'InvalidArgument' });
  });

  it('is not copied when it is no snapshot', async () => {
    await writeFile(join(home, 'text'), 'hello');
    await expect(nameOf(join(home, 'text'))).rejects.toMatchObject({ code: 'NotASnapshot' });
    expect(await readdir(home)).toEqual(['text']);
  });

  it('is not copied when it is cut short or damaged behind its beginning', async () => {
    async function* entries() {
      for (let each = 0; each < 20; each++)
        yield { key: `configmaps/a/${each}`, value: randomBytes(4_096), isSecret: false };
    }
    const whole = await buffer(await writeArchive(header, entries()));
    const damaged = Buffer.from(whole);
    damaged[60_000] = (damaged[60_000] ?? 0) ^ 255;
    for (const bytes of [whole.subarray(0, -100), damaged]) {
      await writeFile(join(home, 'file'), bytes);
      await expect(nameOf(join(home, 'file'))).rejects.toMatchObject({ code: 'SnapshotDamaged' });
    }
    expect(await readdir(home)).toEqual(['file']);
  });
});

describe('keys of snapshots', () => {
  it('are recipients and identities of age, with comments left out', async () => {
    const identity = await generateIdentity();
    const recipient = await identityToRecipient(identity);
    const file = join(home, 'identity');
    await writeFile(file, `# created\n\n ${identity}\n`);
    const keys = await snapshotKeys({ snapshotRecipient: [recipient], snapshotIdentityFile: file });
    expect(keys).toEqual({ recipients: [recipient], identities: [identity] });
    expect(await snapshotKeys({})).toEqual({ recipients: [], identities: [] });
  });

  it('are refused when they are none', async () => {
    await expect(snapshotKeys({ snapshotRecipient: ['ssh-ed25519 AAAA'] })).rejects.toThrow(
      'no recipient of age',
    );
    const file = join(home, 'identity');
    for (const [text, why] of [
      ['# nothing\n', 'holds no identity'],
      ['AGE-SECRET-KEY-NONE', 'no identity of age'],
    ] as const) {
      await writeFile(file, text);
      await expect(snapshotKeys({ snapshotIdentityFile: file })).rejects.toThrow(why);
    }
  });
});
