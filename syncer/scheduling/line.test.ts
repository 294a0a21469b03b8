import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Line } from './line.ts';

describe('Line', () => {
  it('hands out what is in it, in the order in which it came, whatever has left from the middle', () => {
    const step = fc.oneof(
      fc.record({ do: fc.constant('add' as const), item: fc.nat(9) }),
      fc.record({ do: fc.constant('remove' as const), item: fc.nat(9) }),
      fc.record({ do: fc.constant('shift' as const) }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60, size: 'max' }), (steps) => {
        const line = new Line<number>();
        let model: number[] = [];
        for (const each of steps) {
          if (each.do === 'add') {
            line.add(each.item);
            if (!model.includes(each.item)) model.push(each.item);
          } else if (each.do === 'remove') {
            line.remove(each.item);
            model = model.filter((item) => item !== each.item);
          } else {
            expect(line.shift()).toBe(model.shift());
          }
          expect(line.size).toBe(model.length);
        }
        while (model.length > 0) expect(line.shift()).toBe(model.shift());
        expect(line.shift()).toBeUndefined();
      }),
    );
  });
});
