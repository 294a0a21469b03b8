/** Times of many pods in a few figures, in the unit of what was given. */
export interface Distribution {
  count: number;
  mean: number;
  p50: number;
  p90: number;
  p99: number;
  max: number;
}

/**
 * The smallest value that at least `percent` of all values do not exceed (nearest rank): always one
 * that was measured. NaN when there are no values.
 */
export function percentile(values: readonly number[], percent: number): number {
  return percentileOfSorted(sorted(values), percent);
}

/** The middle value, or the mean of the two in the middle. NaN when there are no values. */
export function median(values: readonly number[]): number {
  const ordered = sorted(values);
  const middle = ordered.length / 2;
  const upper = ordered[Math.floor(middle)] ?? Number.NaN;
  if (!Number.isInteger(middle)) return upper;
  return ((ordered[middle - 1] ?? Number.NaN) + upper) / 2;
}

export function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

export function mean(values: readonly number[]): number {
  return sum(values) / values.length;
}

export function distribution(values: readonly number[]): Distribution {
  const ordered = sorted(values);
  return {
    count: ordered.length,
    mean: mean(ordered),
    p50: percentileOfSorted(ordered, 50),
    p90: percentileOfSorted(ordered, 90),
    p99: percentileOfSorted(ordered, 99),
    max: ordered.at(-1) ?? Number.NaN,
  };
}

/** NaN, never infinity, when there is nothing to compare with. */
export function ratio(value: number, base: number): number {
  return base === 0 ? Number.NaN : value / base;
}

function percentileOfSorted(ordered: readonly number[], percent: number): number {
  if (!(percent >= 0 && percent <= 100)) throw new RangeError(`${percent} is not a percentage`);
  const rank = Math.max(1, Math.ceil((percent / 100) * ordered.length));
  return ordered[rank - 1] ?? Number.NaN;
}

function sorted(values: readonly number[]): number[] {
  return [...values].sort((a, b) => a - b);
}

/** How much a value grows per unit of x: the slope of the line of least squares. NaN with fewer than two points. */
export function slope(points: readonly (readonly [x: number, y: number])[]): number {
  const meanX = mean(points.map(([x]) => x));
  const meanY = mean(points.map(([, y]) => y));
  return sum(points.map(([x, y]) => (x - meanX) * (y - meanY))) / sum(points.map(([x]) => (x - meanX) ** 2));
}

/**
 * The lowest point of each stretch of x: what is still there when garbage has been collected. A heap goes
 * up and down, so that a line through all of its points says little about growth.
 */
export function lowest(
  points: readonly (readonly [x: number, y: number])[],
  stretch: number,
): (readonly [x: number, y: number])[] {
  return [...Map.groupBy(points, ([x]) => Math.floor(x / stretch)).values()].map((some) =>
    some.reduce((least, each) => (each[1] < least[1] ? each : least)),
  );
}
