import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type HeapNode, IndexedHeap } from './heap.ts';

interface Numbered extends HeapNode {
  value: number;
}

describe('IndexedHeap', () => {
  it('has the least element on top whatever is pushed, changed and removed', () => {
    const operation = fc.record({
      kind: fc.constantFrom('push' as const, 'push' as const, 'change' as const, 'remove' as const),
      pick: fc.nat(),
      value: fc.integer({ min: 0, max: 50 }),
    });
    fc.assert(
      fc.property(fc.array(operation, { maxLength: 200 }), (operations) => {
        const heap = new IndexedHeap<Numbered>((a, b) => a.value < b.value);
        const inside: Numbered[] = [];
        for (const { kind, pick, value } of operations) {
          const node = inside[pick % Math.max(1, inside.length)];
          if (kind === 'push' || node === undefined) {
            const pushed = { value, heapIndex: -1 };
            inside.push(pushed);
            heap.push(pushed);
          } else if (kind === 'change') {
            node.value = value;
            heap.update(node);
          } else {
            heap.remove(node);
            inside.splice(inside.indexOf(node), 1);
            expect(node.heapIndex).toBe(-1);
          }
          expect(heap.size).toBe(inside.length);
          const least = inside.length === 0 ? undefined : Math.min(...inside.map((one) => one.value));
          expect(heap.first()?.value).toBe(least);
        }
      }),
    );
  });
});
