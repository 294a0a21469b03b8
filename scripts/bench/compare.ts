import { readFile } from 'node:fs/promises';
import { messageOf } from '../../kube/index.ts';
import { type Cell, renderTable, type Table } from './markdown.ts';
import { ArgumentError } from './options.ts';
import type { Figure } from './scenario.ts';
import { median, ratio } from './statistics.ts';

const compareUsage = `Usage: npm run bench -- compare A.json B.json

Sets the figures of two runs side by side. "worse" and "better" mark what changed by more than the repeats of
either run stray, and by more than 5 %; a figure that was measured once has to change by 25 %.
`;

/** `compare A B`: tables on `output`. Throws ArgumentError for files that are not results of a run. */
export async function runCompare(
  argv: readonly string[],
  output: { write(text: string): unknown },
): Promise<void> {
  if (argv.includes('--help') || argv.includes('-h')) {
    output.write(compareUsage);
    return;
  }
  const [first, second] = argv;
  if (first === undefined || second === undefined || argv.length > 2)
    throw new ArgumentError('compare takes two files: npm run bench -- compare A.json B.json', 2);
  const [a, b] = [await readRun(first), await readRun(second)];
  const tables = compareRuns(a, b);
  if (tables.length === 0)
    throw new ArgumentError(
      `${first} and ${second} have no figure in common: did they run the same scenarios?`,
      2,
    );
  const head = [describeRun('A', first, a), describeRun('B', second, b), ...differentMachines(a, b)];
  output.write(`${[head.join('\n'), ...tables.map(renderTable)].join('\n\n')}\n`);
}

async function readRun(file: string): Promise<ComparedRun> {
  let run: Partial<ComparedRun>;
  try {
    run = JSON.parse(await readFile(file, 'utf8')) as Partial<ComparedRun>;
  } catch (error) {
    throw new ArgumentError(`cannot read ${file}: ${messageOf(error)}`, 2);
  }
  const scenarios = Object.values(run.scenarios ?? {});
  if (
    run.machine === undefined ||
    scenarios.length === 0 ||
    scenarios.some(({ figures }) => !Array.isArray(figures))
  )
    throw new ArgumentError(`${file} is no result of this version of the benchmarks: run them again`, 2);
  // NaN, such as the throughput of a run that timed out, is null in JSON.
  for (const { figures } of scenarios)
    for (const figure of figures) figure.values = figure.values.filter((value) => Number.isFinite(value));
  return run as ComparedRun;
}

function describeRun(name: string, file: string, { machine }: ComparedRun): string {
  const commit = machine.commit === undefined ? '' : `, commit ${machine.commit.slice(0, 10)}`;
  return `- ${name}: ${file}, ${machine.at}${commit}, ${machine.cores} × ${machine.cpu}`;
}

function differentMachines(a: ComparedRun, b: ComparedRun): string[] {
  const isSame = a.machine.cpu === b.machine.cpu && a.machine.cores === b.machine.cores;
  return isSame ? [] : ['- Two machines: compare ratios, not times.'];
}

/** What is read of a result file. */
export interface ComparedRun {
  machine: { at: string; cpu: string; cores: number; commit?: string };
  scenarios: Record<string, { settings: Record<string, unknown>; figures: Figure[] }>;
}

type Verdict = 'worse' | 'better' | '';

/** Smaller changes count as noise, however often the figure was measured. */
const leastChange = 0.05;
/** Assumed noise of a figure that was measured once. */
const unknownNoise = 0.25;

/** Both runs side by side; changes beyond the noise of their repeats are marked. */
export function compareRuns(a: ComparedRun, b: ComparedRun): Table[] {
  return Object.entries(a.scenarios).flatMap(([name, before]) => {
    const after = b.scenarios[name];
    if (after === undefined) return [];
    const rows = before.figures.flatMap((figure): Cell[][] => {
      const other = after.figures.find((each) => each.name === figure.name);
      return other === undefined ? [] : [compareRow(figure, other)];
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

function compareRow(a: Figure, b: Figure): Cell[] {
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

/** Half the range of a run's repeats as a fraction of their median; the larger one of both runs. */
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
  const listed = different.map((key) => `${key} ${JSON.stringify(a[key])} and ${JSON.stringify(b[key])}`);
  return [`Not the same work: ${listed.join(', ')}.`];
}
