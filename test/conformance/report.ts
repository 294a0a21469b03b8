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

/** Specs that were selected and run, or that skipped themselves; those that the focus left out are not among them. */
export function readReport(json: string): SpecResult[] {
  const suites = JSON.parse(json) as { SpecReports: GinkgoSpec[] | null }[];
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
