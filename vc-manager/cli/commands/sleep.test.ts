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

describe('sleep', () => {
  it('waits until the control plane has stopped, and not only for the phase', async () => {
    world.put('blue', { phase: 'Ready', identities });
    const sleeping = world.run('sleep', 'blue', '--wait');
    await world.asked('blue', annotationKeys.sleep);
    world.put('blue', { phase: 'Asleep', identities, sleep: { stopped: true } });
    expect(await sleeping).toMatchObject({ exitCode: 0, stdout: 'blue is asleep\n' });
    world.put('red', { phase: 'Ready', identities });
    const waiting = world.run('sleep', 'red', '--wait');
    await world.asked('red', annotationKeys.sleep);
    world.put('red', { phase: 'Asleep', identities });
    world.remove('red');
    expect((await waiting).exitCode).toBe(exitCodes.notFound);
  });

  it('asks and comes back without --wait', async () => {
    world.put('blue', { phase: 'Ready', identities });
    expect((await world.run('sleep', 'blue')).stdout).toContain('blue is asked to sleep');
    expect(world.get('blue')?.metadata.annotations).toHaveProperty([annotationKeys.sleep]);
  });

  it('asks nothing where it is asleep, or has not been ready yet', async () => {
    world.put('blue', { phase: 'Asleep', identities, sleep: { stopped: true } });
    world.put('red', { phase: 'Provisioning' });
    expect((await world.run('sleep', 'blue')).stdout).toBe('blue is asleep already\n');
    expect(await world.run('sleep', 'red')).toMatchObject({ exitCode: exitCodes.conflict });
    for (const name of ['blue', 'red']) expect(world.get(name)?.metadata.annotations).toBeUndefined();
  });
});

describe('wake', () => {
  it('is asked of one that is awake and about to sleep, and the other way round', async () => {
    for (const [first, then, status] of [
      ['sleep', 'wake', { phase: 'Ready', identities }],
      ['wake', 'sleep', { phase: 'Asleep', identities, sleep: { stopped: true } }],
    ] as const) {
      world.put(first, status);
      await world.run(first, first);
      expect((await world.run(then, first)).stdout).not.toContain('already');
      expect(world.get(first)?.metadata.annotations).toHaveProperty([annotationKeys[then]]);
    }
  });

  it('waits until the tenant is ready', async () => {
    world.put('blue', { phase: 'Asleep', identities, sleep: { stopped: true } });
    const waking = world.run('wake', 'blue', '--wait');
    await world.asked('blue', annotationKeys.wake);
    world.put('blue', { phase: 'Ready', identities });
    expect(await waking).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('blue is awake') });
  });

  it('ends the wait when the tenant fails or goes', async () => {
    for (const [name, isGone] of [
      ['blue', false],
      ['red', true],
    ] as const) {
      world.put(name, { phase: 'Asleep', identities });
      const waking = world.run('wake', name, '--wait');
      await world.asked(name, annotationKeys.wake);
      if (isGone) world.remove(name);
      else world.put(name, { phase: 'Failed', identities });
      expect((await waking).exitCode).toBe(isGone ? exitCodes.notFound : exitCodes.conflict);
    }
  });

  it('is refused for one that is neither asleep nor awake', async () => {
    world.put('blue', { phase: 'Restoring', identities });
    expect(await world.run('wake', 'blue')).toMatchObject({
      exitCode: exitCodes.conflict,
      stderr: expect.stringContaining('Restoring'),
    });
  });
});
