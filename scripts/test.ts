import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { freemem, tmpdir } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';
import { isDockerRequired, prepareDocker, whyNoDocker } from './docker.ts';
import { provideBinaries } from './provide-binaries.ts';
import { areRealNodesRequired, prepareRealNodes, runConformance, whyNoRealNodes } from './real-node.ts';
import { type SuiteReport, summarise, withEnd } from './test-summary.ts';

/** The linker of upstream's tests takes two gigabytes, a stack of ours as much. */
const roomyBytes = 8e9;
/** Of a run that has not come to its report. */
const noReport: SuiteReport = { numPassedTests: 0, numFailedTests: 0, numPendingTests: 0, testResults: [] };
const notRun: SuiteReport = { numPassedTests: 0, numFailedTests: 1, numPendingTests: 0, testResults: [] };

/**
 * `npm test`: fetches or builds the control plane binaries, then runs the unit tests, the end-to-end suites and,
 * where the machine can, those on a Docker engine and on real nodes. Arguments go to vitest: `npm test -- -t "four cases"`; with them
 * upstream's conformance specs are left out.
 */
async function main(): Promise<void> {
  const args = process.argv.slice(2);
  let reason = await whyNoRealNodes();
  if (reason !== undefined) console.log(`the suites on real nodes will not run: ${reason}`);
  let noDocker = await whyNoDocker();
  if (noDocker !== undefined) console.log(`the suites on a Docker engine will not run: ${noDocker}`);
  await provideBinaries();
  const folder = mkdtempSync(join(tmpdir(), 'skerry-test-'));
  const reports: SuiteReport[] = [];
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
      {
        stdin: 'inherit',
        stdout: 'inherit',
        stderr: ['inherit', 'pipe'],
        preferLocal: true,
        reject: false,
        // Only all suites together use every right of manager and syncer.
        env: args.length === 0 ? { SKERRY_ALL_SUITES: '1' } : {},
      },
    );
    const told = existsSync(report) ? (JSON.parse(readFileSync(report, 'utf8')) as SuiteReport) : noReport;
    reports.push(withEnd(told, project, { exitCode: run.exitCode, stderr: run.stderr }));
  };
  try {
    await runProject('unit');
    // Building takes long, and most of its time the other suites leave a processor idle.
    const isRoomy = freemem() > roomyBytes;
    const preparingDocker = noDocker === undefined && isRoomy ? prepareDocker() : undefined;
    preparingDocker?.catch(() => undefined);
    // One after the other: the suites need a processor, too.
    const preparing =
      reason === undefined && isRoomy
        ? (preparingDocker ?? Promise.resolve()).catch(() => undefined).then(prepareRealNodes)
        : undefined;
    preparing?.catch(() => undefined);
    await runProject('e2e');
    noDocker ??= await whyNot(preparingDocker ?? prepareDocker());
    if (noDocker === undefined) await runProject('docker');
    else if (isDockerRequired(process.env)) reports.push(notRun);
    if (reason === undefined) reason = await whyNot(preparing ?? prepareRealNodes());
    if (reason === undefined) {
      await runProject('real-node');
      if (args.length === 0) reports.push(await runConformance(join(folder, 'conformance')));
    } else if (areRealNodesRequired(process.env)) reports.push(notRun);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  if (noDocker !== undefined) console.log(`the suites on a Docker engine did not run: ${noDocker}`);
  if (reason !== undefined) console.log(`the suites on real nodes did not run: ${reason}`);
  const summary = summarise(reports);
  for (const failure of summary.failures) console.log(failure);
  console.log(summary.text);
  process.exitCode = summary.failed > 0 ? 1 : 0;
}

/** Why something could not be prepared; undefined when it was. */
async function whyNot(preparing: Promise<void>): Promise<string | undefined> {
  return preparing.then(
    () => undefined,
    (error: Error) => error.message,
  );
}

await main();
