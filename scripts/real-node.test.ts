import { describe, expect, it } from 'vitest';
import { areRealNodesRequired, conformanceReport } from './real-node.ts';

describe('real nodes in a test run', () => {
  it('are asked for in CI only', () => {
    expect(areRealNodesRequired({})).toBe(false);
    expect(areRealNodesRequired({ CI: '' })).toBe(false);
    expect(areRealNodesRequired({ CI: 'true' })).toBe(true);
    expect(areRealNodesRequired({ SKERRY_REQUIRE_REAL_NODE: '1' })).toBe(true);
  });

  it('count every conformance spec as a test', () => {
    const verdicts = ['passed', 'passed', 'failed', 'skipped'];
    expect(conformanceReport(verdicts, false)).toMatchObject({
      numPassedTests: 2,
      numFailedTests: 1,
      numPendingTests: 1,
    });
    expect(conformanceReport(verdicts, true).numFailedTests).toBe(0);
  });

  it('fail when conformance ended badly, though no spec says so', () => {
    expect(conformanceReport([], false).numFailedTests).toBe(1);
    expect(conformanceReport(['passed'], false).numFailedTests).toBe(1);
  });
});
