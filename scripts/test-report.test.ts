import { describe, expect, it } from 'vitest';
import {
  type FileReport,
  failedFiles,
  type ProjectReport,
  slowestFiles,
  summarise,
  type TestReport,
  withoutUnrun,
  withRunError,
  withSecondRun,
} from './test-report.ts';

const passed = (fullName: string): TestReport => ({ status: 'passed', fullName });
const failed = (fullName: string, message = 'Error: no'): TestReport => ({
  status: 'failed',
  fullName,
  failureMessages: [message],
});
const path = (name: string): string => `${process.cwd()}/${name}`;

function file(name: string, ...tests: TestReport[]): FileReport {
  const status = tests.some((test) => test.status === 'failed') ? 'failed' : 'passed';
  return { name: path(name), status, assertionResults: tests };
}

function report(...files: FileReport[]): ProjectReport {
  return { project: 'e2e', files };
}

describe('the closing line of a test run', () => {
  it('adds up all projects', () => {
    const one = report(file('a.test.ts', passed('adds'), failed('subtracts')));
    expect(summarise([one, one]).text).toBe('2 passed, 2 failed');
  });

  it('counts a file that could not be run as a failure', () => {
    const broken = { name: 'c.test.ts', status: 'failed', message: 'no such module', assertionResults: [] };
    expect(summarise([report(broken)])).toMatchObject({ passed: 0, failed: 1 });
  });

  it('names skipped tests, but not those of the broad run', () => {
    const skipped = { status: 'pending', fullName: 'divides (needs root)' };
    const broad = { status: 'skipped', fullName: 'divides much (npm run test:all)' };
    const { text, leftOut } = summarise([report(file('a.test.ts', passed('adds'), skipped, broad))]);
    expect(text).toBe('1 passed, 0 failed, 2 skipped');
    expect(leftOut).toEqual(['a.test.ts > divides (needs root)']);
  });

  it('names what tests did once more', () => {
    const again = { ...passed('divides'), meta: { secondTries: ['asked again', 'asked once more'] } };
    expect(summarise([report(file('a.test.ts', passed('adds'), again))]).secondTries).toEqual([
      'a.test.ts > divides: asked again',
      'a.test.ts > divides: asked once more',
    ]);
  });

  it('says what failed, and why', () => {
    const broken = { name: 'c.test.ts', status: 'failed', message: 'no such module', assertionResults: [] };
    const tests = file(
      'a/b.test.ts',
      passed('adds'),
      failed('subtracts', 'Error: 2 is not 1\n    at line 3'),
      failed('lists', 'Error: these:\none\ntwo\n    at line 9'),
      failed('talks', `Error: much${'\nmore'.repeat(20)}`),
    );
    expect(summarise([report(tests, broken)]).failures).toEqual([
      'failed: a/b.test.ts: subtracts: Error: 2 is not 1',
      'failed: a/b.test.ts: lists: Error: these:\n  one\n  two',
      `failed: a/b.test.ts: talks: Error: much${'\n  more'.repeat(14)}\n  … and 6 more lines`,
      'failed: c.test.ts: no such module',
    ]);
  });
});

describe('a run whose tests all pass', () => {
  const green = report(file('a.test.ts', passed('adds')));
  const end = {
    exitCode: 1,
    stderr: `\u001B[31mearlier\u001B[0m\n${'.\n'.repeat(40)}error during close: it does not fit\n`,
  };

  it('fails with its last output when it exits with an error', () => {
    const { text, failures } = summarise([withRunError(green, end)]);
    expect(text).toBe('1 passed, 1 failed');
    expect(failures[0]).toMatch(/^failed: e2e: the run ended with 1, although no test of it failed:\n/);
    expect(failures[0]).toMatch(/error during close: it does not fit$/);
    expect(failures[0]).not.toContain('earlier');
  });

  it('passes when it exits with 0; failed tests are not counted twice', () => {
    expect(withRunError(green, { exitCode: 0, stderr: 'a warning' })).toBe(green);
    const red = report(file('a.test.ts', failed('adds')));
    expect(withRunError(red, { exitCode: 1, stderr: 'a warning' })).toBe(red);
  });

  it('passes when a filter matches none of its files, and fails when it has none without one', () => {
    const none = { exitCode: 1, stderr: '\u001b[31mNo test files found, exiting with code 1\u001b[39m\n' };
    expect(withRunError(report(), { ...none, isFiltered: true }).runError).toBeUndefined();
    expect(withRunError(report(), none).runError).toContain('No test files found');
    expect(
      withRunError(report(), { exitCode: 1, stderr: 'no port', isFiltered: true }).runError,
    ).toBeDefined();
  });

  it('fails by an error beside failed tests as well', () => {
    const red = report(file('a.test.ts', failed('adds')));
    expect(withRunError(red, end).runError).toMatch(/error during close: it does not fit$/);
  });
});

