import { relative } from 'node:path';
import { stripVTControlCharacters } from 'node:util';

/** What a run of one project has shown: vitest's JSON report, or what conformance makes of its specs. */
export interface ProjectReport {
  readonly project: string;
  readonly files: readonly FileReport[];
  /** Why the run failed although none of its tests did: an uncaught error, or one of its teardown. */
  readonly runError?: string;
}

/** One test file, as in vitest's JSON report. */
export interface FileReport {
  /** Absolute path, or a name. */
  readonly name: string;
  readonly status: string;
  /** Milliseconds since the epoch. */
  readonly startTime?: number;
  readonly endTime?: number;
  /** Why the file could not be run. */
  readonly message?: string;
  readonly assertionResults: readonly TestReport[];
}

export interface TestReport {
  /** `passed`, `failed`, or one of several words for a test that was left out. */
  readonly status: string;
  readonly fullName: string;
  readonly failureMessages?: readonly string[] | null;
  /** `secondTries`: what it did once more before it passed, each in words. */
  readonly meta?: { readonly secondTries?: readonly string[] };
}

export interface Summary {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  /** `N passed, N failed[, N skipped]`: the last line of a run. */
  readonly text: string;
  /** Each failed test and why. */
  readonly failures: readonly string[];
  /** `FILE > TEST` for each test that was left out, but for those that only the broad run has. */
  readonly leftOut: readonly string[];
  /** `FILE > TEST: WHAT` for each second try of a test. */
  readonly secondTries: readonly string[];
}

/** How the title of a test ends that only the broad run has. */
const broadSuffix = '(npm run test:all)';
/** Lines of a run's last output that are kept as its error. */
const runErrorLines = 30;
/** Lines of a test's message that are printed, without its stack. */
const messageLines = 15;

/** Names of the files to run once more: those that failed. */
export function failedFiles({ files }: ProjectReport): string[] {
  return files.filter(({ status }) => status === 'failed').map(({ name }) => name);
}

/** Whether the run ended before its first file: what all of them need could not be started. */
export function hasNotBegun({ files, runError }: ProjectReport): boolean {
  return files.length === 0 && runError !== undefined;
}

/** Without the files that a run which the deadline has ended did not come to, and these. */
export function withoutUnrun(report: ProjectReport): { report: ProjectReport; unrun: string[] } {
  const isUnrun = ({ status, message = '', assertionResults }: FileReport): boolean =>
    status === 'failed' && message === '' && assertionResults.length === 0;
  const unrun = report.files.filter(isUnrun).map(({ name }) => pathOf(name));
  return { report: { ...report, files: report.files.filter((each) => !isUnrun(each)) }, unrun };
}

/**
 * A run may exit with an error that is no test's: uncaught, or of its teardown. Its last output is then the reason.
 * Where tests failed too, only an error that vitest names as such counts. A filter (`isFiltered`) may match no file of one
 * project; that it matches none at all is told at the end. A run that was ended early (`isCut`) exits with an error.
 */
export function withRunError(
  report: ProjectReport,
  {
    exitCode,
    stderr,
    isFiltered = false,
    isCut = false,
  }: { exitCode: number | undefined; stderr: string; isFiltered?: boolean; isCut?: boolean },
): ProjectReport {
  if (exitCode === 0) return report;
  const output = stripVTControlCharacters(stderr).trimEnd();
  if (isFiltered && report.files.length === 0 && output.startsWith('No test files found')) return report;
  const end = output.split('\n').slice(-runErrorLines).join('\n');
  if (failedFiles(report).length === 0 && !isCut) {
    return {
      ...report,
      runError: `the run ended with ${exitCode ?? 'a signal'}, although no test of it failed:\n${end}`,
    };
  }
  if (!/Unhandled Error|Unhandled Rejection|error during close/i.test(output)) return report;
  const beside = isCut ? 'when its time was over' : 'beside failed tests';
  return { ...report, runError: `${beside} the run ended with an error:\n${end}` };
}

/**
 * The report of a project whose failed files were run a second time: the second result of a file counts. `flaky` has a
 * line `FILE > TEST` for each test that failed first and passed then; one that did not run the second time stays failed.
 * A run that had not begun was run as a whole.
 */
