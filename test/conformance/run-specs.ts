import { appendFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';
import { readReport, type SpecResult } from './report.ts';
import type { Selection } from './selection.ts';

export interface RunOptions {
  kubeconfigFile: string;
  /** Paths. */
  programs: { ginkgo: string; 'e2e.test': string; kubectl: string };
  selection: Selection;
  nodes: number;
  /** Specs at once. */
  processes: number;
  timeoutMinutes: number;
  /** File that everything is written to that ginkgo prints: thousands of lines for a spec that fails. */
  logFile?: string;
  /** How far it is, and what failed. */
  tell: (line: string) => void;
}

const news = /^\s*(•|Running Suite|Running in parallel|Will run|Ran \d|\[FAIL)/;

/** Runs upstream's own tests. Specs that fail are results; throws only when there are none. */
export async function runSpecs(options: RunOptions): Promise<SpecResult[]> {
  const { programs, selection, tell } = options;
  const directory = mkdtempSync(join(tmpdir(), 'skerry-conformance-'));
  try {
    const run = execa(
      programs.ginkgo,
      [
        `--procs=${options.processes}`,
        `--focus=${selection.focus}`,
        `--skip=${selection.skip}`,
        `--timeout=${options.timeoutMinutes}m`,
        '--json-report=report.json',
        `--output-dir=${directory}`,
        '--silence-skips',
        '--no-color',
        programs['e2e.test'],
        '--',
        `--kubeconfig=${options.kubeconfigFile}`,
        `--kubectl-path=${programs.kubectl}`,
        '--provider=skeleton',
        '--disable-log-dump',
        '--allowed-not-ready-nodes=0',
        `--num-nodes=${options.nodes}`,
      ],
      { reject: false, all: true, buffer: false, cwd: directory },
    );
    let last = '';
    for await (const line of run.iterable({ from: 'all' })) {
      last = line || last;
      if (options.logFile !== undefined) appendFileSync(options.logFile, `${line}\n`);
      if (news.test(line)) tell(line);
    }
    await run;
    const report = readText(join(directory, 'report.json'));
    if (report === undefined) throw new Error(`the specs did not run: ${last}`);
    return readReport(report);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

function readText(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}
