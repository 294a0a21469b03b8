import { describe, expect, it } from 'vitest';
import { annotationKeys } from '../../api/labels.ts';
import { Expectations } from './expectations.ts';

function memory(): { memory: Expectations; pass: (ms: number) => void } {
  let nowMs = 0;
  return { memory: new Expectations(() => nowMs), pass: (ms) => (nowMs += ms) };
}

const shown = (resourceVersion: string): { metadata: { resourceVersion: string } } => ({
  metadata: { resourceVersion },
});

describe('the memory of our own writes', () => {
  it('knows what was created, and from which original, until it is shown or its time is over', () => {
    const { memory: it, pass } = memory();
    it.expectCreated('a', { metadata: { uid: 's1', annotations: { [annotationKeys.uid]: 't1' } } });
    it.expectCreated('b', { metadata: { uid: 's2' } });
    expect([it.createdUid('a'), it.createdFor('a')]).toEqual(['s1', 't1']);
    it.forgetCreated('b');
    expect(it.createdUid('b')).toBeUndefined();
    pass(30_000);
    expect(it.createdUid('a')).toBeUndefined();
    expect(it.size).toBe(0);
  });

  it('knows that the cache is behind, and compares versions as numbers', () => {
    const { memory: it } = memory();
    it.expectVersion('a', '1000');
    expect(it.isBehind('a', shown('999'))).toBe(true);
    expect(it.isBehind('a', shown('1000'))).toBe(false);
    expect(it.size).toBe(0);
    it.expectVersion('a', '1000');
    expect(it.isBehind('a', undefined)).toBe(false);
    it.expectVersion('a', 'not a number');
    expect(it.isBehind('a', shown('1'))).toBe(false);
  });

  it('knows that the cache still shows the version that a write of unknown result was made on', () => {
    const { memory: it } = memory();
    it.expectReplaced('a', '1000');
    expect(it.isBehind('a', shown('1000'))).toBe(true);
    expect(it.isBehind('a', shown('999'))).toBe(true);
    expect(it.isBehind('a', shown('1001'))).toBe(false);
    expect(it.size).toBe(0);
  });

  it('does not wait for a watch that has lost its place', () => {
    const { memory: it, pass } = memory();
    it.expectVersion('a', '1000');
    pass(5_000);
    expect(it.isBehind('a', shown('999'))).toBe(false);
  });

  it('keeps nothing for longer than its time', () => {
    const { memory: it, pass } = memory();
    it.expectCreated('a', { metadata: { uid: 's1' } });
    it.expectVersion('a', '5');
    pass(29_999);
    it.prune();
    expect(it.size).toBe(1);
    pass(1);
    it.prune();
    expect(it.size).toBe(0);
  });
});
