import { describe, expect, it } from 'vitest';
import { payloadSummary } from './payload.ts';

const summaryOf = (data: Record<string, string>) =>
  payloadSummary({ metadata: { name: 'x' }, data }, ['data']);

describe('the summary of a payload', () => {
  it('has the keys of its data, and of very many the first alone', () => {
    expect(summaryOf({ B: '1', A: '2' }).keys).toEqual(['B', 'A']);
    const many = Object.fromEntries(Array.from({ length: 100_000 }, (_, at) => [`KEY_${100_000 + at}`, 'x']));
    const { keys, digest } = summaryOf(many);
    expect(keys.slice(0, 2)).toEqual(['KEY_100000', 'KEY_100001']);
    expect(keys).toHaveLength(1_560);
    expect(summaryOf({ ...many, KEY_199999: 'y' }).digest).not.toBe(digest);
  });

  it('has none of what is no data', () => {
    for (const data of [undefined, null, 'text', ['a']])
      expect(payloadSummary({ metadata: { name: 'x' }, data }, ['data']).keys).toEqual([]);
  });
});
