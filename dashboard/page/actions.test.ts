import { expect, it } from 'vitest';
import { simpleActions } from './actions.ts';

const labels = (phase: string, ...states: string[]): string[] => {
  const jobs = states.map((state) => ({ kind: 'provision', id: 'one', state, attempts: 1, startedAt: '' }));
  return simpleActions({ phase, jobs, isOverLimit: states.includes('Waiting') }).map(({ label }) => label);
};

it('offers what can be done in the state that a tenant is in', () => {
  const always = ['Snapshot', 'Renew certificates'];
  expect(labels('Ready', 'Succeeded')).toEqual(['Sleep', ...always]);
  expect(labels('Provisioning', 'Running')).toEqual(['Cancel the job']);
  expect(labels('Provisioning', 'Retrying')).toEqual(['Cancel the job', 'Try again']);
  expect(labels('Asleep')).toEqual(['Wake', ...always]);
  expect(labels('Failed', 'Retrying')).toEqual(['Sleep', ...always, 'Cancel the job', 'Try again']);
});

it('says what it means to cancel the making of a tenant', () => {
  const text = (kind: string): string | undefined => {
    const jobs = [{ kind, id: 'one', state: 'Running', attempts: 1, startedAt: '' }];
    return simpleActions({ phase: 'Pending', jobs, isOverLimit: false }).find(
      ({ action }) => action === 'cancel',
    )?.text;
  };
  expect(text('provision')).toContain('stays unusable until');
  expect(text('snapshot')).not.toContain('unusable');
});

it('offers nothing with a tenant of which nothing was made, but not to make it', () => {
  expect(labels('Failed', 'Waiting')).toEqual(['Cancel the job']);
});
