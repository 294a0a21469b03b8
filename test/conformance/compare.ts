import type { SpecResult, Verdict } from './specs.ts';

/**
 * Specs that pass on the super cluster itself and not through a tenant, because their subject is something
 * that a tenant rightly does not have: whole name to reason. The run fails for every other difference.
 */
export const acceptedDifferences: ReadonlyMap<string, string> = new Map([
  [
    '[sig-network] HostPort validates that there is no conflict between pods with same hostPort but different hostIP and protocol [LinuxOnly] [Conformance]',
    'puts pods onto a node by spec.nodeName: pods are placed by the scheduler of the super cluster alone',
  ],
  [
    '[sig-network] DNS should provide /etc/hosts entries for the cluster [Conformance]',
    "looks for a pod's qualified name in its /etc/hosts: kubelet would write the super namespace into it, so that it is left to DNS",
  ],
  [
    '[sig-apps] StatefulSet Basic StatefulSet functionality [StatefulSetBasic] Should recreate evicted statefulset [Conformance]',
    'puts a pod onto a node by spec.nodeName: pods are placed by the scheduler of the super cluster alone',
  ],
  ...[
    'should schedule a Pod requesting a RuntimeClass without PodOverhead',
    'should schedule a Pod requesting a RuntimeClass and initialize its Overhead',
  ].map((name): [string, string] => [
    `[sig-node] RuntimeClass ${name} [NodeConformance] [Conformance]`,
    "makes a runtime class of its own: the handlers of nodes are the operator's, who publishes classes",
  ]),
]);

interface Comparison {
  /** Markdown: how many passed, by special interest group. */
  readonly table: string;
  /** Passed or was not run on the super cluster itself, failed through the tenant, and nobody has said why. */
  readonly unexplained: readonly SpecResult[];
  /** The same, with the reason. */
  readonly explained: readonly { readonly spec: SpecResult; readonly reason: string }[];
  /** Failed on both sides. */
  readonly failedOnBoth: readonly SpecResult[];
}

/** `direct` may be empty: then every failure through the tenant has to be explained. */
export function compare(
  tenant: readonly SpecResult[],
  direct: readonly SpecResult[],
  accepted: ReadonlyMap<string, string>,
): Comparison {
  const directVerdicts = new Map(direct.map(({ name, verdict }) => [name, verdict]));
  const unexplained: SpecResult[] = [];
  const explained: { spec: SpecResult; reason: string }[] = [];
  const failedOnBoth: SpecResult[] = [];
  for (const spec of tenant.filter(({ verdict }) => verdict === 'failed')) {
    const reason = accepted.get(spec.name);
    if (directVerdicts.get(spec.name) === 'failed') failedOnBoth.push(spec);
    else if (reason === undefined) unexplained.push(spec);
    else explained.push({ spec, reason });
  }
  return { table: table(tenant, direct), unexplained, explained, failedOnBoth };
}

function table(tenant: readonly SpecResult[], direct: readonly SpecResult[]): string {
  const sigs = [...new Set([...tenant, ...direct].map(({ sig }) => sig))].toSorted();
  const count = (specs: readonly SpecResult[], sig: string | undefined, verdict: Verdict): number =>
    specs.filter((spec) => (sig === undefined || spec.sig === sig) && spec.verdict === verdict).length;
  const side = (specs: readonly SpecResult[], sig?: string): string => {
    if (specs.length === 0) return '-';
    const failed = count(specs, sig, 'failed');
    const passed = count(specs, sig, 'passed');
    const skipped = count(specs, sig, 'skipped');
    return `${passed} of ${passed + failed}${skipped === 0 ? '' : `, ${skipped} skipped`}`;
  };
  return [
    '| group | through a tenant | on the super cluster itself |',
    '| --- | --- | --- |',
    ...sigs.map((sig) => `| ${sig} | ${side(tenant, sig)} | ${side(direct, sig)} |`),
    `| all | ${side(tenant)} | ${side(direct)} |`,
  ].join('\n');
}
