import { expect, it } from 'vitest';
import { knownPart, type Shape, unknownFields } from './known-fields.ts';

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
