import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { StringPool } from './string-pool.ts';

describe('a string pool', () => {
  it('changes nothing that can be seen', () => {
    const pool = new StringPool(4);
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = JSON.stringify(value);
        expect(JSON.stringify(pool.share(JSON.parse(text)))).toBe(text);
      }),
    );
  });

  it('takes keys of any name', () => {
    const hostile = '{"__proto__":"twelve letters","constructor":{"__proto__":{"a":"twelve letters"}}}';
    const object = new StringPool().share(JSON.parse(hostile) as object);
    expect(JSON.stringify(object)).toBe(hostile);
    expect(Object.getPrototypeOf(object)).toBe(Object.prototype);
  });

  it('remembers no more than twice its capacity, and what was seen again for longer', () => {
    const pool = new StringPool(10);
    pool.text('seen twice and more');
    pool.text('seen twice and more');
    for (let n = 0; n < 1_000; n++) pool.text(`seen only once: ${n}`);
    expect(pool.size).toBeLessThanOrEqual(20);
    // Without it, the text would be the newest of those that were seen once.
    const before = pool.size;
    pool.text('seen twice and more');
    expect(pool.size).toBe(before);
    expect(pool.text('short')).toBe('short');
    pool.text('x'.repeat(1_000));
    expect(pool.size).toBe(before);
  });
});
