import { expect, it } from 'vitest';
import { HeapWatch } from './heap-watch.ts';

it('judges by the heap and not by resident memory', () => {
  expect(new HeapWatch(1000).look(1, 100, 5000)).toEqual({ isFull: false, wasFull: false });
  expect(new HeapWatch(1000).look(1, 700, 900)).toEqual({ isFull: true, wasFull: true });
});

it('counts what the process has grown by since the last beat to the work that is under way', () => {
  const watch = new HeapWatch(1000);
  watch.look(1, 100, 5000);
  expect(watch.look(1, 100, 5400)).toEqual({ isFull: false, wasFull: false });
  expect(watch.look(1, 100, 5600)).toEqual({ isFull: true, wasFull: false });
  // It goes on, and has freed nothing.
  expect(watch.look(2, 650, 5600)).toEqual({ isFull: true, wasFull: true });
});
