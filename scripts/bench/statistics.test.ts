import { describe, expect, it } from 'vitest';
import { distribution, lowest, median, percentile, ratio, slope } from './statistics.ts';

const oneToHundred = Array.from({ length: 100 }, (_, index) => 100 - index);

describe('percentile', () => {
  it('is a value that at least so many values do not exceed', () => {
    expect(percentile(oneToHundred, 50)).toBe(50);
    expect(percentile(oneToHundred, 99)).toBe(99);
    expect(percentile([1, 2, 3], 50)).toBe(2);
    expect(percentile([1, 2, 3], 99)).toBe(3);
  });

  it('reaches from the smallest to the largest value', () => {
    expect(percentile(oneToHundred, 0)).toBe(1);
    expect(percentile(oneToHundred, 100)).toBe(100);
  });

  it('compares numbers as numbers and leaves what it was given in its order', () => {
    const values = [10, 9, 100];
    expect(percentile(values, 100)).toBe(100);
    expect(values).toEqual([10, 9, 100]);
  });

  it('is no number for no values', () => {
    expect(percentile([], 50)).toBeNaN();
  });

  it('refuses what is not a percentage', () => {
    expect(() => percentile([1], 101)).toThrow(RangeError);
  });
});

describe('median', () => {
  it('is the middle one of an odd number of repeats', () => {
    expect(median([30, 10, 20])).toBe(20);
  });

  it('lies between the two in the middle of an even number', () => {
    expect(median([40, 10, 20, 30])).toBe(25);
  });

  it('is no number for no values', () => {
    expect(median([])).toBeNaN();
  });
});

describe('distribution', () => {
  it('says how many values, their mean and their percentiles', () => {
    expect(distribution(oneToHundred)).toEqual({
      count: 100,
      mean: 50.5,
      p50: 50,
      p90: 90,
      p99: 99,
      max: 100,
    });
  });
});

describe('ratio', () => {
  it('compares with a base', () => {
    expect(ratio(60, 100)).toBe(0.6);
  });

  it('is no number when the base has nothing to compare with', () => {
    expect(ratio(1, 0)).toBeNaN();
  });
});

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
