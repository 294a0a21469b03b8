import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { freemem, tmpdir } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';
import { provideBinaries } from './provide-binaries.ts';
import { areRealNodesRequired, prepareRealNodes, runConformance, whyNoRealNodes } from './real-node.ts';
import { type SuiteReport, summarise } from './test-summary.ts';

/** The linker of upstream's tests takes two gigabytes, a stack of ours as much. */
const roomyBytes = 8e9;
const notRun: SuiteReport = { numPassedTests: 0, numFailedTests: 1, numPendingTests: 0, testResults: [] };

/**
 * `npm test`: fetches or builds the control plane binaries, then runs the unit tests, the end-to-end suites and,
 * where the machine can, those on real nodes. Arguments go to vitest: `npm test -- -t "four cases"`; with them
 * upstream's conformance specs are left out.
 */
async function main(): Promise<void> {
  const args = process.argv.slice(2);
  let reason = await whyNoRealNodes();
  if (reason !== undefined) console.log(`the suites on real nodes will not run: ${reason}`);
  await provideBinaries();
  const folder = mkdtempSync(join(tmpdir(), 'skerry-test-'));
  const reports: SuiteReport[] = [];
  let failed = false;
  const runProject = async (project: string): Promise<void> => {
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
        ...args,
      ],
      { stdio: 'inherit', preferLocal: true, reject: false },
    );
    failed ||= run.exitCode !== 0;
    reports.push(JSON.parse(readFileSync(report, 'utf8')) as SuiteReport);
  };
  try {
    await runProject('unit');
    // Building takes long, and most of its time the other suites leave a processor idle.
    const isRoomy = freemem() > roomyBytes;
    const preparing = reason === undefined && isRoomy ? prepareRealNodes() : undefined;
    preparing?.catch(() => undefined);
    await runProject('e2e');
    if (reason === undefined) {
      reason = await (preparing ?? prepareRealNodes()).then(
        () => undefined,
        (error: Error) => error.message,
      );
    }
    if (reason === undefined) {
      await runProject('real-node');
      if (args.length === 0) reports.push(await runConformance(join(folder, 'conformance')));
    } else if (areRealNodesRequired(process.env)) reports.push(notRun);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  if (reason !== undefined) console.log(`the suites on real nodes did not run: ${reason}`);
  const summary = summarise(reports);
  for (const failure of summary.failures) console.log(failure);
  console.log(summary.text);
  process.exitCode = failed || summary.failed > 0 ? 1 : 0;
}

await main();
