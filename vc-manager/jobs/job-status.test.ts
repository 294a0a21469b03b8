import { describe, expect, it } from 'vitest';
import type { JobKind, JobStatus } from '../../api/job-status.ts';
import {
  beginJob,
  cancelJob,
  failAttempt,
  refuseCancel,
  replaceJob,
  startStep,
  succeedJob,
} from './job-status.ts';

const at = (seconds: number): Date => new Date(Date.UTC(2030, 0, 1, 0, 0, seconds));

function begin(jobs: JobStatus | undefined, more: Partial<Parameters<typeof beginJob>[1]> = {}): JobStatus {
  return beginJob(jobs, {
    kind: 'provision',
    id: 'one',
    holder: 'm1',
    now: at(0),
    continues: false,
    ...more,
  });
}

describe('the record of jobs', () => {
  it('has one that begins, its steps and its end', () => {
    let jobs = begin(undefined);
    expect(jobs.current).toMatchObject({
      id: 'one',
      attempts: 1,
      holder: 'm1',
      startedAt: at(0).toISOString(),
    });
    jobs = startStep(jobs, { name: 'datastore', doing: 'Preparing' }, at(1));
    expect(jobs.current).toMatchObject({ step: 'datastore', stepStartedAt: at(1).toISOString() });
    jobs = succeedJob(jobs, at(2));
    expect(jobs.current).toBeUndefined();
    expect(jobs.history).toEqual([
      {
        kind: 'provision',
        id: 'one',
        result: 'Succeeded',
        startedAt: at(0).toISOString(),
        finishedAt: at(2).toISOString(),
        attempts: 1,
      },
    ]);
  });

  it('counts an attempt after a failure and for another manager, but not for going on', () => {
    let jobs = failAttempt(begin(undefined), 'the port is taken');
    expect(jobs.current).toMatchObject({ failing: true, message: 'the port is taken' });
    jobs = begin(jobs, { id: 'two' });
    expect(jobs.current).toMatchObject({ id: 'one', attempts: 2 });
    expect(jobs.current?.failing).toBeUndefined();
    jobs = begin(jobs, { continues: true });
    expect(jobs.current?.attempts).toBe(2);
    jobs = begin(jobs, { holder: 'm2', continues: true });
    expect(jobs.current).toMatchObject({ attempts: 3, holder: 'm2' });
  });

  it.each<[string, Partial<Parameters<typeof beginJob>[1]>]>([
    ['of another kind', { kind: 'delete' }],
    ['of another version', { kind: 'version-change', target: '1.36.3' }],
  ])('ends what had failed when one %s is wanted', (_, wanted) => {
    const failed = failAttempt(
      begin(undefined, { kind: 'version-change', target: '1.36.2' }),
      'it does not start',
    );
    const { current, history } = begin(failed, { id: 'two', ...wanted });
    expect(current).toMatchObject({ id: 'two', attempts: 1 });
    expect(history).toMatchObject([{ id: 'one', result: 'Failed', message: 'it does not start' }]);
  });

  it('tells one that was given up from one that failed', () => {
    expect(replaceJob(begin(undefined), at(1)).history).toMatchObject([{ result: 'Cancelled' }]);
    expect(cancelJob(begin(undefined), at(1)).history).toMatchObject([
      { result: 'Cancelled', message: 'Cancelled on request.' },
    ]);
    expect(refuseCancel(begin(undefined), 'no').current).toMatchObject({ refusal: 'no' });
  });

  it('remembers ten, the latest first, and no message of any length', () => {
    let jobs: JobStatus | undefined;
    const kinds: JobKind[] = ['renewal', 'version-change'];
    for (let count = 0; count < 25; count++) {
      jobs = begin(jobs, { id: `job-${count}`, kind: kinds[count % 2] ?? 'renewal' });
      jobs = failAttempt(jobs, 'x'.repeat(100_000));
    }
    expect(jobs?.history?.map(({ id }) => id)).toEqual(
      Array.from({ length: 10 }, (_, back) => `job-${23 - back}`),
    );
    expect(JSON.stringify(jobs).length).toBeLessThan(20_000);
  });

  it('remembers what fails again and again the same way as one', () => {
    const fail = (jobs: JobStatus | undefined, second: number, message: string): JobStatus =>
      replaceJob(
        failAttempt(begin(jobs, { id: `job-${second}`, kind: 'snapshot', now: at(second) }), message),
        at(second),
      );
    let jobs: JobStatus | undefined;
    for (let second = 0; second < 25; second++) jobs = fail(jobs, second, 'the store is away');
    expect(jobs?.history).toMatchObject([
      {
        ...{ id: 'job-24', kind: 'snapshot', result: 'Failed', attempts: 25 },
        ...{ startedAt: at(0).toISOString(), finishedAt: at(24).toISOString() },
      },
    ]);
    expect(fail(jobs, 25, 'the store is full').history).toHaveLength(2);
    const between = succeedJob(begin(jobs, { id: 'other', kind: 'snapshot' }), at(25));
    expect(fail(between, 26, 'the store is away').history).toHaveLength(3);
  });

  it('stays empty where nothing was begun', () => {
    expect(startStep(undefined, { name: 'a', doing: 'b' }, at(0))).toEqual({});
    expect(succeedJob({}, at(0))).toEqual({});
    expect(replaceJob(undefined, at(0))).toEqual({});
  });
});
