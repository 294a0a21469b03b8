import type { BullmqRunner, BullmqRunnerOptions } from './bullmq-runner.ts';

/** Only who shares jobs pays for the client of Redis. */
export async function loadBullmq(options: BullmqRunnerOptions): Promise<BullmqRunner> {
  const { BullmqRunner } = await import('./bullmq-runner.ts');
  return new BullmqRunner(options);
}
