import { describe, expect, it } from 'vitest';
import { lowest, slope } from './trend.ts';

describe('how something grows', () => {
  it('is the slope of a line through it', () => {
    expect(slope([0, 1, 2, 3].map((x) => [x, 5 + 2 * x] as const))).toBeCloseTo(2);
    expect(slope([0, 1, 2, 3].map((x) => [x, 7] as const))).toBeCloseTo(0);
    expect(slope([[1, 1]])).toBeNaN();
  });

  it('is seen at the bottom of a saw, wherever it was cut', () => {
    // Grows by 1 in each ten; the last tooth is cut when it is half way up.
    const saw = Array.from({ length: 65 }, (_, x) => [x, (x % 10) * 100 + Math.floor(x / 10)] as const);
    expect(slope(lowest(saw, 10))).toBeCloseTo(0.1);
    expect(lowest(saw, 10)).toHaveLength(7);
  });
});
