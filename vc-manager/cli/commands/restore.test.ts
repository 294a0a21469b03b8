import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { annotationKeys } from '../../../api/labels.ts';
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
    const restoring = world.run('restore', 'blue', '--from', from, '--with-certificates', '--wait');
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
    const restoring = world.run('restore', 'blue', '--from', from, '--wait');
    const request = await world.asked('blue', annotationKeys.restore);
    world.put('blue', { phase: 'Restoring', identities, restored: { ...restored, request } });
    world.remove('blue');
    expect((await restoring).exitCode).toBe(exitCodes.notFound);
  });

  it('fails with what the manager says when it refuses', async () => {
    world.put('blue', { phase: 'Ready', identities });
    const restoring = world.run('restore', 'blue', '--from', from, '--wait');
    const request = await world.asked('blue', annotationKeys.restore);
    const restored = { request, from, at: '2026-01-01T00:00:00.000Z', refused: 'it is damaged' };
    world.put('blue', { phase: 'Ready', identities, restored });
    expect(await restoring).toMatchObject({
      exitCode: exitCodes.conflict,
      stderr: expect.stringContaining('nothing was changed: it is damaged'),
    });
  });

  it('asks nothing for what is neither a file nor a name, nor of a tenant that was never ready', async () => {
    world.put('blue', { phase: 'Ready', identities });
    world.put('red');
    expect((await world.run('restore', 'blue', '--from', '../other/x.snapshot')).exitCode).toBe(
      exitCodes.usage,
    );
    expect((await world.run('restore', 'red', '--from', from)).exitCode).toBe(exitCodes.conflict);
    for (const name of ['blue', 'red']) expect(world.get(name)?.metadata.annotations).toBeUndefined();
  });
});
