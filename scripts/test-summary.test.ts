import { describe, expect, it } from 'vitest';
import { summarise } from './test-summary.ts';

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
      ],
    };
    const broken = { name: 'c.test.ts', status: 'failed', message: 'no such module', assertionResults: [] };
    expect(summarise([{ ...report, testResults: [file, broken] }]).failures).toEqual([
      'failed: a/b.test.ts: subtracts: Error: 2 is not 1',
      'failed: c.test.ts: no such module',
    ]);
  });
});
