import { describe, expect, it } from 'vitest';
import { BoundedMap } from './bounded-map.ts';

describe('a bounded map', () => {
  it('forgets what was set longest ago', () => {
    const map = new BoundedMap<number>(2);
    map.set('a', 1);
    map.set('b', 2);
    map.set('a', 3);
    map.set('c', 4);
    expect([map.get('a'), map.get('b'), map.get('c')]).toEqual([3, undefined, 4]);
    expect(map.size).toBe(2);
  });

  it('can be emptied by one or all', () => {
    const map = new BoundedMap<number>(2);
    map.set('a', 1);
    map.set('b', 2);
    map.delete('a');
    expect(map.size).toBe(1);
    map.clear();
    expect(map.size).toBe(0);
  });

  it('forgets the oldest beyond a number of bytes, and does not keep what is larger alone', () => {
    const map = new BoundedMap<number>(10, { bytesOf: (value) => value, maxBytes: 100 });
    const kept = (): string[] => ['a', 'b', 'c', 'd'].filter((key) => map.get(key) !== undefined);
    map.set('a', 40);
    map.set('b', 40);
    map.set('b', 50);
    expect(kept()).toEqual(['a', 'b']);
    map.set('c', 50);
    expect(kept()).toEqual(['b', 'c']);
    map.delete('b');
    map.set('a', 50);
    expect(kept()).toEqual(['a', 'c']);
    map.deleteAll((key) => key === 'a');
    map.set('b', 50);
    expect(kept()).toEqual(['b', 'c']);
    map.set('d', 101);
    expect(map.size).toBe(0);
    map.set('a', 100);
    expect(kept()).toEqual(['a']);
  });

  it('refuses a limit that holds nothing', () => {
    for (const limit of [0, -1, 1.5, Number.NaN]) expect(() => new BoundedMap(limit)).toThrow(RangeError);
  });
});
