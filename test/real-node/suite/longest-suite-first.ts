import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Suites that take minutes, the longest first: started last, they would run alone at the end. */
const long = ['chart', 'kubernetes-manager', 'kubernetes-replicas', 'workloads', 'kubernetes-driver'].map(
  (name) => `test/real-node/${name}.test.ts`,
);

/** Counts an etcd of its own on to where the shared datastore is: as far as all suites before it have brought that. */
const growing = 'test/move.test.ts';

/** The usual order, but for the long suites and the one that would grow: these go first. */
export class LongestSuiteFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification): number => {
      if (moduleId.endsWith(growing)) return -1;
      const index = long.findIndex((each) => moduleId.endsWith(each));
      return index === -1 ? long.length : index;
    };
    return (await super.sort(files)).toSorted((a, b) => rank(a) - rank(b));
  }
}
