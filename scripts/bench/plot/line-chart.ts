import { colour, document, fixed, frame, legend, type Plot, rule, text } from './svg.ts';
import { linearTicks, logarithmicTicks, tickLabel } from './ticks.ts';

export interface Line {
  name: string;
  points: readonly (readonly [number, number])[];
}

export interface LineChart {
  name: string;
  title: string;
  x: { label: string; logarithmic?: boolean };
  y: { label: string; max?: number };
  lines: readonly Line[];
}

/** More than can be told apart at this size only make the file larger. */
const mostPoints = 400;

/** None when there is nothing to draw. Points without a number are left out. */
export function lineChart({ name, title, x, y, lines }: LineChart): Plot[] {
  const drawn = lines
    .map((line) => ({ ...line, points: line.points.filter(([a, b]) => isDrawable(a, b, x.logarithmic)) }))
    .filter(({ points }) => points.length > 0);
  if (drawn.length === 0) return [];
  const xs = drawn.flatMap(({ points }) => points.map(([a]) => a));
  const ys = drawn.flatMap(({ points }) => points.map(([, b]) => b));
  const [least, most] = [lowest(xs), highest(xs)];
  const xTicks = x.logarithmic ? logarithmicTicks(least, most) : linearTicks(most);
  const yTicks = linearTicks(y.max ?? highest(ys));
  const xAt = scale(xTicks, frame.left, frame.right, x.logarithmic);
  const yAt = scale(yTicks, frame.bottom, frame.top);
  const parts = [
    ...yTicks.map(
      (tick) =>
        rule(frame.left, yAt(tick), frame.right, yAt(tick)) +
        text(frame.left - 8, yAt(tick) + 4, tickLabel(tick), { anchor: 'end' }),
    ),
    ...xTicks.map(
      (tick) =>
        rule(xAt(tick), frame.bottom, xAt(tick), frame.bottom + 5) +
        text(xAt(tick), frame.bottom + 18, tickLabel(tick), { anchor: 'middle' }),
    ),
    text((frame.left + frame.right) / 2, frame.bottom + 32, x.label, { anchor: 'middle' }),
    text(16, (frame.top + frame.bottom) / 2, y.label, { anchor: 'middle', rotate: true }),
    ...drawn.map(({ points }, index) => {
      const path = thinned(points).map(([a, b]) => `${fixed(xAt(a))},${fixed(yAt(b))}`);
      return `<polyline class="line" stroke="${colour(index)}" points="${path.join(' ')}"/>`;
    }),
    legend(drawn.map((line) => line.name)),
  ];
  return [{ name, svg: document(title, parts) }];
}

/** How many percent of the values do not exceed each of them. */
export function cumulative(name: string, values: readonly number[]): Line {
  const sorted = [...values].sort((a, b) => a - b);
  return { name, points: sorted.map((value, index) => [value, (100 * (index + 1)) / sorted.length]) };
}

function isDrawable(x: number, y: number, logarithmic = false): boolean {
  return Number.isFinite(x) && Number.isFinite(y) && (!logarithmic || x > 0);
}

function scale(
  ticks: readonly number[],
  start: number,
  end: number,
  logarithmic = false,
): (value: number) => number {
  const map = logarithmic ? Math.log10 : (value: number) => value;
  const [low, high] = [map(ticks[0] ?? 0), map(ticks.at(-1) ?? 1)];
  return (value) => start + ((map(value) - low) / (high - low)) * (end - start);
}

/** Every so many points, and always the last. */
function thinned<T>(points: readonly T[]): T[] {
  const step = Math.ceil(points.length / mostPoints);
  return points.filter((_, index) => index % step === 0 || index === points.length - 1);
}

// Not by spreading: there may be more values than a call may have arguments.
function lowest(values: readonly number[]): number {
  return values.reduce((least, value) => Math.min(least, value), Number.POSITIVE_INFINITY);
}

function highest(values: readonly number[]): number {
  return values.reduce((most, value) => Math.max(most, value), Number.NEGATIVE_INFINITY);
}
