import { colour, document, fixed, frame, legend, type Plot, rule, text } from './svg.ts';
import { linearTicks, tickLabel } from './ticks.ts';

export interface BarChart {
  name: string;
  title: string;
  /** Of the values. */
  label: string;
  /** What the parts of each bar are, from left to right. */
  parts: readonly string[];
  bars: readonly { name: string; values: readonly number[] }[];
}

/** Of a letter of a name, in px; few fonts are wider. */
const letterWidth = 7;
const gap = 0.25;

/** Lying bars, each of several parts. None when there is nothing to draw. */
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
