import { describe, expect, it } from 'vitest';
import { compare } from './compare.ts';
import { readReport, runFailure, type SpecResult, type Verdict } from './specs.ts';

function spec(name: string, verdict: Verdict): SpecResult {
  return { name, sig: 'node', verdict, durationMs: 1, message: '' };
}

describe('a conformance run through a tenant', () => {
  const tenant = [spec('a', 'passed'), spec('b', 'failed'), spec('c', 'failed'), spec('d', 'failed')];
  const direct = [spec('a', 'passed'), spec('b', 'passed'), spec('c', 'passed'), spec('d', 'failed')];

  it('owes an explanation for what passes on the super cluster and fails through the tenant', () => {
    const { unexplained, explained, failedOnBoth } = compare(
      tenant,
      direct,
      new Map([['c', 'no such thing']]),
    );
    expect(unexplained.map(({ name }) => name)).toEqual(['b']);
    expect(explained.map(({ spec: { name }, reason }) => [name, reason])).toEqual([['c', 'no such thing']]);
    expect(failedOnBoth.map(({ name }) => name)).toEqual(['d']);
  });

  it('owes one for every failure when the super cluster was not asked', () => {
    expect(compare(tenant, [], new Map()).unexplained.map(({ name }) => name)).toEqual(['b', 'c', 'd']);
  });

  it('is counted by group', () => {
    expect(compare(tenant, direct, new Map()).table).toContain('| node | 1 of 4 | 3 of 4 |');
  });
});

describe("ginkgo's report", () => {
  const it_ = (state: string, runTime: number, text: string) => ({
    ContainerHierarchyTexts: ['[sig-apps] Job'],
    LeafNodeType: 'It',
    LeafNodeText: text,
    State: state,
    RunTime: runTime,
    ...(state === 'failed' ? { Failure: { Message: 'timed out\nsecond line' } } : {}),
  });

  it('is read as what ran: names in full, the first line of a failure, nothing that was left out', () => {
    const results = readReport(
      JSON.stringify([
        {
          SpecReports: [
            it_('passed', 2e9, 'should run'),
            it_('timedout', 1e9, 'should end'),
            it_('failed', 1e9, 'should fail'),
            it_('skipped', 0, 'is out of focus'),
            it_('skipped', 5, 'needs two nodes'),
            { ...it_('passed', 1, ''), LeafNodeType: 'BeforeSuite' },
          ],
        },
      ]),
    );
    expect(results.map(({ name, verdict, message }) => [name, verdict, message])).toEqual([
      ['[sig-apps] Job should run', 'passed', ''],
      ['[sig-apps] Job should end', 'failed', ''],
      ['[sig-apps] Job should fail', 'failed', 'timed out'],
      ['[sig-apps] Job needs two nodes', 'skipped', ''],
    ]);
    expect(results[0]).toMatchObject({ sig: 'apps', durationMs: 2000 });
  });

  it('says that the run was cut short, though no spec that was reached failed', () => {
    const suite = (SpecReports: unknown[], more: object = {}) =>
      JSON.stringify([{ SuiteSucceeded: true, SpecReports, ...more }]);
    const passed = it_('passed', 1, 'should run');
    const late = { SuiteSucceeded: false, SpecialSuiteFailureReasons: ['Suite Timeout Elapsed'] };
    expect(runFailure(suite([passed, it_('skipped', 0, 'was not reached')], late), 1)).toBe(
      'Suite Timeout Elapsed',
    );
    expect(runFailure(suite([passed]), 1)).toBe('ginkgo ended with 1');
    expect(runFailure(suite([passed]), undefined)).toBe('ginkgo ended with a signal');
    expect(runFailure(suite([passed], { SuiteSucceeded: false }), 0)).toBe('ginkgo ended with 0');
    expect(runFailure(suite([passed]), 0)).toBeUndefined();
    const failed = suite([passed, it_('failed', 1, 'should fail')], { SuiteSucceeded: false });
    expect(runFailure(failed, 1)).toBeUndefined();
  });
});
