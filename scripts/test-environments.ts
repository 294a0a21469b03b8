import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { execa } from 'execa';
import type { ProjectReport } from './test-report.ts';

/** What some suites need beyond Node and the binaries. */
export interface TestEnvironment {
  readonly title: string;
  /** Why this machine has not got it, in one line; undefined when it has. */
  whyNot(): Promise<string | undefined>;
  /** In CI a machine without it is a failure. */
  isRequired(env: Readonly<Record<string, string | undefined>>): boolean;
  /** Builds what it needs, unless it was built before, at low priority. */
  prepare(): Promise<void>;
}

function environment(
  title: string,
  main: string,
  requiredBy: string,
  preparations: readonly (readonly string[])[],
): TestEnvironment {
  return {
    title,
    async whyNot() {
      const { exitCode, stdout, stderr } = await execa(process.execPath, [main, 'check'], { reject: false });
      return exitCode === 0 ? undefined : stdout || stderr;
    },
    isRequired: (env) => Boolean(env[requiredBy] || env['CI']),
    async prepare() {
      // Below the tests, but not so far that it stands still beside them: what comes next waits for it.
      for (const work of preparations)
        await execa('nice', ['-n', '10', process.execPath, main, ...work], { stdio: 'inherit' });
    },
  };
}

/** A Docker engine of the tests' own, Docker Compose and images. */
export const dockerEngine = environment(
  'a Docker engine',
  'test/docker/engine/main.ts',
  'SKERRY_REQUIRE_DOCKER',
  [['prepare']],
);

/** Kubelet, containerd and images for nodes in namespaces of this machine; upstream's conformance tests. */
export const realNodes = environment('real nodes', 'test/real-node/main.ts', 'SKERRY_REQUIRE_REAL_NODE', [
  ['prepare', '--images', 'all'],
  ['build', 'ginkgo', 'e2e.test'],
]);

/** A super cluster of real nodes that is up. */
interface HeldCluster {
  readonly directory: string;
  /** Takes it down. Resolves to why that has failed; undefined: nothing of it is left. */
  close(): Promise<string | undefined>;
}

/** Starts one with two nodes and all images, for the suites and the conformance specs after them. Rejects with the reason. */
export async function holdCluster(): Promise<HeldCluster> {
  const home = mkdtempSync(join(tmpdir(), 'skerry-real-node-'));
  const directory = join(home, 'cluster');
  const args = ['hold', '--state-dir', directory, '--nodes', '2', '--images', 'all'];
  // It ends when its standard input does, and so with this process.
  const holder = execa(process.execPath, ['test/real-node/main.ts', ...args], {
    stdin: 'pipe',
    stderr: ['inherit', 'pipe'],
    reject: false,
  });
  const close = async (): Promise<string | undefined> => {
    holder.stdin.end();
    const { exitCode, signal, stderr } = await holder;
    if (exitCode !== 0)
      return `the cluster of real nodes in ${home} ended with ${signal ?? exitCode}: ${stderr.slice(-2_000)}`;
    rmSync(home, { recursive: true, force: true });
    return undefined;
  };
  const lines = createInterface(holder.stdout);
  const isUp = await new Promise<boolean>((resolve) => {
    lines.once('line', (line) => resolve(line === 'up'));
    lines.once('close', () => resolve(false));
  });
  if (isUp) return { directory, close };
  throw new Error((await close()) ?? `the cluster of real nodes in ${home} ended while it started`);
}

interface ConformanceRun {
  /** Where results are written to. */
  readonly folder: string;
  /** Directory of the cluster where they run; default: one of its own. */
  readonly cluster?: string;
  /** The longer one of the two selections of `npm run conformance`. */
  readonly isRepresentative: boolean;
  /** Of an earlier run, whose specs that passed are not run again. */
  readonly resume?: string;
}

/** Runs a selection of upstream's conformance specs through a tenant; each spec counts as a test. */
export async function runConformance(options: ConformanceRun): Promise<ProjectReport> {
  const { folder, cluster, isRepresentative, resume } = options;
  // A run that came to no results has left none to go on from.
  const earlier = resume === undefined ? [] : [join(resume, 'tenant.json')].filter(existsSync);
  const args = [
    ...['--out', folder],
    ...(cluster === undefined ? [] : ['--cluster', cluster]),
    ...(isRepresentative ? ['--representative'] : []),
    ...earlier.flatMap((results) => ['--resume', results]),
  ];
  const file = join(folder, 'tenant.json');
  // Else results of an earlier run with the same folder would stand for those of one that ends without any.
  rmSync(file, { force: true });
  const run = await execa(process.execPath, ['test/conformance/main.ts', ...args], {
    stdio: 'inherit',
    reject: false,
  });
  const results = existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as ConformanceSpec[]) : [];
  return conformanceReport(results, run.exitCode === 0);
}

interface ConformanceSpec {
  readonly name: string;
  readonly verdict: string;
  readonly message?: string;
}

/** A spec that fails for a reason that has been accepted does not let the run fail, and counts as left out. */
export function conformanceReport(specs: readonly ConformanceSpec[], hasPassed: boolean): ProjectReport {
  const assertionResults = specs.map(({ name, verdict, message = '' }) => ({
    fullName: name,
    status: verdict === 'failed' && hasPassed ? 'skipped' : verdict,
    failureMessages: [message],
  }));
  const status = hasPassed ? 'passed' : 'failed';
  return { project: 'conformance', files: [{ name: 'conformance', status, assertionResults }] };
}
