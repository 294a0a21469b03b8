import { randomBytes } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { annotationKeys } from '../../../api/labels.ts';
import { writeArchive } from '../../snapshot/archive.ts';
import { exitCodes } from '../errors.ts';
import { CommandWorld } from '../testing/captured.ts';

let world: CommandWorld;
beforeEach(async () => {
  world = await CommandWorld.start();
});
afterEach(() => world[Symbol.asyncDispose]());

const identities = { tenant: 't', superCluster: 's' };
const from = 'default/blue/one.snapshot';

describe('restore', () => {
  it('asks for the snapshot and for the certificates in it, and comes back when it is Ready again', async () => {
    world.put('blue', { phase: 'Ready', identities });
    const restoring = world.run('restore', 'blue', '--from', from, '--with-certificates', '--wait', '--yes');
    const request = await world.asked('blue', annotationKeys.restore);
    expect(request).toMatch(/Z certificates$/);
    expect(await world.asked('blue', annotationKeys.restoreFrom)).toBe(from);
    const restored = { request, from, at: '2026-01-01T00:00:00.000Z' };
    world.put('blue', { phase: 'Ready', identities, restored });
    expect(await restoring).toMatchObject({ exitCode: 0, stdout: `blue is put back to ${from}\n` });
  });

  it('is not content with an earlier request, nor before it is Ready', async () => {
    const restored = { request: 'earlier', from, at: '2026-01-01T00:00:00.000Z' };
    world.put('blue', { phase: 'Ready', identities, restored });
    const restoring = world.run('restore', 'blue', '--from', from, '--wait', '--yes');
    const request = await world.asked('blue', annotationKeys.restore);
    world.put('blue', { phase: 'Restoring', identities, restored: { ...restored, request } });
    world.remove('blue');
    expect((await restoring).exitCode).toBe(exitCodes.notFound);
  });

  it.each(['restore', 'restored'] as const)(
    'fails when another takes its place (%s)',
    async (begunOrDone) => {
      const earlier = { request: 'earlier', from, at: '2026-01-01T00:00:00.000Z' };
      world.put('blue', { phase: 'Ready', identities, restored: earlier });
      const restoring = world.run('restore', 'blue', '--from', from, '--wait', '--yes');
      await world.asked('blue', annotationKeys.restore);
      world.put('blue', { phase: 'Restoring', identities, restore: earlier });
      world.put('blue', { phase: 'Ready', identities, restored: earlier });
      const other = { request: 'other', from: 'default/blue/two.snapshot' };
      const restored = begunOrDone === 'restored' ? { ...other, at: earlier.at } : earlier;
      const restore = begunOrDone === 'restore' ? { restore: other } : {};
      world.put('blue', { phase: 'Restoring', identities, restored, ...restore });
      world.remove('blue');
      expect(await restoring).toMatchObject({
        exitCode: exitCodes.conflict,
        stderr: expect.stringContaining(
          'another restore was asked for meanwhile, from default/blue/two.snapshot',
        ),
      });
    },
  );

  it('asks in one write, so that no other request comes between the snapshot and the time', async () => {
    world.put('blue', { phase: 'Ready', identities });
    const restoring = world.run('restore', 'blue', '--from', from, '--wait', '--yes');
    await world.asked('blue', annotationKeys.restore);
    const patches = world.server.requests.filter(({ method }) => method === 'PATCH');
    world.remove('blue');
    await restoring;
    expect(patches).toHaveLength(1);
  });

  it('fails with what the manager says when it refuses', async () => {
    world.put('blue', { phase: 'Ready', identities });
    const restoring = world.run('restore', 'blue', '--from', from, '--wait', '--yes');
    const request = await world.asked('blue', annotationKeys.restore);
    const restored = { request, from, at: '2026-01-01T00:00:00.000Z', refused: 'it is damaged' };
    world.put('blue', { phase: 'Ready', identities, restored });
    expect(await restoring).toMatchObject({
      exitCode: exitCodes.conflict,
      stderr: expect.stringContaining('nothing was changed: it is damaged'),
    });
  });

  describe('in a dry run', () => {
    const header = {
      ...{ namespace: 'default', name: 'blue', id: 'abc', identity: 't', kubernetes: '1.36.3' },
      ...{ serviceCIDR: '10.0.0.0/24', revision: 1, takenAt: '2026-01-01T00:00:00.000Z' },
    };
    async function* entries() {
      for (let each = 0; each < 500; each++)
        yield { key: `configmaps/a/${each}`, value: randomBytes(64), isSecret: false };
    }
    const tried = async (change: Partial<typeof header>, { cutTo = Number.POSITIVE_INFINITY } = {}) => {
      world.put('blue', { phase: 'Ready', identities, version: '1.36.3' });
      const file = join(world.home, 'a.snapshot');
      const whole = await buffer(await writeArchive({ ...header, ...change }, entries()));
      await writeFile(file, whole.subarray(0, Math.min(cutTo, whole.length)));
      const { stdout, stderr, exitCode } = await world.run('restore', 'blue', '--from', file, '--dry-run');
      expect(world.get('blue')?.metadata.annotations).toBeUndefined();
      return exitCode === 0 ? stdout : `refused: ${stderr}`;
    };

    it('says what would be put back', async () => {
      expect(await tried({})).toContain(
        'taken of default/blue at 2026-01-01T00:00:00.000Z with Kubernetes 1.36.3',
      );
      expect(await tried({ kubernetes: '1.35.9' })).toContain('(dry run)');
    });

    it('refuses what the manager would: one cut short, of another tenant, of a newer Kubernetes', async () => {
      expect(await tried({}, { cutTo: 10_000 })).toMatch(/^refused: .*is damaged/);
      expect(await tried({ identity: 'other', name: 'red' })).toMatch(
        /^refused: .*of another tenant, default\/red/,
      );
      expect(await tried({ kubernetes: '1.36.4' })).toMatch(/^refused: .*newer than the 1\.36\.3/);
    });

    it('does not look for a snapshot of another namespace, as the manager does not', async () => {
      world.put('blue', { phase: 'Ready', identities });
      const other = 'other/blue/one.snapshot';
      await mkdir(join(world.home, 'other/blue'), { recursive: true });
      await writeFile(join(world.home, other), await writeArchive(header, entries()));
      const args = ['restore', 'blue', '--from', other, '--snapshot-store', world.home, '--dry-run'];
      expect((await world.run(...args)).stderr).toContain(`there is no snapshot ${other}`);
    });
  });

  it('asks nothing for what is neither a file nor a name, nor of a tenant that was never ready', async () => {
    world.put('blue', { phase: 'Ready', identities });
    world.put('red');
    expect((await world.run('restore', 'blue', '--from', '../other/x.snapshot', '--yes')).exitCode).toBe(
      exitCodes.usage,
    );
    expect((await world.run('restore', 'red', '--from', from, '--yes')).exitCode).toBe(exitCodes.conflict);
    for (const name of ['blue', 'red']) expect(world.get(name)?.metadata.annotations).toBeUndefined();
  });
});
