import { createHash } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { generateIdentity, identityToRecipient } from 'age-encryption';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { annotationKeys } from '../../../api/labels.ts';
import { writeArchive } from '../../snapshot/archive.ts';
import { DirectoryStore } from '../../snapshot/store.ts';
import { exitCodes } from '../errors.ts';
import { runCli } from '../program.ts';
import { Captured, CommandWorld } from '../testing/captured.ts';

let world: CommandWorld;
beforeEach(async () => {
  world = await CommandWorld.start();
});
afterEach(() => world[Symbol.asyncDispose]());

const identities = { tenant: 't', superCluster: 's' };
const kept = (file: string, reason: 'Requested' | 'Scheduled') => ({
  name: `default/blue/${file}.snapshot`,
  at: '2026-01-01T00:00:00.000Z',
  reason,
  kubernetes: '1.36.3',
  entries: 3,
  bytes: 99,
});

describe('snapshot --wait', () => {
  it('names the one that was taken for it, and none from before or of the schedule', async () => {
    const before = kept('before', 'Requested');
    world.put('blue', { identities, snapshots: { kept: [before] } });
    const taking = world.run('snapshot', 'blue', '--wait');
    const taken = await world.asked('blue', annotationKeys.snapshot);
    world.put('blue', { identities, snapshots: { kept: [kept('clock', 'Scheduled'), before] } });
    const all = [before, kept('clock', 'Scheduled'), kept('new', 'Requested')];
    world.put('blue', { identities, snapshots: { taken, kept: all } });
    expect(await taking).toMatchObject({ exitCode: 0, stdout: 'default/blue/new.snapshot\n' });
  });

  it('waits although the last request, by a person or a clock that is ahead, sorts after its own', async () => {
    world.put('blue', { identities, snapshots: { taken: 'nightly' } });
    const taking = world.run('snapshot', 'blue', '--wait');
    const taken = await world.asked('blue', annotationKeys.snapshot);
    world.put('blue', { identities, snapshots: { taken, kept: [kept('new', 'Requested')] } });
    expect(await taking).toMatchObject({ exitCode: 0, stdout: 'default/blue/new.snapshot\n' });
  });

  it('fails with what the job says when none was taken', async () => {
    world.put('blue', { identities });
    const taking = world.run('snapshot', 'blue', '--wait', '--with-certificates');
    const taken = await world.asked('blue', annotationKeys.snapshot);
    expect(taken).toMatch(/Z certificates$/);
    const [startedAt, finishedAt] = ['2026-01-01T00:00:00.000Z', '2026-01-01T00:00:01.000Z'];
    const job = { kind: 'snapshot', id: 's', attempts: 1, startedAt, finishedAt } as const;
    const history = [{ ...job, result: 'Failed', message: 'no recipients' } as const];
    world.put('blue', { identities, snapshots: { taken }, jobs: { history } });
    expect(await taking).toMatchObject({
      exitCode: exitCodes.conflict,
      stderr: expect.stringContaining('no recipients'),
    });
  });

  it('says which store has not got what the manager has kept', async () => {
    world.put('blue', { identities });
    const file = `${world.home}/out.snapshot`;
    const taking = world.run('snapshot', 'blue', '--file', file, '--snapshot-store', world.home);
    const taken = await world.asked('blue', annotationKeys.snapshot);
    world.put('blue', { identities, snapshots: { taken, kept: [kept('new', 'Requested')] } });
    expect(await taking).toMatchObject({
      exitCode: exitCodes.notFound,
      stderr: expect.stringContaining("name the manager's store with --snapshot-store"),
    });
  });
});

