import { appendFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';

/** Which specs are run: what ginkgo's `--focus` and `--skip` take. */
export interface Selection {
  readonly focus: string;
  readonly skip: string;
}

/** Specs that need a cluster to themselves, or take longer than everything else together. */
const apart = String.raw`\[Serial\]|\[Disruptive\]|\[Slow\]|\[Flaky\]`;

/** All conformance specs that may run beside each other. */
export const full: Selection = { focus: String.raw`\[Conformance\]`, skip: apart };

/** Of what no suite of ours shows, the quick ones. */
const quick = [
  'should run through the lifecycle of Pods and PodStatus',
  'creating/deleting custom resource definition objects works',
  'should delete pods created by rc when not orphaning',
  'should create a ResourceQuota and capture the life of a pod',
  'should be able to change the type from ExternalName to ClusterIP',
  'should have session affinity work for NodePort service',
  'should run a job to completion when tasks sometimes fail and are not locally restarted',
  'should be submitted and removed',
  'Deployment should have a working scale subresource',
  'Replicaset should have a working scale subresource',
  'ConfigMap updates should be reflected in volume',
];

/** What suites of ours show, too, or what takes long. */
const more = [
  'should be able to deny pod and configmap creation',
  'should mount an API token into pods',
  'ServiceAccountIssuerDiscovery should support OIDC discovery',
  'should provide DNS for services',
  'should provide DNS for pods for Subdomain',
  'should serve a basic endpoint from pods',
  'should function for intra-pod communication: http',
  'Netpol NetworkPolicy between server and client should enforce policy based on PodSelector or NamespaceSelector',
  'Netpol NetworkPolicy between server and client should enforce except clause while egress access',
  'should provide pod UID as env vars',
  'should provide DNS for the cluster',
  'should be able to retrieve and filter logs',
  'should support inline execution and attach',
  'should support exec',
  'should proxy through a service and a pod',
  'updates should be reflected in volume',
  'should perform rolling updates and roll backs of template modifications',
  'deployment should support rollover',
  'should block an eviction until the PDB is updated to allow it',
  'will start an ephemeral container in an existing pod',
  'graceful pod terminated should wait until preStop hook completes the process',
  'should have a working scale subresource',
];

const named = (names: readonly string[]): Selection => ({
  focus: names.map(literally).join('|'),
  skip: apart,
});

/** A minute's worth. */
export const short: Selection = named(quick);

/** A few minutes' worth: one or two specs for each thing that a tenant could tell it is not alone by. */
export const representative: Selection = named([...quick, ...more]);

/** The same, but for specs of these names. */
export function without({ focus, skip }: Selection, specs: readonly { readonly name: string }[]): Selection {
  return { focus, skip: [skip, ...specs.map(({ name }) => literally(name))].join('|') };
}

function literally(name: string): string {
  return name.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);
}

/** One spec as ginkgo's JSON report tells of it; the fields that are read here. */
interface GinkgoSpec {
  ContainerHierarchyTexts: string[] | null;
  LeafNodeType: string;
  LeafNodeText: string;
  State: string;
  /** Nanoseconds. */
  RunTime: number;
  Failure?: { Message?: string };
}

export type Verdict = 'passed' | 'failed' | 'skipped';

export interface SpecResult {
  /** Whole name, as `--focus` matches it. */
  readonly name: string;
  /** `api-machinery` of `[sig-api-machinery]`. */
  readonly sig: string;
  readonly verdict: Verdict;
  readonly durationMs: number;
  /** First line of what went wrong; empty if nothing did. */
  readonly message: string;
}

const verdicts: Readonly<Record<string, Verdict>> = {
  passed: 'passed',
  skipped: 'skipped',
  pending: 'skipped',
};

interface GinkgoSuite {
  readonly SuiteSucceeded?: boolean;
  readonly SpecialSuiteFailureReasons?: readonly string[] | null;
  readonly SpecReports: GinkgoSpec[] | null;
}

