import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** It waits for seven minutes until a token is renewed: the others run meanwhile. */
const waiting = 'test/real-node/tokens.test.ts';

/** The usual order, but for the one suite that mostly waits: that goes first. */
export class LongestSuiteFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const isWaiting = ({ moduleId }: TestSpecification): boolean => moduleId.endsWith(waiting);
    return [...sorted.filter(isWaiting), ...sorted.filter((file) => !isWaiting(file))];
  }
}