describe('snapshot -o', () => {
  it('names a file, as --file does', async () => {
    world.put('blue', { identities });
    const store = new DirectoryStore(join(world.home, 'store'));
    const signal = new AbortController().signal;
    await store.write('default/blue/new.snapshot', Readable.from([Buffer.from('what it has')]), { signal });
    const file = join(world.home, 'out.snapshot');
    const taking = world.run('snapshot', 'blue', '-o', file, '--snapshot-store', store.location);
    const taken = await world.asked('blue', annotationKeys.snapshot);
    world.put('blue', { identities, snapshots: { taken, kept: [kept('new', 'Requested')] } });
    expect(await taking).toMatchObject({ exitCode: 0, stdout: expect.stringContaining(file) });
    expect(await readFile(file, 'utf8')).toBe('what it has');
  });

  it('is a format of --list, and no other', async () => {
    world.put('blue', { identities, snapshots: { kept: [kept('new', 'Requested')] } });
    const { stdout } = await world.run('snapshot', 'blue', '--list', '-o', 'json');
    expect(JSON.parse(stdout)).toHaveLength(1);
    for (const wrong of [
      ['-o', 'json'],
      ['-o', 'yaml'],
      ['--list', '-o', 'x'],
      ['-o', 'x', '-f', 'y'],
    ])
      expect(await world.run('snapshot', 'blue', ...wrong)).toMatchObject({ exitCode: exitCodes.usage });
    expect(world.get('blue')?.metadata.annotations).toBeUndefined();
  });
});

describe('snapshot --copy and --add', () => {
  const store = () => new DirectoryStore(join(world.home, 'store'));
  const { signal } = new AbortController();
  /** As in the manager's pod: there is no super cluster to ask. */
  const alone = (args: readonly string[], stdin?: Readable) => {
    const [stdout, stderr] = [new Captured(), new Captured()];
    const all = ['snapshot', 'blue', ...args, '--snapshot-store', store().location];
    const streams = { stdout, stderr, ...(stdin && { stdin: stdin as never }) };
    return runCli(all, { env: {}, ...streams }).then((exitCode) => ({
      ...{ exitCode, stdout: stdout.text, stderr: stderr.text },
    }));
  };
  const summary = (bytes: Buffer): string =>
    `${bytes.length} bytes, sha256 ${createHash('sha256').update(bytes).digest('hex')}`;
  const whole = (recipients: string[] = []): Promise<Readable> =>
    writeArchive(
      {
        ...{ namespace: 'default', name: 'blue', id: 'abc', identity: 'i', kubernetes: '1.36.3' },
        ...{ serviceCIDR: '10.0.0.0/24', revision: 1, takenAt: '2026-01-01T00:00:00.000Z' },
      },
      (async function* () {})(),
      { recipients },
    );

  it('give one of the store to a file or to standard output, by its name', async () => {
    const name = 'default/blue/one.snapshot';
    await store().write(name, Readable.from([Buffer.from('what it has')]), { signal });
    expect(await alone(['--copy', name, '-o', '-'])).toEqual({
      exitCode: 0,
      stdout: 'what it has',
      stderr: `${name}: ${summary(Buffer.from('what it has'))}\n`,
    });
    const file = join(world.home, 'out.snapshot');
    expect(await alone(['--copy', name, '--file', file])).toMatchObject({ exitCode: 0 });
    expect(await readFile(file, 'utf8')).toBe('what it has');
    const absent = await alone(['--copy', 'default/blue/two.snapshot', '-o', '-']);
    expect(absent).toMatchObject({ exitCode: exitCodes.notFound, stdout: '' });
    for (const wrong of [
      ['--copy', name],
      ['--copy', 'default/red/one.snapshot', '-o', '-'],
      ['--copy', '../../x.snapshot', '-o', '-'],
      ['--copy', name, '-o', '-', '--list'],
      ['--add', file, '-o', '-'],
      ['--add', name],
      ['--add', join(world.home, 'nosuch')],
    ])
      expect(await alone(wrong)).toMatchObject({ exitCode: exitCodes.usage, stdout: '' });
  });

  it('take a file, or what comes on standard input, into the store, and nothing that is not whole', async () => {
    const bytes = await buffer(await whole());
    const file = join(world.home, 'in.snapshot');
    await writeFile(file, bytes);
    expect((await alone(['--add', file])).stdout).toBe('default/blue/copied-in.snapshot\n');
    const { stdout, exitCode } = await alone(['--add', '-'], Readable.from([bytes]));
    expect([exitCode, stdout]).toEqual([
      0,
      expect.stringMatching(/^default\/blue\/copied-2.*Z\.snapshot\n$/),
    ]);
    const added = await buffer(await store().read(stdout.trim(), { signal }));
    expect(added.equals(bytes)).toBe(true);
    const before = await store().list('default', 'blue', { signal });
    const cut = await alone(['--add', '-'], Readable.from([bytes.subarray(0, -5)]));
    expect(cut.exitCode).not.toBe(0);
    expect(cut.stderr).toMatch(/standard input is damaged/);
    expect((await alone(['--add', '-'])).exitCode).toBe(exitCodes.usage);
    expect(await store().list('default', 'blue', { signal })).toEqual(before);
  });

  it('say how much there was and its digest, as one that is encrypted is not checked further', async () => {
    const bytes = await buffer(await whole([await identityToRecipient(await generateIdentity())]));
    const file = join(world.home, 'in.snapshot');
    for (const [content, from] of [
      [bytes, file],
      [bytes.subarray(0, -5), '-'],
    ] as const) {
      await writeFile(file, content);
      const added = await alone(['--add', from], Readable.from([content]));
      const name = added.stdout.trim();
      expect(added.stderr).toContain(`${name}: ${summary(content)}\n`);
      expect(added.stderr).toContain('It is encrypted');
      const copied = await alone(['--copy', name, '-o', join(world.home, 'out.snapshot')]);
      expect(copied).toEqual({ exitCode: 0, stdout: '', stderr: `${name}: ${summary(content)}\n` });
    }
  });
});

