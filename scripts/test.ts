import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';
import { provideBinaries } from './provide-binaries.ts';
import { type SuiteReport, summarise } from './test-summary.ts';

/**
 * `npm test`: fetches or builds the control plane binaries, then runs the unit tests and the
 * end-to-end suites. Arguments go to vitest: `npm test -- -t "four cases"`.
 */
async function main(): Promise<void> {
  await provideBinaries();
  const folder = mkdtempSync(join(tmpdir(), 'skerry-test-'));
  const reports: SuiteReport[] = [];
  let failed = false;
  try {
    for (const project of ['unit', 'e2e']) {
      const report = join(folder, `${project}.json`);
      const run = await execa(
        'vitest',
        [
          'run',
          '--project',
          project,
          '--passWithNoTests',
          '--reporter=default',
          '--reporter=json',
          `--outputFile.json=${report}`,
          ...process.argv.slice(2),
        ],
        { stdio: 'inherit', preferLocal: true, reject: false },
      );
      failed ||= run.exitCode !== 0;
      reports.push(JSON.parse(readFileSync(report, 'utf8')) as SuiteReport);
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  const summary = summarise(reports);
  console.log(summary.text);
  process.exitCode = failed || summary.failed > 0 ? 1 : 0;
}

await main();
