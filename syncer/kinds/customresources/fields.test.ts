import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { applyMergePatch } from '../../../kube/index.ts';
import { parseShape, payloadPatch, shapeText } from './fields.ts';

type Fields = Record<string, unknown>;

const shapeOf = (payload: Fields) => parseShape(shapeText(payload));

/** What S has after T was `before` and is `now`, when the super cluster has made `there` of the first. */
function carried(before: Fields, now: Fields, there: Fields = before): Fields {
  const patch = payloadPatch(there, now, shapeOf(now), shapeOf(before));
  return patch === undefined ? there : (applyMergePatch(there, patch) as Fields);
}

describe('fields of T', () => {
  it('are carried down when they change, appear and go', () => {
    expect(carried({ spec: { a: 1, b: 2 } }, { spec: { a: 3, c: 4 } })).toEqual({ spec: { a: 3, c: 4 } });
    expect(carried({ spec: { a: 1 }, data: { x: 'y' } }, { spec: { a: 1 } })).toEqual({ spec: { a: 1 } });
    expect(carried({ spec: { a: { b: 1 } } }, { spec: {} })).toEqual({ spec: {} });
  });

  it('go, even if they are called like what every object of the language has', () => {
    expect(carried({ spec: { constructor: 'x', toString: 'y' } }, { spec: {} })).toEqual({ spec: {} });
  });

  it('are put back when somebody changes them in the super cluster', () => {
    const t = { spec: { a: 1, list: [1, 2] } };
    expect(carried(t, t, { spec: { a: 9, list: [2, 1] } })).toEqual(t);
  });

  it('are lists as a whole', () => {
    expect(carried({ list: [{ a: 1, b: 2 }] }, { list: [{ a: 1 }] })).toEqual({ list: [{ a: 1 }] });
  });
});

describe('fields that the super cluster has put beside them', () => {
  it('stay, wherever they are and whatever T does', () => {
    const there = { spec: { a: 1, added: true, deep: { b: 2, added: true } }, extra: {} };
    expect(carried({ spec: { a: 1, deep: { b: 2 } } }, { spec: { a: 2, deep: { b: 2 } } }, there)).toEqual({
      spec: { a: 2, added: true, deep: { b: 2, added: true } },
      extra: {},
    });
    expect(carried({ spec: { a: 1, deep: { b: 2 } } }, { spec: { a: 1 } }, there)).toEqual({
      spec: { a: 1, added: true, deep: { added: true } },
      extra: {},
    });
  });

  it('stay when S no longer remembers what came from T', () => {
    expect(payloadPatch({ a: 1, b: 2 }, { a: 1 }, shapeOf({ a: 1 }), parseShape('garbage'))).toBeUndefined();
  });
});

it('large objects are remembered by their outer fields, and inside of these carried over whole', () => {
  const large = (value: string): Fields => ({
    spec: { map: Object.fromEntries(Array.from({ length: 3_000 }, (_, index) => [`key-${index}`, value])) },
    small: { a: 1 },
  });
  expect(shapeText(large('x')).length).toBeLessThan(16_384);
  expect(carried(large('x'), { ...large('y'), small: {} })).toEqual({ ...large('y'), small: {} });
  const fewer = { spec: { map: { 'key-1': 'x' } }, small: { a: 1 } };
  expect(carried(large('x'), fewer)).toEqual(fewer);
});

const payloads = fc
  .letrec<{ fields: Fields; value: unknown }>((tie) => ({
    fields: fc.dictionary(fc.constantFrom('a', 'b', 'c'), tie('value'), {
      maxKeys: 3,
      noNullPrototype: true,
    }),
    value: fc.oneof(
      { depthSize: 'small' },
      fc.integer({ min: 0, max: 3 }),
      fc.array(fc.nat(2)),
      tie('fields'),
    ),
  }))
  .fields.map((fields) => fields);

it('S becomes T whatever both were, and then nothing more is written', () => {
  fc.assert(
    fc.property(payloads, payloads, (before, now) => {
      const there = carried(before, now);
      expect(there).toEqual(now);
      expect(payloadPatch(there, now, shapeOf(now), shapeOf(now))).toBeUndefined();
    }),
  );
});
