import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { execa } from 'execa';
import type { SuiteReport } from './test-summary.ts';

const main = 'test/real-node/main.ts';

/** Why this machine cannot run real nodes, in one line; undefined when it can. */
export async function whyNoRealNodes(): Promise<string | undefined> {
  const { exitCode, stdout, stderr } = await execa(process.execPath, [main, 'check'], { reject: false });
  return exitCode === 0 ? undefined : stdout || stderr;
}

/** In CI a machine that cannot run them is a fault, and never a reason to be silent. */
export function areRealNodesRequired(env: Readonly<Record<string, string | undefined>>): boolean {
  return Boolean(env['SKERRY_REQUIRE_REAL_NODE'] || env['CI']);
}

/** Builds what nodes and conformance are made of, unless it was built before; leaves the processors to others. */
export async function prepareRealNodes(): Promise<void> {
  for (const work of [
    ['prepare', '--images', 'all'],
    ['build', 'ginkgo', 'e2e.test'],
  ]) {
    await execa('nice', ['-n', '19', process.execPath, main, ...work], { stdio: 'inherit' });
  }
}

/** Runs a short selection of upstream's conformance specs through a tenant; each spec counts as a test. */
export async function runConformance(folder: string): Promise<SuiteReport> {
  const run = await execa(process.execPath, ['test/conformance/main.ts', '--out', folder], {
    stdio: 'inherit',
    reject: false,
  });
  const file = join(folder, 'tenant.json');
  const results = existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as { verdict: string }[]) : [];
  return conformanceReport(
    results.map(({ verdict }) => verdict),
    run.exitCode === 0,
  );
}

/** A spec that fails for a reason that has been accepted does not let the run fail, and is none of ours. */
export function conformanceReport(verdicts: readonly string[], hasPassed: boolean): SuiteReport {
  const failed = verdicts.filter((verdict) => verdict === 'failed').length;
  return {
    numPassedTests: verdicts.filter((verdict) => verdict === 'passed').length,
    numFailedTests: hasPassed ? 0 : Math.max(1, failed),
    numPendingTests: verdicts.filter((verdict) => verdict === 'skipped').length,
    testResults: [],
  };
}
