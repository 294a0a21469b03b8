import { relative } from 'node:path';
import { stripVTControlCharacters } from 'node:util';

/** The part of vitest's JSON report that the closing line is made of. */
export interface SuiteReport {
  readonly numPassedTests: number;
  readonly numFailedTests: number;
  readonly numPendingTests: number;
  readonly numTodoTests?: number;
  /** Files that could not be run at all count as failed, too. */
  readonly testResults: readonly FileReport[];
}

interface FileReport {
  /** Path. */
  readonly name?: string;
  /** Of what failed after all files: the run's. */
  readonly run?: string;
  readonly status: string;
  /** Why the file could not be run. */
  readonly message?: string;
  readonly assertionResults: readonly {
    readonly status: string;
    readonly fullName: string;
    readonly failureMessages?: readonly string[] | null;
  }[];
}

/** Lines of what a run said last: an error that came after its tests, with its reasons. */
const lastLines = 30;
/** Lines of what a test said; those of its stack are not counted. */
const messageLines = 15;

/**
 * A run may fail although no test of it did: by an error that nobody caught, or one of its teardown. That counts as
 * one failure, and its last words are its reason.
 */
export function withEnd(
  report: SuiteReport,
  project: string,
  { exitCode, stderr }: { exitCode: number | undefined; stderr: string },
): SuiteReport {
  if (exitCode === 0 || summarise([report]).failed > 0) return report;
  const end = stripVTControlCharacters(stderr).trimEnd().split('\n').slice(-lastLines).join('\n');
  const message = `the run ended with ${exitCode ?? 'a signal'}, although no test of it failed:\n${end}`;
  return {
    ...report,
    testResults: [...report.testResults, { status: 'failed', message, run: project, assertionResults: [] }],
  };
}

export interface Summary {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  readonly text: string;
  /** What failed, and why: where a log is long, its end tells. */
  readonly failures: readonly string[];
}

/** One line over all suites. */
export function summarise(reports: readonly SuiteReport[]): Summary {
  let passed = 0;
  let failed = 0;
  let skipped = 0;
  const failures: string[] = [];
  for (const report of reports) {
    passed += report.numPassedTests;
    failed += report.numFailedTests;
    skipped += report.numPendingTests + (report.numTodoTests ?? 0);
    for (const file of report.testResults) {
      const tests = file.assertionResults.filter(({ status }) => status === 'failed');
      for (const { fullName, failureMessages } of tests)
        failures.push(line(file.name, fullName, failureMessages?.[0]));
      if (file.run !== undefined) failures.push(`failed: ${file.run}: ${file.message}`);
      else if (file.status === 'failed' && tests.length === 0)
        failures.push(line(file.name, undefined, file.message));
      if (file.status === 'failed' && file.assertionResults.length === 0) failed += 1;
    }
  }
  const text = `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`;
  return { passed, failed, skipped, text, failures };
}

function line(file: string | undefined, test: string | undefined, message: string | undefined): string {
  const where = file === undefined ? undefined : relative(process.cwd(), file);
  const why = message === undefined ? undefined : withoutStack(message);
  return ['failed', where, test, why].filter((part) => part !== undefined).join(': ');
}

function withoutStack(message: string): string {
  const lines = stripVTControlCharacters(message).trimEnd().split('\n');
  const stack = lines.findIndex((each) => /^\s+at /.test(each));
  const said = stack > 0 ? lines.slice(0, stack) : lines;
  const left = said.length - messageLines;
  return [...said.slice(0, messageLines), ...(left > 0 ? [`… and ${left} more lines`] : [])].join('\n  ');
}