describe('snapshot --remove', () => {
  it('removes one of the tenant from the store, and asks before', async () => {
    const store = new DirectoryStore(join(world.home, 'store'));
    const { signal } = new AbortController();
    const [name, other] = ['default/blue/one.snapshot', 'default/red/one.snapshot'];
    for (const each of [name, other]) await store.write(each, Readable.from([Buffer.from('x')]), { signal });
    // As in the manager's pod: there is no super cluster to ask.
    const remove = async (...args: string[]) => {
      const [stdout, stderr] = [new Captured(), new Captured()];
      const all = ['snapshot', 'blue', '--snapshot-store', store.location, '--remove', ...args];
      const exitCode = await runCli(all, { env: {}, stdout, stderr });
      return { exitCode, stdout: stdout.text, stderr: stderr.text };
    };
    expect(await remove(name)).toMatchObject({
      exitCode: exitCodes.usage,
      stderr: expect.stringContaining('--yes'),
    });
    for (const wrong of [[other], ['../one.snapshot'], [name, '--list'], [name, '-o', 'x']])
      expect(await remove(...wrong, '--yes')).toMatchObject({ exitCode: exitCodes.usage, stdout: '' });
    expect(await remove(name, '--dry-run')).toEqual({
      exitCode: 0,
      stdout: `${name} would be removed from ${store.location} (dry run). There would be no way back.\n`,
      stderr: '',
    });
    expect((await store.sizes('default', { signal })).size).toBe(2);
    expect(await world.run('snapshot', 'blue', '--dry-run')).toMatchObject({ exitCode: exitCodes.usage });
    expect(await remove(name, '--yes')).toMatchObject({ exitCode: 0, stdout: `${name} is removed\n` });
    expect([...(await store.sizes('default', { signal })).keys()]).toEqual([other]);
    expect(await remove(name, '--yes')).toMatchObject({ exitCode: exitCodes.notFound, stdout: '' });
  });
});

describe('snapshot --list', () => {
  it('shows what is kept, and which hold certificates', async () => {
    world.put('blue', { snapshots: { kept: [{ ...kept('new', 'Requested'), certificates: true }] } });
    const { stdout } = await world.run('snapshot', 'blue', '--list');
    expect(stdout).toMatch(/default\/blue\/new\.snapshot .* Requested, certificates +1\.36\.3 +3 +99/);
    world.put('red');
    expect((await world.run('snapshot', 'red', '--list')).stdout).toBe('No snapshots are kept.\n');
  });
});
