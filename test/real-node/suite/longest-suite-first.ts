import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Suites that take minutes, the longest first: started last, they would run alone at the end. */
const long = ['chart', 'kubernetes-manager', 'kubernetes-replicas', 'workloads', 'kubernetes-driver'].map(
  (name) => `test/real-node/${name}.test.ts`,
);

/** The usual order, but for the long suites: these go first. */
export class LongestSuiteFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification): number => {
      const index = long.findIndex((each) => moduleId.endsWith(each));
      return index === -1 ? long.length : index;
    };
    return (await super.sort(files)).toSorted((a, b) => rank(a) - rank(b));
  }
}
