import { expect, it } from 'vitest';
import { knownPart, type Shape, unknownFields, unknownRefusal } from './known-fields.ts';

const shape: Shape = { name: true, peers: [{ selector: { labels: true } }] };
const value = {
  name: 'a',
  colour: 'red',
  peers: [{ selector: { labels: { any: 'x' }, depth: 1 } }, { selector: null, weight: 2 }, 7],
};

it('the known part of a value is what its shape has, and lists keep their length', () => {
  expect(knownPart(value, shape)).toEqual({
    name: 'a',
    peers: [{ selector: { labels: { any: 'x' } } }, { selector: null }, 7],
  });
  expect(knownPart({ peers: 'none' }, shape)).toEqual({ peers: 'none' });
});

it('the rest is named by its path', () => {
  expect(unknownFields(value, shape)).toEqual([
    'spec.colour',
    'spec.peers[].selector.depth',
    'spec.peers[].weight',
  ]);
  expect(unknownFields({ name: { whatever: 1 } }, shape)).toEqual([]);
});

it('is refused by name, but for nulls, and however many and long the names are, in few words', () => {
  expect(unknownRefusal(value, shape)).toEqual({
    type: 'Warning',
    reason: 'UnknownField',
    message:
      'this cluster does not take the field spec.colour, spec.peers[].selector.depth, spec.peers[].weight: Skerry does not know it, so it is not sent; leave it out',
  });
  expect(unknownRefusal({ name: 'a', colour: null }, shape)).toBeUndefined();
  const many = Object.fromEntries(Array.from({ length: 1_000 }, (_, i) => [`${i}${'x'.repeat(10_000)}`, 1]));
  expect(unknownRefusal(many, shape)?.message.length).toBeLessThan(1_500);
  expect(
    unknownRefusal({ data: {}, metadata: {}, extra: 1 }, { data: true, metadata: true }, '')?.message,
  ).toContain('the field extra:');
  const inherited = unknownFields(JSON.parse('{"constructor":1,"__proto__":{"a":1}}'), shape);
  expect(inherited).toEqual(['spec.constructor', 'spec.__proto__']);
});
