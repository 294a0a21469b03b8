import { relative } from 'node:path';

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
  readonly status: string;
  /** Why the file could not be run. */
  readonly message?: string;
  readonly assertionResults: readonly {
    readonly status: string;
    readonly fullName: string;
    readonly failureMessages?: readonly string[] | null;
  }[];
}

export interface Summary {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  readonly text: string;
  /** What failed, a line each: where a log is long, its end tells. */
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
      if (file.status === 'failed' && tests.length === 0)
        failures.push(line(file.name, undefined, file.message));
      if (file.status === 'failed' && file.assertionResults.length === 0) failed += 1;
    }
  }
  const text = `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`;
  return { passed, failed, skipped, text, failures };
}

function line(file: string | undefined, test: string | undefined, message: string | undefined): string {
  const where = file === undefined ? undefined : relative(process.cwd(), file);
  return ['failed', where, test, message?.split('\n')[0]].filter((part) => part !== undefined).join(': ');
}