export function withSecondRun(
  first: ProjectReport,
  second: ProjectReport,
): { report: ProjectReport; flaky: string[] } {
  if (hasNotBegun(first)) {
    const isFlaky = second.runError === undefined && second.files.length > 0;
    return { report: second, flaky: isFlaky ? [`${first.project} > start`] : [] };
  }
  const secondFiles = new Map(second.files.map((file) => [file.name, file]));
  const flaky: string[] = [];
  const files = first.files.map((file) => {
    if (file.status !== 'failed') return file;
    const later = secondFiles.get(file.name);
    if (later === undefined) return file;
    const passed = new Set(testsOf(later, 'passed'));
    const failed = testsOf(file, 'failed');
    if (later.status !== 'failed' && failed.length === 0) flaky.push(pathOf(file.name));
    for (const test of failed) if (passed.has(test)) flaky.push(`${pathOf(file.name)} > ${test}`);
    const again = new Set([...passed, ...testsOf(later, 'failed')]);
    const left = file.assertionResults.filter(
      ({ status, fullName }) => status === 'failed' && !again.has(fullName),
    );
    if (left.length === 0) return later;
    const others = later.assertionResults.filter(({ fullName }) =>
      left.every((each) => each.fullName !== fullName),
    );
    return { ...later, status: 'failed', assertionResults: [...others, ...left] };
  });
  const runError = second.runError ?? first.runError;
  return {
    report: { project: first.project, files, ...(runError === undefined ? {} : { runError }) },
    flaky,
  };
}

/** The `count` files whose tests took longest, hooks not counted, as `SECONDS s  FILE`. */
export function slowestFiles(reports: readonly ProjectReport[], count: number): string[] {
  return reports
    .flatMap(({ files }) => files)
    .map(({ name, startTime = 0, endTime = 0 }) => ({ name, seconds: (endTime - startTime) / 1_000 }))
    .sort((a, b) => b.seconds - a.seconds)
    .slice(0, count)
    .map(({ name, seconds }) => `${seconds.toFixed(0).padStart(5)} s  ${pathOf(name)}`);
}

/** Counts over all projects. A file that could not be run and a run that failed by itself count as one failure each. */
export function summarise(reports: readonly ProjectReport[]): Summary {
  let passed = 0;
  let skipped = 0;
  const failures: string[] = [];
  const leftOut: string[] = [];
  const secondTries: string[] = [];
  for (const { project, files, runError } of reports) {
    for (const file of files) {
      const tests = file.assertionResults.filter(({ status }) => status === 'failed');
      passed += testsOf(file, 'passed').length;
      const others = file.assertionResults.filter(({ status }) => !['passed', 'failed'].includes(status));
      skipped += others.length;
      for (const { fullName } of others)
        if (!fullName.endsWith(broadSuffix)) leftOut.push(`${pathOf(file.name)} > ${fullName}`);
      for (const { fullName, meta } of file.assertionResults)
        for (const what of meta?.secondTries ?? [])
          secondTries.push(`${pathOf(file.name)} > ${fullName}: ${what}`);
      for (const { fullName, failureMessages } of tests)
        failures.push(failureLine(pathOf(file.name), fullName, failureMessages?.[0]));
      if (file.status === 'failed' && tests.length === 0)
        failures.push(failureLine(pathOf(file.name), undefined, file.message));
    }
    if (runError !== undefined) failures.push(`failed: ${project}: ${runError}`);
  }
  const failed = failures.length;
  const text = `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`;
  return { passed, failed, skipped, text, failures, leftOut, secondTries };
}

function testsOf(file: FileReport, status: string): string[] {
  return file.assertionResults.filter((test) => test.status === status).map(({ fullName }) => fullName);
}

function pathOf(name: string): string {
  return name.startsWith('/') ? relative(process.cwd(), name) : name;
}

function failureLine(file: string, test: string | undefined, message: string | undefined): string {
  const why = message === undefined ? undefined : withoutStack(message);
  return ['failed', file, test, why].filter((part) => part !== undefined).join(': ');
}

function withoutStack(message: string): string {
  const lines = stripVTControlCharacters(message).trimEnd().split('\n');
  const stack = lines.findIndex((each) => /^\s+at /.test(each));
  const said = stack > 0 ? lines.slice(0, stack) : lines;
  const left = said.length - messageLines;
  return [...said.slice(0, messageLines), ...(left > 0 ? [`… and ${left} more lines`] : [])].join('\n  ');
}
