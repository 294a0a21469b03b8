export interface Plot {
  /** Part of a file name. */
  name: string;
  svg: string;
}

const width = 720;
const height = 360;
const frame = { left: 70, right: 688, top: 44, bottom: 300 } as const;

/** The legend lists lines in the order in which they are drawn, so that they can be told apart without colour. */
const colours = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#8a6d00', '#56b4e9', '#7f7f7f', '#000000'];

function colour(index: number): string {
  return colours[index % colours.length] ?? '#000000';
}

function escaped(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}

interface TextOptions {
  anchor?: 'start' | 'middle' | 'end';
  size?: number;
  bold?: boolean;
  rotate?: boolean;
}

function text(x: number, y: number, content: string, options: TextOptions = {}): string {
  const { anchor = 'start', size = 12, bold = false, rotate = false } = options;
  const weight = bold ? ' font-weight="bold"' : '';
  const turned = rotate ? ` transform="rotate(-90 ${fixed(x)} ${fixed(y)})"` : '';
  return `<text x="${fixed(x)}" y="${fixed(y)}" text-anchor="${anchor}" font-size="${size}"${weight}${turned}>${escaped(content)}</text>`;
}

function rule(x1: number, y1: number, x2: number, y2: number): string {
  return `<line class="rule" x1="${fixed(x1)}" y1="${fixed(y1)}" x2="${fixed(x2)}" y2="${fixed(y2)}"/>`;
}

/** Names with their colours, in rows below the plot. */
function legend(names: readonly string[]): string {
  let x: number = frame.left;
  let y = 346;
  return names
    .map((name, index) => {
      const needed = 28 + name.length * 7;
      if (x + needed > width) {
        x = frame.left;
        y += 16;
      }
      const entry = `<rect x="${fixed(x)}" y="${y - 9}" width="12" height="10" fill="${colour(index)}"/>${text(x + 17, y, name)}`;
      x += needed;
      return entry;
    })
    .join('\n');
}

/** A whole document with a white background. */
function document(title: string, parts: readonly string[]): string {
  const style =
    'text{font-family:system-ui,sans-serif;fill:#24292f}.rule{stroke:#d0d7de}.line{fill:none;stroke-width:1.6}.page{fill:#ffffff}';
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height + 16}" width="${width}" height="${height + 16}" role="img">
<title>${escaped(title)}</title>
<style>${style}</style>
<rect class="page" width="100%" height="100%"/>
${text(frame.left, 24, title, { size: 15, bold: true })}
${parts.filter((part) => part !== '').join('\n')}
</svg>
`;
}

function fixed(value: number): string {
  return String(Math.round(value * 10) / 10);
}

interface Line {
  name: string;
  points: readonly (readonly [number, number])[];
}

interface LineChart {
  name: string;
  title: string;
  x: { label: string; logarithmic?: boolean };
  y: { label: string; max?: number };
  lines: readonly Line[];
}

/** Points per line; more cannot be distinguished at this size. */
const mostPoints = 400;

/** Empty when there is nothing to draw. Points that are not finite are left out. */
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

/** How many of something there were, from 1 on, at each of these times; in seconds. */
export function countedOverTime(name: string, timesMs: readonly number[]): Line {
  return { name, points: timesMs.toSorted((a, b) => a - b).map((ms, index) => [ms / 1000, index + 1]) };
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

// Without spreading, as there may be more values than a call can have arguments.
function lowest(values: readonly number[]): number {
  return values.reduce((least, value) => Math.min(least, value), Number.POSITIVE_INFINITY);
}

function highest(values: readonly number[]): number {
  return values.reduce((most, value) => Math.max(most, value), Number.NEGATIVE_INFINITY);
}

interface BarChart {
  name: string;
  title: string;
  /** Of the values. */
  label: string;
  /** What the parts of each bar are, from left to right. */
  parts: readonly string[];
  bars: readonly { name: string; values: readonly number[] }[];
}

/** Assumed width of a letter, in px. */
const letterWidth = 7;
const gap = 0.25;

/** Horizontal bars, each of several parts. Empty when there is nothing to draw. */
export function barChart({ name, title, label, parts, bars }: BarChart): Plot[] {
  const drawn = bars.map((bar) => ({
    ...bar,
    values: bar.values.map((value) => (Number.isFinite(value) ? value : 0)),
  }));
  const totals = drawn.map(({ values }) => values.reduce((sum, value) => sum + value, 0));
  const most = Math.max(0, ...totals);
  if (most === 0) return [];
  const ticks = linearTicks(most);
  const longest = Math.max(...drawn.map((bar) => bar.name.length));
  const left = Math.max(frame.left, 16 + longest * letterWidth);
  const xAt = (value: number): number => left + (value / (ticks.at(-1) ?? 1)) * (frame.right - left);
  const slot = (frame.bottom - frame.top) / drawn.length;
  const thickness = Math.min(28, slot * (1 - gap));
  const rows = drawn.map(({ name: barName, values }, row) => {
    const y = frame.top + slot * (row + 0.5) - thickness / 2;
    let from = 0;
    const rects = values.map((value, part) => {
      const x = xAt(from);
      from += value;
      return `<rect x="${fixed(x)}" y="${fixed(y)}" width="${fixed(xAt(from) - x)}" height="${fixed(thickness)}" fill="${colour(part)}"/>`;
    });
    const middle = y + thickness / 2 + 4;
    const total = text(xAt(from) + 5, middle, tickLabel(from), { size: 11 });
    return text(left - 8, middle, barName, { anchor: 'end' }) + rects.join('') + total;
  });
  const axis = ticks.map(
    (tick) =>
      rule(xAt(tick), frame.top, xAt(tick), frame.bottom) +
      text(xAt(tick), frame.bottom + 18, tickLabel(tick), { anchor: 'middle' }),
  );
  const labels = text((left + frame.right) / 2, frame.bottom + 32, label, { anchor: 'middle' });
  return [{ name, svg: document(title, [...axis, ...rows, labels, parts.length > 1 ? legend(parts) : '']) }];
}

/** Round numbers from 0 (or below `from`) to at least `to`, about `count` of them. */
export function linearTicks(to: number, count = 5): number[] {
  if (!(to > 0)) return [0, 1];
  const rough = to / count;
  const magnitude = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 5, 10].find((each) => each * magnitude >= rough) ?? 10) * magnitude;
  return Array.from({ length: Math.ceil(to / step - 1e-9) + 1 }, (_, index) => index * step);
}

/** Powers of ten, with 2 and 5 times each where there are few, that enclose both. */
export function logarithmicTicks(from: number, to: number): number[] {
  const first = Math.floor(Math.log10(from) + 1e-9);
  const last = Math.max(first + 1, Math.ceil(Math.log10(to) - 1e-9));
  const factors = last - first <= 3 ? [1, 2, 5] : [1];
  const all = Array.from({ length: last - first }, (_, index) =>
    factors.map((factor) => factor * 10 ** (first + index)),
  ).flat();
  const ticks = [...all, 10 ** last];
  const low = ticks.findLastIndex((tick) => tick <= from * (1 + 1e-9));
  const high = ticks.findIndex((tick) => tick >= to * (1 - 1e-9));
  return ticks.slice(Math.max(0, low), high === -1 ? ticks.length : Math.max(high, low + 1) + 1);
}

export function tickLabel(value: number): string {
  if (Math.abs(value) >= 1000) return value.toLocaleString('en-US', { maximumFractionDigits: 0 });
  return String(Number(value.toPrecision(3)));
}
