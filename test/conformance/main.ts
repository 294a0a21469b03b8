import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command, InvalidArgumentError, Option } from 'commander';
import { Binaries, defaultCacheDirectory, defaultVersions } from '../../vc-manager/binaries/index.ts';
import { Cache, providePrograms } from '../real-node/build/programs.ts';
import type { ClusterInfo } from '../real-node/cluster/cluster-info.ts';
import { startCluster, stopCluster } from '../real-node/cluster/start-cluster.ts';
import { type ImageName, imageRecipes } from '../real-node/images/recipes.ts';
import { acceptedDifferences, compare } from './compare.ts';
import { full, representative, runSpecs, type Selection, type SpecResult, short, without } from './specs.ts';
import { createConformanceTenant } from './tenant.ts';

interface Flags {
  representative?: boolean;
  full?: boolean;
  focus?: string;
  against: 'tenant' | 'super' | 'both';
  cluster?: string;
  direct?: string;
  resume?: string;
  out?: string;
  processes: number;
  timeout: number;
}

const nodes = 2;

function positive(text: string): number {
  const number = Number(text);
  if (!Number.isInteger(number) || number < 1) throw new InvalidArgumentError('give a whole number from 1');
  return number;
}

function command(): Command {
  return new Command('conformance')
    .description(
      "Runs Kubernetes' own end-to-end tests on two real nodes through a tenant, and on the super cluster itself " +
        'to compare. Needs root. Ends with 1 when a spec fails through the tenant only and nobody has said why ' +
        '(compare.ts).',
    )
    .option('--representative', 'a few minutes of specs from all groups')
    .option('--full', 'all conformance specs that may run beside each other: hours rather than minutes')
    .option('--focus <regex>', 'specs whose name matches, instead of the short selection')
    .addOption(
      new Option('--against <side>', 'where they run').choices(['tenant', 'super', 'both']).default('tenant'),
    )
    .option('--cluster <directory>', 'a cluster of test/real-node/main.ts that is up, with --images all')
    .option('--direct <file>', 'results of an earlier run against the super cluster to compare with')
    .option(
      '--resume <file>',
      'results of an earlier run through a tenant: what passed there is not run again',
    )
    .option('--out <directory>', 'where results are written to, as JSON, and all that ginkgo prints')
    .option('--processes <n>', 'specs at once', positive, 2)
    .option('--timeout <minutes>', 'for each side', positive, 30);
}

function selectionOf(flags: Flags): Selection {
  if (flags.focus !== undefined) return { ...full, focus: flags.focus };
  if (flags.full === true) return full;
  // What is known to fail takes a minute and a half to do so; the full run still shows that it does.
  return without(
    flags.representative === true ? representative : short,
    [...acceptedDifferences.keys()].map((name) => ({ name })),
  );
}

async function main(): Promise<number> {
  const flags = command().parse().opts<Flags>();
  const tell = (line: string): void => console.log(line);
  const signal = new AbortController().signal;
  const cache = new Cache({ env: process.env, signal, tell });
  const built = await providePrograms(cache, ['ginkgo', 'e2e.test']);
  const binaries = new Binaries({ cacheDir: defaultCacheDirectory(process.env), env: process.env });
  const kubectl = await binaries.ensure({ name: 'kubectl', version: defaultVersions.kubernetes }, { signal });
  const directory = mkdtempSync(join(tmpdir(), 'skerry-conformance-'));
  const own = join(directory, 'cluster');
  if (flags.out !== undefined) mkdirSync(flags.out, { recursive: true });
  const failures: string[] = [];
  const done = earlier(flags.resume).filter(({ verdict }) => verdict === 'passed');
  try {
    const cluster = flags.cluster === undefined ? await start(own, flags, tell) : running(flags.cluster);
    const run = async (side: 'tenant' | 'super', kubeconfigFile: string): Promise<SpecResult[]> => {
      const { results, failure } = await runSpecs({
        kubeconfigFile,
        programs: { ...built, kubectl: kubectl.path },
        selection: without(selectionOf(flags), done),
        nodes,
        processes: flags.processes,
        timeoutMinutes: flags.timeout,
        ...(flags.out === undefined ? {} : { logFile: join(flags.out, `${side}.log`) }),
        tell,
      });
      if (failure !== undefined) failures.push(failure);
      const all = side === 'tenant' ? [...done, ...results] : results;
      if (flags.out !== undefined) save(flags.out, side, all);
      return all;
    };
    const direct =
      flags.against === 'tenant' ? earlier(flags.direct) : await run('super', cluster.superKubeconfigFile);
    if (flags.against === 'super') {
      const failed = direct.filter(({ verdict }) => verdict === 'failed');
      tell(compare([], direct, new Map()).table);
      for (const { name, message } of failed) tell(`failed: ${name}: ${message}`);
      for (const failure of failures) tell(`FAILED: ${failure}`);
      return failed.length + failures.length === 0 ? 0 : 1;
    }
    const tenant = await createConformanceTenant(cluster, directory, kubectl.path);
    try {
      const exitCode = conclude(await run('tenant', tenant.kubeconfigFile), direct, tell);
      for (const failure of failures) tell(`FAILED: ${failure}`);
      return failures.length === 0 ? exitCode : 1;
    } finally {
      await tenant.close();
    }
  } finally {
    await stopCluster(own);
    rmSync(directory, { recursive: true, force: true });
  }
}

function start(
  directory: string,
  { against }: Pick<Flags, 'against'>,
  tell: (line: string) => void,
): Promise<ClusterInfo> {
  const images = Object.keys(imageRecipes) as ImageName[];
  return startCluster({ directory, nodes, withDns: against !== 'tenant', images, tell });
}

function running(directory: string): ClusterInfo {
  const file = join(directory, 'cluster.json');
  if (!existsSync(file))
    throw new Error(`no cluster is up in ${directory}: start one with test/real-node/main.ts up`);
  return JSON.parse(readFileSync(file, 'utf8')) as ClusterInfo;
}

function earlier(file: string | undefined): SpecResult[] {
  return file === undefined ? [] : (JSON.parse(readFileSync(file, 'utf8')) as SpecResult[]);
}

function save(directory: string, side: string, results: readonly SpecResult[]): void {
  writeFileSync(join(directory, `${side}.json`), `${JSON.stringify(results, undefined, 2)}\n`);
}

function conclude(
  tenant: readonly SpecResult[],
  direct: readonly SpecResult[],
  tell: (line: string) => void,
): number {
  const { table, unexplained, explained, failedOnBoth } = compare(tenant, direct, acceptedDifferences);
  tell(table);
  for (const { name, message } of failedOnBoth) tell(`failed on both sides: ${name}: ${message}`);
  for (const { spec, reason } of explained) tell(`not for tenants: ${spec.name}: ${reason}`);
  for (const { name, message } of unexplained) tell(`FAILED: ${name}: ${message}`);
  if (!tenant.some(({ verdict }) => verdict === 'passed')) tell('FAILED: no spec passed');
  return unexplained.length === 0 && tenant.some(({ verdict }) => verdict === 'passed') ? 0 : 1;
}

process.exitCode = await main();
