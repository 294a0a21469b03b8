import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { applyMergePatch, mergePatch } from './merge-patch.ts';

const scalar = fc.oneof(fc.integer(), fc.string(), fc.boolean());
const key = fc.constantFrom('a', 'b', 'c', 'd', '__proto__');
/** JSON objects without null, as a merge patch cannot say "set to null". */
const json = fc.letrec<{ value: unknown; object: Record<string, unknown> }>((tie) => ({
  value: fc.oneof({ depthSize: 'small' }, scalar, fc.array(scalar, { maxLength: 3 }), tie('object')),
  object: fc.dictionary(key, tie('value'), { maxKeys: 4, noNullPrototype: true }),
})).object;

describe('mergePatch', () => {
  it('is undefined for equal objects', () => {
    const object = { a: [1, { b: 2 }], c: { d: 'e' } };
    expect(mergePatch(object, structuredClone(object))).toBeUndefined();
  });

  it('names only what differs, with null for what is gone', () => {
    const from = { kept: 1, gone: 2, nested: { same: 1, old: 2 }, list: [1, 2] };
    const to = { kept: 1, nested: { same: 1, fresh: 3 }, list: [2] };
    expect(mergePatch(from, to)).toEqual({ gone: null, nested: { old: null, fresh: 3 }, list: [2] });
  });

  it('turns any object into any other', () => {
    fc.assert(
      fc.property(json, json, (from, to) => {
        const patch = mergePatch(from, to);
        expect(JSON.stringify(sorted(patch === undefined ? from : applyMergePatch(from, patch)))).toBe(
          JSON.stringify(sorted(to)),
        );
      }),
    );
  });

  it('treats null like an absent field', () => {
    expect(mergePatch({ a: null }, {})).toBeUndefined();
    expect(mergePatch({}, { a: null })).toBeUndefined();
    expect(mergePatch({ a: 1 }, { a: null })).toEqual({ a: null });
  });

  it('carries a ConfigMap key called __proto__ without touching prototypes', () => {
    const to = JSON.parse('{"data":{"__proto__":"x"}}');
    const patch = mergePatch({ data: {} }, to);
    expect(JSON.stringify(patch)).toBe('{"data":{"__proto__":"x"}}');
    expect(JSON.stringify(applyMergePatch({ data: {} }, patch))).toBe('{"data":{"__proto__":"x"}}');
    expect(Object.getPrototypeOf((patch as { data: object }).data)).toBe(Object.prototype);
  });
});

describe('applyMergePatch', () => {
  it('does not change its arguments', () => {
    const target = Object.freeze({ a: Object.freeze({ b: 1 }) });
    expect(applyMergePatch(target, { a: { b: null, c: 2 } })).toEqual({ a: { c: 2 } });
    expect(target).toEqual({ a: { b: 1 } });
  });

  it('replaces what is not an object', () => {
    expect(applyMergePatch({ a: [1] }, { a: { b: 1 } })).toEqual({ a: { b: 1 } });
  });
});

function sorted(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.entries(value)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, item]) => [name, sorted(item)]);
}
