import { describe, expect, it } from 'vitest';
import { summarise, withEnd } from './test-summary.ts';

const report = { numPassedTests: 3, numFailedTests: 1, numPendingTests: 0, testResults: [] };

describe('the closing line of a test run', () => {
  it('adds up all suites', () => {
    expect(summarise([report, report]).text).toBe('6 passed, 2 failed');
  });

  it('counts a file that could not be run as a failure', () => {
    const broken = { ...report, testResults: [{ status: 'failed', assertionResults: [] }] };
    expect(summarise([broken])).toMatchObject({ passed: 3, failed: 2 });
  });

  it('names skipped tests', () => {
    expect(summarise([{ ...report, numPendingTests: 2 }]).text).toBe('3 passed, 1 failed, 2 skipped');
  });

  it('names what failed, and why', () => {
    const file = {
      name: `${process.cwd()}/a/b.test.ts`,
      status: 'failed',
      assertionResults: [
        { status: 'passed', fullName: 'adds' },
        { status: 'failed', fullName: 'subtracts', failureMessages: ['Error: 2 is not 1\n    at line 3'] },
        { status: 'failed', fullName: 'lists', failureMessages: ['Error: these:\none\ntwo\n    at line 9'] },
        { status: 'failed', fullName: 'talks', failureMessages: [`Error: much${'\nmore'.repeat(20)}`] },
      ],
    };
    const broken = { name: 'c.test.ts', status: 'failed', message: 'no such module', assertionResults: [] };
    expect(summarise([{ ...report, testResults: [file, broken] }]).failures).toEqual([
      'failed: a/b.test.ts: subtracts: Error: 2 is not 1',
      'failed: a/b.test.ts: lists: Error: these:\n  one\n  two',
      `failed: a/b.test.ts: talks: Error: much${'\n  more'.repeat(14)}\n  … and 6 more lines`,
      'failed: c.test.ts: no such module',
    ]);
  });

  describe('of a run whose tests all pass', () => {
    const green = { ...report, numFailedTests: 0 };
    const end = {
      exitCode: 1,
      stderr: `\u001B[31mearlier\u001B[0m\n${'.\n'.repeat(40)}error during close: it does not fit\n`,
    };

    it('counts an end that is none as a failure, with its last words', () => {
      const { text, failures } = summarise([withEnd(green, 'e2e', end)]);
      expect(text).toBe('3 passed, 1 failed');
      expect(failures).toHaveLength(1);
      expect(failures[0]).toMatch(/^failed: e2e: the run ended with 1, although no test of it failed:\n/);
      expect(failures[0]).toMatch(/error during close: it does not fit$/);
      expect(failures[0]).not.toContain('earlier');
    });

    it('is content with a good end, and does not count twice', () => {
      expect(withEnd(green, 'e2e', { exitCode: 0, stderr: 'a warning' })).toBe(green);
      expect(withEnd(report, 'e2e', end)).toBe(report);
    });
  });
});
