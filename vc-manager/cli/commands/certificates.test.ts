import { describe, expect, it } from 'vitest';
import type { JobStatus } from '../../../api/job-status.ts';
import { annotationKeys } from '../../../api/labels.ts';
import type { VirtualCluster } from '../../../api/virtual-cluster.ts';
import { exitCodes } from '../errors.ts';
import { CommandWorld } from '../testing/captured.ts';
import { areRenewed, isRenewed } from './certificates.ts';

const asked = '2026-01-01T00:00:00.000Z';
const earlier = '2025-12-31T00:00:00.000Z';
const startedAt = asked;
const finishedAt = asked;
const renewal = { kind: 'renewal', id: 'r', startedAt, attempts: 1 } as const;
const change = { kind: 'version-change', id: 'v', startedAt, attempts: 1 } as const;
const cancelled = { ...renewal, finishedAt, result: 'Cancelled' } as const;

const stateOf = (jobs: JobStatus = {}, annotations = {}) =>
  ({ metadata: { name: 'a', annotations }, status: { jobs } }) as VirtualCluster;

function answersOf(...states: JobStatus[]): (boolean | string)[] {
  const until = isRenewed('a', asked, stateOf({ renewed: earlier }));
  return states.map((jobs) => {
    try {
      return until({ metadata: { name: 'a' }, status: { jobs } } as VirtualCluster);
    } catch (error) {
      return (error as Error).message;
    }
  });
}

describe('a dry run of a renewal', () => {
  it.each([
    [[], /^blue would get new certificates \(dry run\): .*stays valid until its own end/],
    [
      ['--ca'],
      /new authorities .*in two stages of 10m each\. Then every kubeconfig, .*gets 401.*blue-kubeconfig/,
    ],
    [['--ca', '--overlap', '2h'], /in two stages of 2h each/],
    [['--ca', '--now'], /\(dry run\): at once every kubeconfig, .*gets 401.*no way back/],
  ] as const)('with %j says what ends, and asks nothing', async (flags, said) => {
    await using world = await CommandWorld.start();
    world.put('blue', { phase: 'Asleep' });
    const { stdout } = await world.run('certificates', 'renew', 'blue', ...flags, '--dry-run');
    expect(stdout).toMatch(said);
    expect(stdout).toContain('is woken for that');
    expect(world.get('blue')?.metadata.annotations).toBeUndefined();
  });
});

describe('certificates renew --ca --now', () => {
  it('asks before every credential ends, and --yes answers', async () => {
    await using world = await CommandWorld.start();
    world.put('blue', { phase: 'Ready' });
    expect(await world.run('certificates', 'renew', 'blue', '--ca', '--now')).toMatchObject({
      exitCode: exitCodes.usage,
      stderr: expect.stringContaining('--yes'),
    });
    expect(world.get('blue')?.metadata.annotations).toBeUndefined();
    expect((await world.run('certificates', 'renew', 'blue', '--ca', '--now', '--yes')).exitCode).toBe(0);
    expect(world.get('blue')?.metadata.annotations?.[annotationKeys.renewAuthorities]).toContain('overlap=0');
  });
});

describe('waiting for new certificates', () => {
  it('waits until they are taken up, not only issued', () => {
    const states = [{}, { current: renewal }, { current: renewal, renewed: asked }, { renewed: asked }];
    expect(answersOf(...states)).toEqual([false, false, false, true]);
  });

  it('waits for another job that takes them up', () => {
    const ended = { ...change, finishedAt, result: 'Succeeded' } as const;
    const states = [
      { current: renewal },
      // It made way for the change of version.
      { current: change, history: [cancelled] },
      { current: change, history: [cancelled], renewed: asked },
      { history: [ended, cancelled], renewed: asked },
    ];
    expect(answersOf(...states)).toEqual([false, false, false, true]);
  });

  it('fails when the renewal was cancelled, and not for an earlier one', () => {
    const own = [{ current: renewal }, { history: [cancelled], renewed: asked }];
    expect(answersOf(...own)).toEqual([false, 'the renewal of a was cancelled']);
    expect(answersOf({ history: [cancelled], renewed: asked })).toEqual([true]);
  });

  it('is content with a later request, and not with an earlier one', () => {
    expect(answersOf({ renewed: earlier })).toEqual([false]);
    expect(answersOf({ renewed: '2026-01-01T00:00:01.000Z' })).toEqual([true]);
  });

  it.each(['2026-01-01T00:09:00.000Z', 'incident-42'])(
    'is not content with an earlier request, %s, whatever that is and whether it was followed then',
    (renewed) => {
      const annotations = { [annotationKeys.renewCertificates]: renewed };
      for (const then of [stateOf({ renewed }), stateOf({}, annotations)]) {
        const until = isRenewed('a', asked, then);
        expect(until(stateOf({ renewed }))).toBe(false);
        expect(until(stateOf({ renewed: asked }))).toBe(true);
      }
    },
  );

  it('fails when the tenant is deleted', async () => {
    await using world = await CommandWorld.start();
    world.put('blue', { phase: 'Ready' });
    const renewing = world.run('certificates', 'renew', 'blue', '--wait');
    await world.asked('blue', annotationKeys.renewCertificates);
    world.remove('blue');
    expect(await renewing).toMatchObject({
      exitCode: exitCodes.notFound,
      stderr: expect.stringContaining('blue is gone'),
    });
  });
});

describe('waiting for new authorities', () => {
  const job = { kind: 'authority-renewal', id: 'a', startedAt, attempts: 1 } as const;
  const answer = (jobs: JobStatus): boolean =>
    areRenewed('a', `${asked} overlap=0`, stateOf({ authorities: earlier }))(stateOf(jobs));

  it('waits until the old ones are gone', () => {
    const followed = `${asked} overlap=0`;
    expect(answer({ current: job })).toBe(false);
    expect(answer({ current: job, authorities: followed })).toBe(false);
    expect(answer({ authorities: earlier })).toBe(false);
    expect(answer({ authorities: followed })).toBe(true);
  });

  it.each(['2026-01-01T00:09:00.000Z', 'incident-42'])(
    'waits after an earlier request, %s',
    (authorities) => {
      const until = areRenewed('a', `${asked} overlap=0`, stateOf({ authorities }));
      expect(until(stateOf({ authorities }))).toBe(false);
      expect(until(stateOf({ authorities: `${asked} overlap=0` }))).toBe(true);
    },
  );

  it('fails when it was cancelled', () => {
    const ended = { ...job, finishedAt, result: 'Cancelled' } as const;
    expect(() => answer({ authorities: `${asked} overlap=0`, history: [ended] })).toThrow('was cancelled');
  });
});