/**
 * Why a run has failed beside its specs, undefined when it has not: out of time, a lost process, a failure after the last
 * spec. Specs that were not reached are in no report.
 */
export function runFailure(json: string, exitCode: number | undefined): string | undefined {
  const suites = JSON.parse(json) as GinkgoSuite[];
  const reasons = suites.flatMap(({ SpecialSuiteFailureReasons }) => SpecialSuiteFailureReasons ?? []);
  if (reasons.length > 0) return reasons.join('; ');
  const hasFailedSpec = readReport(json).some(({ verdict }) => verdict === 'failed');
  const isWhole = exitCode === 0 && suites.every(({ SuiteSucceeded }) => SuiteSucceeded !== false);
  return isWhole || hasFailedSpec ? undefined : `ginkgo ended with ${exitCode ?? 'a signal'}`;
}

/** Specs that were selected and run, or that skipped themselves; those that the focus left out are not among them. */
export function readReport(json: string): SpecResult[] {
  const suites = JSON.parse(json) as GinkgoSuite[];
  return suites
    .flatMap(({ SpecReports }) => SpecReports ?? [])
    .filter((spec) => spec.LeafNodeType === 'It' && !(spec.State === 'skipped' && spec.RunTime === 0))
    .map((spec) => {
      const name = [...(spec.ContainerHierarchyTexts ?? []), spec.LeafNodeText].join(' ');
      return {
        name,
        sig: /^\[sig-([a-z-]+)\]/.exec(name)?.[1] ?? 'other',
        verdict: verdicts[spec.State] ?? 'failed',
        durationMs: Math.round(spec.RunTime / 1e6),
        message: (spec.Failure?.Message ?? '').split('\n')[0] ?? '',
      };
    });
}

interface RunOptions {
  kubeconfigFile: string;
  /** Paths. */
  programs: { ginkgo: string; 'e2e.test': string; kubectl: string };
  selection: Selection;
  nodes: number;
  /** Specs at once. */
  processes: number;
  timeoutMinutes: number;
  /** File that everything is written to that ginkgo prints: thousands of lines for a spec that fails. */
  logFile?: string;
  /** How far it is, and what failed. */
  tell: (line: string) => void;
}

const news = /^\s*(•|Running Suite|Running in parallel|Will run|Ran \d|\[FAIL)/;

/** Runs upstream's own tests. Specs that fail are results; throws only when there are none. */
export async function runSpecs(
  options: RunOptions,
): Promise<{ results: SpecResult[]; failure: string | undefined }> {
  const { programs, selection, tell } = options;
  const directory = mkdtempSync(join(tmpdir(), 'skerry-conformance-'));
  try {
    const run = execa(
      programs.ginkgo,
      [
        `--procs=${options.processes}`,
        `--focus=${selection.focus}`,
        `--skip=${selection.skip}`,
        `--timeout=${options.timeoutMinutes}m`,
        '--json-report=report.json',
        `--output-dir=${directory}`,
        '--silence-skips',
        '--no-color',
        programs['e2e.test'],
        '--',
        `--kubeconfig=${options.kubeconfigFile}`,
        `--kubectl-path=${programs.kubectl}`,
        '--provider=skeleton',
        '--disable-log-dump',
        '--allowed-not-ready-nodes=0',
        `--num-nodes=${options.nodes}`,
      ],
      { reject: false, all: true, buffer: false, cwd: directory },
    );
    let last = '';
    for await (const line of run.iterable({ from: 'all' })) {
      last = line || last;
      if (options.logFile !== undefined) appendFileSync(options.logFile, `${line}\n`);
      if (news.test(line)) tell(line);
    }
    const { exitCode } = await run;
    const report = readText(join(directory, 'report.json'));
    if (report === undefined) throw new Error(`the specs did not run: ${last}`);
    return { results: readReport(report), failure: runFailure(report, exitCode) };
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

function readText(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}
