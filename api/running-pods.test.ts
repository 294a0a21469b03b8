import { expect, it } from 'vitest';
import { hasEnded, hasRunSince } from './running-pods.ts';

const sinceMs = Date.parse('2026-03-01T10:00:00Z');
const pod = (status: object, deletionTimestamp?: string) => ({
  metadata: { name: 'web', ...(deletionTimestamp === undefined ? {} : { deletionTimestamp }) },
  status: { phase: 'Running', startTime: '2026-03-01T10:00:00Z', ...status },
});

it.each<[string, ReturnType<typeof pod>, boolean, boolean]>([
  ['runs', pod({}), true, false],
  ['has come later', pod({ startTime: '2026-03-01T10:00:01Z' }), false, false],
  ['has no node', pod({ phase: 'Pending', startTime: undefined }), false, false],
  ['has a time that is none', pod({ startTime: 7 }), false, false],
  ['has succeeded', pod({ phase: 'Succeeded' }), false, true],
  ['has failed', pod({ phase: 'Failed' }), false, true],
  ['was told to end', pod({}, '2026-03-01T11:00:00Z'), false, true],
])('a pod that %s', (_, each, runs, ended) => {
  expect([hasRunSince(each, sinceMs), hasEnded(each)]).toEqual([runs, ended]);
});
