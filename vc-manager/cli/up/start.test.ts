import { expect, it } from 'vitest';
import { kubectlOrNone } from './start.ts';

it('a kubectl that cannot be had ends nothing: it is told', async () => {
  const notes: string[] = [];
  const progress = { note: (message: string) => void notes.push(message) };
  const { signal } = new AbortController();
  expect(await kubectlOrNone(Promise.resolve('/cache/kubectl'), progress, signal)).toBe('/cache/kubectl');
  expect(await kubectlOrNone(Promise.reject(new Error('no Go')), progress, signal)).toBeUndefined();
  expect(notes).toEqual([expect.stringMatching(/^kubectl is not there: .*no Go/)]);
});

it('one that is interrupted ends with the rest', async () => {
  const progress = { note: () => undefined };
  const aborted = AbortSignal.abort(new Error('Ctrl-C'));
  await expect(kubectlOrNone(Promise.reject(new Error('cut')), progress, aborted)).rejects.toThrow('Ctrl-C');
});