describe('the second run of failed files', () => {
  const first = report(
    file('a.test.ts', passed('adds'), failed('subtracts')),
    file('b.test.ts', failed('lists'), failed('talks')),
    file('c.test.ts', passed('waits')),
  );

  it('takes every file that failed, and no other', () => {
    expect(failedFiles(first)).toEqual([path('a.test.ts'), path('b.test.ts')]);
  });

  it('makes the run green when it passes, and names each test that it changed', () => {
    const second = report(
      file('a.test.ts', passed('adds'), passed('subtracts')),
      file('b.test.ts', passed('lists'), passed('talks')),
    );
    const { report: merged, flaky } = withSecondRun(first, second);
    expect(summarise([merged]).text).toBe('5 passed, 0 failed');
    expect(flaky).toEqual(['a.test.ts > subtracts', 'b.test.ts > lists', 'b.test.ts > talks']);
  });

  it('leaves red what fails again, also a test that had passed before', () => {
    const second = report(
      file('a.test.ts', failed('adds'), passed('subtracts')),
      file('b.test.ts', passed('lists'), failed('talks')),
    );
    const { report: merged, flaky } = withSecondRun(first, second);
    expect(summarise([merged])).toMatchObject({ passed: 3, failed: 2 });
    expect(flaky).toEqual(['a.test.ts > subtracts', 'b.test.ts > lists']);
  });

  it('leaves red a test that it skipped', () => {
    const skipped = { status: 'skipped', fullName: 'subtracts' };
    const second = report(
      file('a.test.ts', passed('adds'), skipped),
      file('b.test.ts', passed('lists'), passed('talks')),
    );
    expect(summarise([withSecondRun(first, second).report])).toMatchObject({
      passed: 4,
      failed: 1,
      skipped: 0,
    });
  });

  it('leaves red a file that it did not report', () => {
    expect(summarise([withSecondRun(first, report()).report]).failed).toBe(3);
  });

  it('names a file that could not be run at first by its path', () => {
    const broken = { name: path('d.test.ts'), status: 'failed', message: 'no port', assertionResults: [] };
    const { report: merged, flaky } = withSecondRun(report(broken), report(file('d.test.ts', passed('is'))));
    expect(flaky).toEqual(['d.test.ts']);
    expect(summarise([merged]).text).toBe('1 passed, 0 failed');
  });

  it('names a run that could not begin at first, and leaves red one that cannot again', () => {
    const broken = { ...report(), runError: 'no stack' };
    const { report: merged, flaky } = withSecondRun(broken, report(file('d.test.ts', passed('is'))));
    expect(flaky).toEqual(['e2e > start']);
    expect(summarise([merged]).text).toBe('1 passed, 0 failed');
    expect(withSecondRun(broken, broken)).toEqual({ report: broken, flaky: [] });
  });

  it('does not forgive an error of the run itself', () => {
    const { report: merged } = withSecondRun({ ...first, runError: 'rights do not fit' }, report());
    expect(merged.runError).toBe('rights do not fit');
  });
});

it('lists the slowest files first', () => {
  const timed = (name: string, seconds: number): FileReport => ({
    ...file(name, passed('it')),
    startTime: 1_000,
    endTime: 1_000 + seconds * 1_000,
  });
  expect(
    slowestFiles([report(timed('a.test.ts', 3), timed('b.test.ts', 120), timed('c.test.ts', 9))], 2),
  ).toEqual(['  120 s  b.test.ts', '    9 s  c.test.ts']);
});

describe('a run that its deadline has ended', () => {
  const unrun = { name: path('late.test.ts'), status: 'failed', message: '', assertionResults: [] };

  it('is not failed by the files that it did not come to, which are named', () => {
    const { report: left, unrun: names } = withoutUnrun(report(file('a.test.ts', passed('adds')), unrun));
    expect(names).toEqual(['late.test.ts']);
    expect(summarise([withRunError(left, { exitCode: 1, stderr: '', isCut: true })]).text).toBe(
      '1 passed, 0 failed',
    );
  });

  it('is failed by tests that failed, files that could not be loaded, and errors beside them', () => {
    const broken = { ...unrun, message: 'no such module' };
    const { report: left } = withoutUnrun(report(file('a.test.ts', failed('adds')), broken, unrun));
    const stderr = 'error during close Error: something was left behind';
    expect(summarise([withRunError(left, { exitCode: 1, stderr, isCut: true })])).toMatchObject({
      failed: 3,
    });
  });
});
