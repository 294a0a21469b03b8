import { describe, expect, it } from 'vitest';
import { barChart, cumulative, lineChart } from './plot.ts';

const chart = { name: 'x', title: 'pods & nodes', x: { label: 'ms' }, y: { label: '%', max: 100 } };

/** The corners of the lines of a plot, from left to right. */
function corners(svg = ''): number[][] {
  const paths = [...svg.matchAll(/<path d="M([^"Z]*)" fill="none"[^>]* stroke="#0072b2"/g)];
  return paths.map(([, path = '']) => path.split(/[ L]/).map(Number));
}

describe('a line chart', () => {
  it('draws each line through its points', () => {
    const [plot] = lineChart({ ...chart, lines: [cumulative('direct', [30, 10, 20, 40])] });
    const [line = []] = corners(plot?.svg);
    expect(line).toHaveLength(8);
    const [xs, ys] = [0, 1].map((axis) => line.filter((_, index) => index % 2 === axis)) as [
      number[],
      number[],
    ];
    expect(xs).toEqual([...xs].sort((a, b) => a - b));
    // Upwards, in equal steps.
    const steps = ys.slice(1).map((y, index) => (ys[index] ?? 0) - y);
    expect(Math.min(...steps)).toBeGreaterThan(0);
    expect(Math.max(...steps) - Math.min(...steps)).toBeLessThan(0.2);
  });

  it('writes text so that it stays text', () => {
    const [plot] = lineChart({ ...chart, lines: [cumulative('<script>', [1])] });
    expect(plot?.svg).toContain('pods &amp; nodes');
    expect(plot?.svg).toContain('&lt;script&gt;');
    expect(plot?.svg).not.toContain('<script>');
  });

  it('is none without points, and leaves out what is no number', () => {
    expect(lineChart({ ...chart, lines: [] })).toEqual([]);
    const points: [number, number][] = [
      [0, 1],
      [1, Number.NaN],
      [0, 2],
    ];
    const logarithmic = { ...chart, x: { label: 'ms', logarithmic: true } };
    expect(lineChart({ ...logarithmic, lines: [{ name: 'a', points }] })).toEqual([]);
    expect(lineChart({ ...chart, lines: [{ name: 'a', points }] })[0]?.svg).not.toContain('NaN');
  });

  it('stays small, however much was measured', () => {
    const values = Array.from({ length: 200_000 }, (_, index) => index);
    const [plot] = lineChart({ ...chart, lines: [cumulative('a', values)] });
    expect(plot?.svg.length).toBeLessThan(20_000);
  });
});

describe('a bar chart', () => {
  it('names each bar and says the sum of its parts', () => {
    const bars = [
      { name: 'kube-controller-manager of a tenant', values: [1_000, 234.4] },
      { name: 'etcd', values: [30, 70] },
    ];
    const [plot] = barChart({ name: 'x', title: 't', label: 'MB', parts: ['private', 'shared'], bars });
    for (const shown of ['kube-controller-manager of a tenant', 'etcd', 'private', 'shared', '1,234', '100'])
      expect(plot?.svg).toContain(`>${shown}</text>`);
  });

  it('is none when all is nothing', () => {
    const bars = [{ name: 'b', values: [Number.NaN] }];
    expect(barChart({ name: 'x', title: 't', label: 'MB', parts: ['a'], bars })).toEqual([]);
  });
});
