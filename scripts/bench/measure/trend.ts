/** How much a value grows per unit of x: the slope of the line of least squares. NaN with fewer than two points. */
export function slope(points: readonly (readonly [x: number, y: number])[]): number {
  const count = points.length;
  const meanX = points.reduce((sum, [x]) => sum + x, 0) / count;
  const meanY = points.reduce((sum, [, y]) => sum + y, 0) / count;
  const spread = points.reduce((sum, [x]) => sum + (x - meanX) ** 2, 0);
  return points.reduce((sum, [x, y]) => sum + (x - meanX) * (y - meanY), 0) / spread;
}

/**
 * The lowest point of each stretch of x: what is still there when garbage has been collected. A heap goes
 * up and down like a saw, and a line through all of it tells more about where the saw was cut than about growth.
 */
export function lowest(
  points: readonly (readonly [x: number, y: number])[],
  stretch: number,
): (readonly [x: number, y: number])[] {
  return [...Map.groupBy(points, ([x]) => Math.floor(x / stretch)).values()].map((some) =>
    some.reduce((least, each) => (each[1] < least[1] ? each : least)),
  );
}
