import { describe, expect, it } from 'vitest';
import { conformanceReport, dockerEngine, realNodes } from './test-environments.ts';
import { summarise } from './test-report.ts';

describe('what suites need', () => {
  it('is required in CI, and where a variable says so', () => {
    for (const { isRequired } of [dockerEngine, realNodes]) {
      expect(isRequired({})).toBe(false);
      expect(isRequired({ CI: '' })).toBe(false);
      expect(isRequired({ CI: 'true' })).toBe(true);
    }
    expect(realNodes.isRequired({ SKERRY_REQUIRE_REAL_NODE: '1' })).toBe(true);
    expect(dockerEngine.isRequired({ SKERRY_REQUIRE_DOCKER: '1' })).toBe(true);
  });
});

describe('conformance specs', () => {
  const spec = (name: string, verdict: string) => ({ name, verdict });

  it('count as tests', () => {
    const specs = [spec('a', 'passed'), spec('b', 'passed'), spec('c', 'failed'), spec('d', 'skipped')];
    expect(summarise([conformanceReport(specs, false)])).toMatchObject({ passed: 2, failed: 1, skipped: 1 });
    expect(summarise([conformanceReport(specs, true)])).toMatchObject({ passed: 2, failed: 0, skipped: 2 });
  });

  it('fail when the run ended badly, though no spec says so', () => {
    expect(summarise([conformanceReport([], false)]).failed).toBe(1);
    expect(summarise([conformanceReport([spec('a', 'passed')], false)]).failed).toBe(1);
  });
});
