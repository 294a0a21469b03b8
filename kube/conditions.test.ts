import { describe, expect, it } from 'vitest';
import { findCondition, setCondition } from './conditions.ts';

const wanted = { type: 'Ready', status: 'True', reason: 'AllGood', message: 'works' } as const;
const noon = new Date('2030-01-01T12:00:00.123Z');
const later = new Date('2030-01-01T13:00:00Z');

describe('setCondition', () => {
  it('adds a condition with a time in whole seconds', () => {
    expect(setCondition(undefined, wanted, noon)).toEqual([
      { ...wanted, lastTransitionTime: '2030-01-01T12:00:00Z' },
    ]);
  });

  it('keeps lastTransitionTime while the status stays', () => {
    const [first] = setCondition(undefined, wanted, noon);
    const [second] = setCondition(first && [first], { ...wanted, message: 'still works' }, later);
    expect(second).toMatchObject({ message: 'still works', lastTransitionTime: '2030-01-01T12:00:00Z' });
  });

  it('moves lastTransitionTime when the status changes', () => {
    const conditions = setCondition(
      setCondition(undefined, wanted, noon),
      { ...wanted, status: 'False' },
      later,
    );
    expect(findCondition(conditions, 'Ready')?.lastTransitionTime).toBe('2030-01-01T13:00:00Z');
  });

  it('leaves the conditions of others as they are, in their order', () => {
    const others = [
      { type: 'A', status: 'True' as const, extra: 1 },
      { type: 'Ready', status: 'False' as const },
      { type: 'B', status: 'Unknown' as const },
    ];
    const conditions = setCondition(others, wanted, noon);
    expect(conditions.map(({ type }) => type)).toEqual(['A', 'Ready', 'B']);
    expect(conditions[0]).toBe(others[0]);
    expect(others[1]?.status).toBe('False');
  });
});
