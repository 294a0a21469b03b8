import { createWriteStream, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { freemem, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { execa } from 'execa';
import {
  Binaries,
  type BinaryProgress,
  controlPlaneRequests,
  defaultCacheDirectory,
  defaultRequests,
} from '../vc-manager/binaries/index.ts';
import { deadlineMs } from './test-deadline.ts';
import {
  dockerEngine,
  holdCluster,
  realNodes,
  runConformance,
  type TestEnvironment,
} from './test-environments.ts';
import {
  type FileReport,
  failedFiles,
  hasNotBegun,
  type ProjectReport,
  slowestFiles,
  summarise,
  withoutUnrun,
  withRunError,
  withSecondRun,
} from './test-report.ts';

const everyMs = 5_000;

/**
 * Finds, fetches or builds every binary that tests and benchmarks start, and control planes of `otherVersions`; prints
 * its progress. Resolves to whether anything had to be built.
 */
async function provideBinaries(otherVersions: readonly string[] = []): Promise<boolean> {
  const lastTold = new Map<string, number>();
  const binaries = new Binaries({
    cacheDir: defaultCacheDirectory(process.env),
    env: process.env,
    onProgress: (progress: BinaryProgress) => {
      const now = Date.now();
      const key = `${progress.name}/${progress.stage}`;
      if (now - (lastTold.get(key) ?? 0) < everyMs) return;
      lastTold.set(key, now);
      console.log(`${progress.name} ${progress.version}: ${progress.message}`);
    },
  });
  const found = await binaries.ensureAll(
    [...defaultRequests(), ...otherVersions.flatMap(controlPlaneRequests)],
    { signal: new AbortController().signal },
  );
  for (const { name, version, source } of found) console.log(`${name} ${version}: ready (${source})`);
  return found.some(({ source }) => source === 'build');
}

interface PartOfProject {
  /** Undefined: all files of the project, but for `otherRow`. */
  readonly files?: readonly string[];
  /** Files that another run has. */
  readonly otherRow?: readonly string[];
  /** Kubernetes versions whose real builds are there. */
  readonly builds?: readonly string[];
  /** Directory of a cluster of real nodes that is up. */
  readonly cluster?: string;
}

/** The linker of upstream's tests takes two gigabytes, a stack as much. Bytes. */
const freeMemoryToBuild = 8e9;
const slowestCount = 15;
/** Kubernetes versions whose real builds tenants have in CI, to be changed to the default one. */
const changedBuilds = ['1.36.1', '1.35.4'];
const allBuilds = [...changedBuilds, '1.34.4'];
const buildsSuite = 'test/version-change.test.ts';
/**
 * End-to-end suites that the row takes which ends first, each group on a stack of its own, the longest first: both rows
 * end at about the same time, however fast the machine is. What they make manager and syncer do is done in suites of the
 * first row too: there each right has to be of use.
 */
const endToEndAtEnd = [
  ['test/stack.test.ts', 'test/renewal.test.ts'],
  ['test/drivers/process.test.ts', buildsSuite],
  ['test/managers.test.ts', 'test/move.test.ts'],
];

/**
 * `npm test`: fetches or builds the control plane binaries, then runs two rows of suites beside each other: most
 * end-to-end suites; and the unit tests and, where the machine can, the suites on a Docker engine, on real nodes and some
 * of upstream's conformance specs. The row that ends first takes the other end-to-end suites, group by group, and so does
 * the other one then. `--all` (`npm run test:all`) adds the broad suites and specs. Other arguments go to vitest:
 * `npm test -- -t "four cases"`; with them conformance is left out, and the first row has all end-to-end suites.
 *
 * With CI=true, or `--rerun`, each file that failed runs once more. If it then passes, the run is green and the closing
 * lines name its tests as flaky. At SKERRY_TEST_DEADLINE (seconds since the epoch) all but the unit tests end, and the closing
 * lines name what did not run. Output and reports of all runs are kept in SKERRY_TEST_OUTPUT (default: a temporary
 * directory, whose path is printed).
 */
class TestRun {
  readonly #args: readonly string[];
  readonly #isWhole: boolean;
  readonly #all: boolean;
  readonly #mayRerun: boolean;
  readonly #output: string;
  readonly #reports: ProjectReport[] = [];
  readonly #flaky: string[] = [];
  readonly #leftOut: string[] = [];
  /** Nothing was in the cache: builds alone take half of the hour that a run may take. */
  #isNewMachine = false;

  constructor(args: readonly string[]) {
    const own = new Set(['--all', '--rerun']);
    this.#args = args.filter((each) => !own.has(each));
    this.#isWhole = this.#args.length === 0;
    this.#all = args.includes('--all');
    this.#mayRerun = Boolean(process.env['CI']) || args.includes('--rerun');
    const named = process.env['SKERRY_TEST_OUTPUT'];
    this.#output = named ? resolve(named) : mkdtempSync(join(tmpdir(), 'skerry-test-'));
    mkdirSync(this.#output, { recursive: true });
  }

  /** Resolves to the exit code. */
  async run(): Promise<number> {
    const missing = new Map<TestEnvironment, string>();
    for (const each of [dockerEngine, realNodes]) {
      const reason = await each.whyNot();
      if (reason === undefined) continue;
      missing.set(each, reason);
      console.log(`the suites on ${each.title} will not run: ${reason}`);
    }
    this.#isNewMachine = await provideBinaries();
    const prepare = async (each: TestEnvironment): Promise<string | undefined> =>
      missing.get(each) ?? each.prepare().then(nothing, (error: Error) => error.message);
    // One after the other, as each build takes all processors; beside the suites that can run meanwhile.
    const docker = prepare(dockerEngine);
    const nodes = docker.then(() => prepare(realNodes));
    const otherBuilds = nodes.then(() =>
      this.#builds.length > 0 ? provideBinaries(this.#builds) : undefined,
    );
    otherBuilds.catch(nothing);
    const atEnd = this.#groupsAtEnd();
    const takeAtEnd = async (): Promise<void> => {
      await otherBuilds;
      for (let group = atEnd.shift(); group !== undefined; group = atEnd.shift())
        await this.#project('e2e', group.name, { files: group.files, builds: this.#builds });
    };
    const onControlPlanes = async (): Promise<void> => {
      await this.#project('e2e', 'e2e', this.#hasTwoStacks ? { otherRow: endToEndAtEnd.flat() } : {});
      await takeAtEnd();
    };
    const onOthers = async (): Promise<void> => {
      await this.#project('unit');
      await this.#on(dockerEngine, await docker, async () => {
        if (this.#all) await otherBuilds;
        await this.#project('docker', 'docker', this.#all ? { builds: this.#builds } : {});
      });
      await this.#on(realNodes, await nodes, () => this.#onNodes());
      await takeAtEnd();
    };
    // A machine that is short of memory runs one row after the other.
    if (freemem() > freeMemoryToBuild) await Promise.all([onControlPlanes(), onOthers()]);
    else {
      await onOthers();
      await onControlPlanes();
    }
    return this.#conclude();
  }

  /** Whether end-to-end suites run on two stacks beside each other: not on one that was started by hand. */
  get #hasTwoStacks(): boolean {
    return this.#isWhole && !process.env['SKERRY_E2E_STATE'];
  }

  /** The suites on real nodes and the conformance specs, on one cluster. */
  async #onNodes(): Promise<void> {
    if (!this.#isWhole || this.#isLate('real-node')) return this.#project('real-node');
    const held = await this.#heldCluster();
    if (held === undefined) return;
    await this.#project('real-node', 'real-node', { cluster: held.directory, builds: this.#builds });
    await this.#conformance(held.directory);
    const runError = await held.close();
    if (runError !== undefined) this.#reports.push({ project: realNodes.title, files: [], runError });
  }

  async #heldCluster() {
    const report = ({ message }: Error): ProjectReport => ({
      project: realNodes.title,
      files: [],
      runError: message,
    });
    const first = await holdCluster().catch(report);
    if ('close' in first) return first;
    const mayStart = this.#mayRerun && !this.#isLate('real-node');
    if (mayStart) console.log(`${realNodes.title}: starting once more: ${first.runError}`);
    const second = mayStart ? await holdCluster().catch(report) : first;
    if ('close' in second) {
      this.#flaky.push(`${realNodes.title} > start`);
      return second;
    }
    this.#reports.push(second);
    return undefined;
  }

  /** Runs suites on an environment, unless there is a `reason` why it is not there. */
  async #on(
    environment: TestEnvironment,
    reason: string | undefined,
    suites: () => Promise<void>,
  ): Promise<void> {
    if (reason === undefined) return suites();
    this.#leftOut.push(`the suites on ${environment.title} did not run: ${reason}`);
    if (environment.isRequired(process.env))
      this.#reports.push({ project: environment.title, files: [], runError: reason });
  }

  /** Kubernetes versions whose real builds are started. */
  get #builds(): readonly string[] {
    if (!this.#isWhole) return [];
    if (this.#all) return allBuilds;
    return process.env['CI'] && !this.#isNewMachine ? changedBuilds : [];
  }

  /** With the suite of changes between real builds, where these are started. */
  #groupsAtEnd(): { name: string; files: string[] }[] {
    if (!this.#hasTwoStacks) return [];
    const hasBuilds = this.#builds.length > 0;
    if (!hasBuilds)
      this.#leftOut.push(
        'changes between real builds did not run: in CI, once the machine has the default build, or by npm run test:all, they do',
      );
    return endToEndAtEnd.map((files, index) => ({
      name: `e2e-at-end-${index + 1}`,
      files: files.filter((each) => hasBuilds || each !== buildsSuite),
    }));
  }

  #isLate(project: string): boolean {
    return Date.now() >= deadlineMs(project, process.env);
  }

  #leaveOut(names: readonly string[]): void {
    for (const each of names) this.#leftOut.push(`did not run, as the time was over: ${each}`);
  }

  async #project(project: string, name = project, part: PartOfProject = {}): Promise<void> {
    if (this.#isLate(project)) return this.#leaveOut(part.files ?? [name]);
    const first = await this.#vitest(project, name, part);
    const failed = failedFiles(first);
    const isToStart = hasNotBegun(first);
    if (!this.#mayRerun || (failed.length === 0 && !isToStart) || this.#isLate(project)) {
      this.#reports.push(first);
      return;
    }
    console.log(`${name}: running once more ${isToStart ? 'all of it' : `what failed: ${failed.join(' ')}`}`);
    // On a cluster of its own: what has failed may have left something.
    const { cluster: _, ...rest } = part;
    this.#takeSecond(
      first,
      await this.#vitest(project, `${name}-second`, {
        ...rest,
        files: isToStart ? (part.files ?? []) : failed,
      }),
    );
  }

  async #conformance(cluster: string): Promise<void> {
    if (this.#isLate('conformance')) return this.#leaveOut(['conformance']);
    const folder = join(this.#output, 'conformance');
    const isRepresentative = this.#all;
    const first = await runConformance({ folder, cluster, isRepresentative });
    if (!this.#mayRerun || failedFiles(first).length === 0) this.#reports.push(first);
    else {
      // On a cluster of its own, too.
      const second = { folder: `${folder}-second`, isRepresentative, resume: folder };
      this.#takeSecond(first, await runConformance(second));
    }
  }

  #takeSecond(first: ProjectReport, second: ProjectReport): void {
    const { report, flaky } = withSecondRun(first, second);
    this.#reports.push(report);
    this.#flaky.push(...flaky);
  }

  /** One run of vitest. */
  async #vitest(
    project: string,
    name: string,
    { files = [], otherRow = [], builds = [], cluster }: PartOfProject,
  ): Promise<ProjectReport> {
    const json = join(this.#output, `${name}.json`);
    // Else the report of an earlier run with the same folder would stand for that of one that ends without any.
    rmSync(json, { force: true });
    const reporters = [
      ...['default', 'json', './scripts/test-deadline.ts'].map((each) => `--reporter=${each}`),
      `--outputFile.json=${json}`,
    ];
    const isPart = files.length > 0;
    const logs = process.env['SKERRY_E2E_LOGS'];
    const isFiltered = !this.#isWhole;
    const run = execa('vitest', ['run', '--project', project, ...reporters, ...this.#args, ...files], {
      stdin: 'inherit',
      stdout: ['inherit', 'pipe'],
      stderr: ['inherit', 'pipe'],
      all: true,
      preferLocal: true,
      reject: false,
      env: {
        // Only all suites together use every right of manager and syncer.
        ...(this.#isWhole && !isPart ? { SKERRY_ALL_SUITES: '1' } : {}),
        ...(this.#all ? { SKERRY_TEST_ALL: '1' } : {}),
        SKERRY_E2E_EARLIER_VERSIONS: builds.join(','),
        SKERRY_E2E_LEFT_OUT: otherRow.join(','),
        ...(this.#isWhole && logs ? { SKERRY_E2E_LOGS: join(logs, name) } : {}),
        ...(cluster === undefined ? {} : { SKERRY_REAL_NODE_CLUSTER: cluster }),
      },
    });
    run.all.pipe(createWriteStream(join(this.#output, `${name}.log`)));
    const { exitCode, stderr } = await run;
    const whole = { project, files: readFiles(json) };
    // Without a report it ended for another reason.
    const isCut = this.#isLate(project) && whole.files.length > 0;
    if (!isCut) return withRunError(whole, { exitCode, stderr, isFiltered });
    const { report, unrun } = withoutUnrun(whole);
    this.#leaveOut(unrun);
    return withRunError(report, { exitCode, stderr, isCut });
  }

  #conclude(): number {
    for (const line of this.#leftOut) console.log(line);
    const { failures, leftOut, secondTries, failed, passed, text } = summarise(this.#reports);
    console.log('slowest suites (their tests, without hooks):');
    for (const line of slowestFiles(this.#reports, slowestCount)) console.log(line);
    console.log(`output and reports: ${this.#output}`);
    // A filter skips most tests.
    if (this.#isWhole) for (const test of leftOut) console.log(`skipped: ${test}`);
    for (const each of secondTries) console.log(`second try: ${each}`);
    for (const failure of failures) console.log(failure);
    for (const test of this.#flaky) console.log(`flaky: ${test}`);
    if (passed + failed === 0) console.log(`no test matches ${this.#args.join(' ')}`);
    console.log(text);
    return failed > 0 || passed === 0 ? 1 : 0;
  }
}

const nothing = (): undefined => undefined;

function readFiles(json: string): readonly FileReport[] {
  if (!existsSync(json)) return [];
  return (JSON.parse(readFileSync(json, 'utf8')) as { testResults: readonly FileReport[] }).testResults;
}

process.exitCode = await new TestRun(process.argv.slice(2)).run();
