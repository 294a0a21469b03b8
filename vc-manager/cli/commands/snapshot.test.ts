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
      stderr: expect.stringContaining('name its store with --snapshot-store'),
    });
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
