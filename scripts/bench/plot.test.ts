import { describe, expect, it } from 'vitest';
import { barChart, cumulative, linearTicks, lineChart, logarithmicTicks, tickLabel } from './plot.ts';

describe('the ticks of an axis', () => {
  it('are round numbers that enclose what is drawn', () => {
    expect(linearTicks(97)).toEqual([0, 20, 40, 60, 80, 100]);
    expect(linearTicks(100)).toEqual([0, 20, 40, 60, 80, 100]);
    expect(linearTicks(0)).toEqual([0, 1]);
    expect(logarithmicTicks(13, 800)).toEqual([10, 20, 50, 100, 200, 500, 1_000]);
    expect(logarithmicTicks(7, 3e5).at(-1)).toBe(1e6);
    expect(logarithmicTicks(10, 10)).toEqual([10, 20]);
  });

  it('are labelled without digits that say nothing', () => {
    expect([0.30000000000000004, 12_000, 250].map(tickLabel)).toEqual(['0.3', '12,000', '250']);
  });
});

describe('a line chart', () => {
  const chart = { name: 'x', title: 'pods & nodes', x: { label: 'ms' }, y: { label: '%', max: 100 } };

  it('places points between its axes', () => {
    const [plot] = lineChart({ ...chart, lines: [cumulative('direct', [30, 10, 20, 40])] });
    const points = /points="([^"]*)"/.exec(plot?.svg ?? '')?.[1]?.split(' ') ?? [];
    expect(points).toHaveLength(4);
    // 40 of 40 on the right, 100 of 100 at the top.
    expect(points.at(-1)).toBe('688,44');
    expect(points[0]).toBe('224.5,236');
  });

  it('writes text so that it stays text', () => {
    const [plot] = lineChart({ ...chart, lines: [cumulative('<script>', [1])] });
    expect(plot?.svg).toContain('pods &amp; nodes');
    expect(plot?.svg).toContain('&lt;script&gt;');
    expect(plot?.svg).not.toContain('<script>');
  });

  it('is none without points, and leaves out what is no number', () => {
    expect(lineChart({ ...chart, lines: [] })).toEqual([]);
    const [plot] = lineChart({
      ...chart,
      lines: [
        {
          name: 'a',
          points: [
            [1, Number.NaN],
            [2, 3],
          ],
        },
      ],
    });
    expect(plot?.svg).not.toContain('NaN');
  });

  it('stays small, however much was measured', () => {
    const values = Array.from({ length: 200_000 }, (_, index) => index);
    const [plot] = lineChart({ ...chart, lines: [cumulative('a', values)] });
    expect(plot?.svg.length).toBeLessThan(20_000);
    expect(plot?.svg).toContain('688,44"');
  });
});

describe('a bar chart', () => {
  it('has room for the longest name', () => {
    const name = 'kube-controller-manager of a tenant';
    const [plot] = barChart({
      name: 'x',
      title: 'x',
      label: 'MB',
      parts: ['a'],
      bars: [{ name, values: [1] }],
    });
    const x = new RegExp(`x="([\\d.]+)"[^>]*>${name}<`).exec(plot?.svg ?? '')?.[1];
    expect(Number(x)).toBeGreaterThan(6.5 * name.length);
  });

  it('puts the parts of a bar side by side, with their sum', () => {
    const chart = { name: 'x', title: 't', label: 'MB', parts: ['private', 'shared'] };
    const [plot] = barChart({ ...chart, bars: [{ name: 'etcd', values: [30, 70] }] });
    const rects = [
      ...(plot?.svg.matchAll(/<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)" height="28"/g) ?? []),
    ];
    const [first, second] = rects.map(([, x, width]) => [Number(x), Number(width)] as const);
    expect(second?.[0]).toBeCloseTo((first?.[0] ?? 0) + (first?.[1] ?? 0), 0);
    expect((second?.[1] ?? 0) / (first?.[1] ?? 1)).toBeCloseTo(7 / 3, 1);
    expect(plot?.svg).toContain('>100</text>');
  });

  it('is none when all is nothing', () => {
    expect(
      barChart({
        name: 'x',
        title: 't',
        label: 'MB',
        parts: ['a'],
        bars: [{ name: 'b', values: [Number.NaN] }],
      }),
    ).toEqual([]);
  });
});
