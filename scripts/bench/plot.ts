import { BarChart, LineChart } from 'echarts/charts';
import { GridComponent, LegendComponent, TitleComponent } from 'echarts/components';
import { type EChartsCoreOption, init, use } from 'echarts/core';
import { SVGRenderer } from 'echarts/renderers';

use([BarChart, LineChart, GridComponent, LegendComponent, TitleComponent, SVGRenderer]);

export interface Plot {
  /** Part of a file name. */
  name: string;
  svg: string;
}

const size = { width: 720, height: 376 };
/** Told apart by readers who see few colours (Okabe and Ito). */
const colours = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#8a6d00', '#56b4e9', '#7f7f7f', '#000000'];
/** Points per line; more cannot be distinguished at this size. */
const maxPoints = 400;

/** A document of its own, with a white background and nothing that moves. */
function draw(name: string, title: string, option: EChartsCoreOption): Plot[] {
  const chart = init(null, null, { renderer: 'svg', ssr: true, ...size });
  try {
    chart.setOption({
      animation: false,
      backgroundColor: '#ffffff',
      color: colours,
      textStyle: { fontFamily: 'system-ui,sans-serif' },
      title: { text: title, left: 60, textStyle: { fontSize: 15 } },
      legend: { bottom: 0, icon: 'rect', itemWidth: 12, itemHeight: 10 },
      // Without a screen letters are measured by a guess: room for wider ones.
      grid: { left: 40, right: 40, top: 44, bottom: 40, outerBoundsMode: 'same' },
      ...option,
    });
    return [{ name, svg: `${chart.renderToSVGString()}\n` }];
  } finally {
    chart.dispose();
  }
}

interface Line {
  name: string;
  points: readonly (readonly [number, number])[];
}

interface LineChartOptions {
  name: string;
  title: string;
  x: { label: string; logarithmic?: boolean };
  y: { label: string; max?: number };
  lines: readonly Line[];
}

/** Empty when there is nothing to draw. Points that are not finite are left out. */
export function lineChart({ name, title, x, y, lines }: LineChartOptions): Plot[] {
  const drawn = lines
    .map((line) => ({ ...line, points: line.points.filter(([a, b]) => isDrawable(a, b, x.logarithmic)) }))
    .filter(({ points }) => points.length > 0);
  if (drawn.length === 0) return [];
  return draw(name, title, {
    xAxis: {
      type: x.logarithmic ? 'log' : 'value',
      ...(x.logarithmic ? {} : { min: 0 }),
      ...axisName(x.label, 24),
      splitLine: { show: false },
    },
    yAxis: {
      type: 'value',
      min: 0,
      ...(y.max === undefined ? {} : { max: y.max }),
      ...axisName(y.label, 44),
    },
    series: drawn.map((line) => ({
      type: 'line',
      name: line.name,
      showSymbol: line.points.length === 1,
      lineStyle: { width: 1.6 },
      data: thinned(line.points).map(([a, b]) => [a, b]),
    })),
  });
}

interface BarChartOptions {
  name: string;
  title: string;
  /** Of the values. */
  label: string;
  /** What the parts of each bar are, from left to right. */
  parts: readonly string[];
  bars: readonly { name: string; values: readonly number[] }[];
}

/** Horizontal bars, each of several parts, with their sum. Empty when there is nothing to draw. */
export function barChart({ name, title, label, parts, bars }: BarChartOptions): Plot[] {
  const drawn = bars.map((bar) => ({
    name: bar.name,
    values: bar.values.map((value) => (Number.isFinite(value) ? value : 0)),
  }));
  const sums = drawn.map(({ values }) => values.reduce((sum, value) => sum + value, 0));
  if (!sums.some((sum) => sum > 0)) return [];
  return draw(name, title, {
    ...(parts.length > 1 ? {} : { legend: { show: false } }),
    xAxis: { type: 'value', ...axisName(label, 24) },
    yAxis: { type: 'category', inverse: true, axisTick: { show: false }, data: drawn.map((bar) => bar.name) },
    series: parts.map((part, index) => ({
      type: 'bar',
      name: part,
      stack: 'all',
      barMaxWidth: 28,
      data: drawn.map(({ values }) => values[index] ?? 0),
      label: {
        show: index === parts.length - 1,
        position: 'right',
        formatter: ({ dataIndex }: { dataIndex: number }) => rounded(sums[dataIndex] ?? 0),
      },
    })),
  });
}

function axisName(name: string, nameGap: number): object {
  return { name, nameLocation: 'middle', nameGap };
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

/** Every so many points, and always the last. */
function thinned<T>(points: readonly T[]): T[] {
  const step = Math.ceil(points.length / maxPoints);
  return points.filter((_, index) => index % step === 0 || index === points.length - 1);
}

/** Without digits that say nothing. */
function rounded(value: number): string {
  if (Math.abs(value) >= 1000) return value.toLocaleString('en-US', { maximumFractionDigits: 0 });
  return String(Number(value.toPrecision(3)));
}
