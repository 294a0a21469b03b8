import type { Cell, Table } from '../measure/markdown.ts';
import { median, ratio } from '../measure/statistics.ts';
import type { Figure } from '../scenario.ts';

/** What is read of a result file. */
export interface ComparedRun {
  machine: { at: string; cpu: string; cores: number; commit?: string };
  scenarios: Record<string, { settings: Record<string, unknown>; figures: Figure[] }>;
}

export type Verdict = 'worse' | 'better' | '';

/** Less than that is noise, however often it was measured. */
const leastChange = 0.05;
/** Of a figure that was measured once, nobody knows how far it strays. */
const unknownNoise = 0.25;

/** Both runs side by side; what changed by more than the noise of its repeats is marked. */
export function compareRuns(a: ComparedRun, b: ComparedRun): Table[] {
  return Object.entries(a.scenarios).flatMap(([name, before]) => {
    const after = b.scenarios[name];
    if (after === undefined) return [];
    const rows = before.figures.flatMap((figure): Cell[][] => {
      const other = after.figures.find((each) => each.name === figure.name);
      return other === undefined ? [] : [row(figure, other)];
    });
    if (rows.length === 0) return [];
    const columns = ['figure', 'A', 'B', 'B / A', 'noise, ±%', ''];
    return [{ title: name, columns, rows, notes: settingNotes(before.settings, after.settings) }];
  });
}

/** Worse or better only if the medians are further apart than the repeats stray, and no repeats overlap. */
export function verdict(a: Figure, b: Figure): Verdict {
  const [before, after] = [median(a.values), median(b.values)];
  const change = after - before;
  if (!(Math.abs(change) > noise(a, b) * Math.abs(before))) return '';
  const apart =
    change > 0
      ? Math.min(...b.values) > Math.max(...a.values)
      : Math.max(...b.values) < Math.min(...a.values);
  if (!apart) return '';
  return change > 0 === (a.better === 'more') ? 'better' : 'worse';
}

function row(a: Figure, b: Figure): Cell[] {
  const [before, after] = [median(a.values), median(b.values)];
  const found = verdict(a, b);
  return [
    `${a.name}, ${a.unit}`,
    before,
    after,
    ratio(after, before),
    100 * noise(a, b),
    found === 'worse' ? '**worse**' : found,
  ];
}

/** How far repeats of the same run are apart, as a part of their median. */
function noise(a: Figure, b: Figure): number {
  const spread = ({ values }: Figure): number =>
    values.length < 2
      ? unknownNoise
      : ratio(Math.max(...values) - Math.min(...values), 2 * Math.abs(median(values)));
  return Math.max(leastChange, ...[spread(a), spread(b)].filter(Number.isFinite));
}

function settingNotes(a: Record<string, unknown>, b: Record<string, unknown>): string[] {
  const different = [...new Set([...Object.keys(a), ...Object.keys(b)])].filter(
    (key) => JSON.stringify(a[key]) !== JSON.stringify(b[key]),
  );
  if (different.length === 0) return [];
  const told = different.map((key) => `${key} ${JSON.stringify(a[key])} and ${JSON.stringify(b[key])}`);
  return [`Not the same work: ${told.join(', ')}.`];
}
