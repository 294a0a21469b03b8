import { describe, expect, it } from 'vitest';
import { InFlightLimit } from './in-flight-limit.ts';

describe('calls to one server', () => {
  const near = 4;
  const max = 16;
  const signal = new AbortController().signal;
  let nowMs = 0;
  const make = (): InFlightLimit => new InFlightLimit({ near, max, now: () => nowMs });
  /** One call that takes so long to be answered. */
  const answered = (slots: InFlightLimit, latencyMs: number): void => {
    expect(slots.tryTake()).toBe(true);
    slots.giveBack(latencyMs);
  };

  it('are as many at once as the server is far away, within bounds', () => {
    const limitAt = (latencyMs: number): number => {
      const slots = make();
      answered(slots, latencyMs);
      return slots.limit;
    };
    expect(make().limit).toBe(near);
    expect([2, 15, 30, 45, 60, 500].map(limitAt)).toEqual([4, 4, 8, 12, 16, 16]);
  });

  it('follow the shortest latency of late: not a server that has much to do, nor one that does not answer', () => {
    const slots = make();
    answered(slots, 300);
    answered(slots, 3);
    answered(slots, 300);
    expect(slots.limit).toBe(near);
    nowMs += 25_000;
    answered(slots, 60);
    expect(slots.limit).toBe(16);
    nowMs += 12_000;
    answered(slots, 30);
    expect(slots.limit).toBe(8);
    expect(slots.tryTake()).toBe(true);
    slots.giveBack(undefined);
    expect(slots.limit).toBe(8);
  });

  it('wait for their turn in the order in which they came, and no longer than they may', async () => {
    const slots = make();
    for (let n = 0; n < near; n += 1) expect(slots.tryTake()).toBe(true);
    const order: string[] = [];
    const ending = new AbortController();
    const first = slots.take(signal).then(() => order.push('first'));
    const given = slots.take(ending.signal);
    const last = slots.take(signal).then(() => order.push('last'));
    expect(slots.tryTake()).toBe(false);
    ending.abort(new Error('given up'));
    await expect(given).rejects.toThrow('given up');
    await expect(slots.take(ending.signal)).rejects.toThrow('given up');
    slots.giveBack(2);
    await first;
    expect(order).toEqual(['first']);
    slots.giveBack(2);
    await last;
    expect(order).toEqual(['first', 'last']);
    for (let n = 0; n < near; n += 1) slots.giveBack(2);
    for (let n = 0; n < near; n += 1) expect(slots.tryTake()).toBe(true);
    expect(slots.tryTake()).toBe(false);
  });
});
