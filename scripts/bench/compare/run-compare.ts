import { readFile } from 'node:fs/promises';
import { ArgumentError } from '../arguments.ts';
import { renderTable } from '../measure/markdown.ts';
import { type ComparedRun, compareRuns } from './compare.ts';

const usage = `Usage: npm run bench -- compare A.json B.json

Sets the figures of two runs side by side. "worse" and "better" mark what changed by more than the repeats of
either run stray, and by more than 5 %; a figure that was measured once has to change by 25 %.
`;

/** `compare A B`: a table on `output`. Throws ArgumentError for files that are none of ours. */
export async function runCompare(
  argv: readonly string[],
  output: { write(text: string): unknown },
): Promise<void> {
  if (argv.includes('--help') || argv.includes('-h')) {
    output.write(usage);
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
    const why = error instanceof Error ? error.message : String(error);
    throw new ArgumentError(`cannot read ${file}: ${why}`, 2);
  }
  const scenarios = Object.values(run.scenarios ?? {});
  if (
    run.machine === undefined ||
    scenarios.length === 0 ||
    scenarios.some(({ figures }) => !Array.isArray(figures))
  )
    throw new ArgumentError(`${file} is no result of this version of the benchmarks: run them again`, 2);
  // What was no number, such as the speed of a run that did not come to its end, is null in JSON.
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
