import { expect, it } from 'vitest';
import { simpleActions } from './actions.ts';

const labels = (phase: string, ...states: string[]): string[] => {
  const jobs = states.map((state) => ({ kind: 'provision', id: 'one', state, attempts: 1, startedAt: '' }));
  return simpleActions({ phase, jobs }).map(({ label }) => label);
};

it('offers what can be done in the state that a tenant is in', () => {
  const always = ['Snapshot', 'Renew certificates'];
  expect(labels('Ready', 'Succeeded')).toEqual(['Sleep', ...always]);
  expect(labels('Asleep')).toEqual(['Wake', ...always]);
  expect(labels('Failed', 'Retrying')).toEqual(['Sleep', ...always, 'Cancel the job', 'Try again']);
});

it('offers nothing with a tenant of which nothing was made, but not to make it', () => {
  expect(labels('Pending', 'Waiting')).toEqual(['Cancel the job']);
});
