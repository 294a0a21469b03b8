import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { JobStatus } from '../../../api/job-status.ts';
import { annotationKeys } from '../../../api/labels.ts';
import { exitCodes } from '../errors.ts';
import { CommandWorld } from '../testing/captured.ts';

let world: CommandWorld;
beforeEach(async () => {
  world = await CommandWorld.start();
});
afterEach(() => world[Symbol.asyncDispose]());

const startedAt = '2026-01-01T00:00:00.000Z';
const current = { kind: 'version-change', id: 'j1', startedAt, attempts: 1 } as const;
const ended = { ...current, finishedAt: startedAt } as const;

describe('jobs cancel', () => {
  it('comes back when the manager has cancelled that very job', async () => {
    world.put('blue', { jobs: { current } });
    const cancelling = world.run('jobs', 'cancel', 'blue');
    expect(await world.asked('blue', annotationKeys.cancelJob)).toBe('j1');
    const later = { ...current, id: 'j2' };
    world.put('blue', { jobs: { current: later, history: [{ ...ended, result: 'Cancelled' }] } });
    expect(await cancelling).toMatchObject({ exitCode: 0, stdout: 'version-change of blue cancelled\n' });
  });

  it.each<[string, JobStatus, string]>([
    ['that is refused', { current: { ...current, refusal: 'too late' } }, 'too late'],
    ['that has succeeded by then', { history: [{ ...ended, result: 'Succeeded' }] }, 'Succeeded'],
    ['that nobody remembers', {}, 'no longer in the history'],
  ])('fails for one %s, and says so', async (_what, jobs, why) => {
    world.put('blue', { jobs: { current } });
    const cancelling = world.run('jobs', 'cancel', 'blue');
    await world.asked('blue', annotationKeys.cancelJob);
    world.put('blue', { jobs });
    const { exitCode, stderr } = await cancelling;
    expect(exitCode).toBe(exitCodes.conflict);
    expect(stderr).toContain(why);
  });

  it('of a creation asks before, as that stops what was started', async () => {
    world.put('blue', { jobs: { current: { ...current, kind: 'provision' } } });
    expect(await world.run('jobs', 'cancel', 'blue')).toMatchObject({
      exitCode: exitCodes.usage,
      stderr: expect.stringContaining('--yes'),
    });
    expect(world.get('blue')?.metadata.annotations).toBeUndefined();
    const cancelling = world.run('jobs', 'cancel', 'blue', '--yes');
    await world.asked('blue', annotationKeys.cancelJob);
    world.put('blue', { jobs: { history: [{ ...ended, kind: 'provision', result: 'Cancelled' }] } });
    expect(await cancelling).toMatchObject({ exitCode: 0, stdout: 'provision of blue cancelled\n' });
  });

  it.each([
    ['provision', /provision of blue, which is at the step dns, would be cancelled \(dry run\).*is stopped/],
    ['move', /The move of blue, .*The help of this command says what that means/],
  ] as const)('--dry-run of a %s says what would be stopped, and asks nothing', async (kind, said) => {
    world.put('blue', { jobs: { current: { ...current, kind, step: 'dns' } } });
    const { stdout, exitCode } = await world.run('jobs', 'cancel', 'blue', '--dry-run');
    expect([exitCode, stdout]).toEqual([0, expect.stringMatching(said)]);
    expect(await world.run('jobs', 'retry', 'blue', '--dry-run')).toMatchObject({
      exitCode: exitCodes.usage,
    });
    expect(world.get('blue')?.metadata.annotations).toBeUndefined();
  });

  it('fails where the tenant goes meanwhile, and where nothing is under way', async () => {
    world.put('blue', { jobs: { current } });
    const cancelling = world.run('jobs', 'cancel', 'blue');
    await world.asked('blue', annotationKeys.cancelJob);
    world.remove('blue');
    expect(await cancelling).toMatchObject({ exitCode: exitCodes.conflict });
    world.put('red');
    expect(await world.run('jobs', 'cancel', 'red')).toMatchObject({
      exitCode: exitCodes.conflict,
      stderr: expect.stringContaining('nothing is under way'),
    });
  });
});

describe('jobs retry', () => {
  it('comes back when the manager has seen this request or a later one', async () => {
    world.put('blue', { jobs: { retried: '2026-01-01T00:00:00.000Z' } });
    const retrying = world.run('jobs', 'retry', 'blue');
    await world.asked('blue', annotationKeys.retryJob);
    world.put('blue', { jobs: { retried: '9999-01-01T00:00:00.000Z' } });
    expect(await retrying).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('tried again') });
  });

  it('does not take the answer to an earlier request for its own', async () => {
    world.put('blue', { jobs: { retried: '2026-01-01T00:00:00.000Z' } });
    const retrying = world.run('jobs', 'retry', 'blue');
    await world.asked('blue', annotationKeys.retryJob);
    world.remove('blue');
    expect((await retrying).exitCode).toBe(exitCodes.notFound);
  });
});

describe('jobs', () => {
  it('says where there are none, of all or of one', async () => {
    world.put('blue');
    expect((await world.run('jobs')).stderr).toBe('No jobs.\n');
    expect((await world.run('jobs', 'blue')).stderr).toContain('No jobs of blue');
    expect(JSON.parse((await world.run('jobs', '-o', 'json')).stdout)).toEqual([]);
  });

  it('refuses words that it does not understand', async () => {
    for (const words of [
      ['blue', 'red'],
      ['cancel', 'blue', 'red'],
      ['stop', 'blue'],
    ])
      expect(await world.run('jobs', ...words)).toMatchObject({ exitCode: exitCodes.usage });
  });
});
