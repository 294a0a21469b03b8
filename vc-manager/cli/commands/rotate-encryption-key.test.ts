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
const job = { kind: 'key-rotation', id: 'k', startedAt: '2026-01-01T00:00:00.000Z', attempts: 1 } as const;

describe('rotate-encryption-key --wait', () => {
  it('comes back when the request is followed and no job is left', async () => {
    world.put('blue', { identities });
    const rotating = world.run('rotate-encryption-key', 'blue', '--wait');
    const rotated = await world.asked('blue', annotationKeys.rotateEncryptionKey);
    world.put('blue', { identities, jobs: { rotated } });
    expect(await rotating).toMatchObject({ exitCode: 0, stdout: 'encryption key of blue rotated\n' });
  });

  it('waits while the job goes on, and fails when that was cancelled', async () => {
    world.put('blue', { identities, jobs: { rotated: '2026-01-01T00:00:00.000Z' } });
    const rotating = world.run('rotate-encryption-key', 'blue', '--wait');
    const rotated = await world.asked('blue', annotationKeys.rotateEncryptionKey);
    world.put('blue', { identities, jobs: { rotated: '2026-01-01T00:00:00.000Z' } });
    world.put('blue', { identities, jobs: { rotated, current: job } });
    const ended = { ...job, finishedAt: job.startedAt, result: 'Cancelled' } as const;
    world.put('blue', { identities, jobs: { rotated, history: [ended] } });
    expect(await rotating).toMatchObject({
      exitCode: exitCodes.conflict,
      stderr: expect.stringContaining('cancelled'),
    });
  });

  it('waits although the last request, by a person or a clock that is ahead, sorts after its own', async () => {
    const followed = (rotated: string) => ({ identities, jobs: { rotated } });
    world.put('blue', followed('incident-42'));
    const rotating = world.run('rotate-encryption-key', 'blue', '--wait');
    const rotated = await world.asked('blue', annotationKeys.rotateEncryptionKey);
    world.put('blue', followed('incident-42'));
    const ended = { ...job, finishedAt: job.startedAt, result: 'Cancelled' } as const;
    world.put('blue', { identities, jobs: { rotated, history: [ended] } });
    expect((await rotating).exitCode).toBe(exitCodes.conflict);
  });

  it('asks nothing in a dry run, and says what it would do', async () => {
    world.put('blue', { identities, phase: 'Asleep' });
    const { stdout, exitCode } = await world.run('rotate-encryption-key', 'blue', '--dry-run');
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/^blue would get a new encryption key \(dry run\): .*is woken for that/);
    expect(world.get('blue')?.metadata.annotations).toBeUndefined();
  });

  it('asks nothing of one that has not been ready yet', async () => {
    world.put('blue');
    expect((await world.run('rotate-encryption-key', 'blue')).exitCode).toBe(exitCodes.conflict);
    expect(world.get('blue')?.metadata.annotations).toBeUndefined();
  });
});
