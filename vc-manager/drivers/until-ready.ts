import type { Clock } from '../../kube/index.ts';
import type { ComponentPlan } from '../control-plane/index.ts';
import { Probe, type ReadFile } from './probe.ts';

/** How long a component without a probe must stay up to count as ready. */
const settleMs = 500;

export interface UntilReadyOptions {
  component: Pick<ComponentPlan, 'probe'>;
  startedAt: Date;
  /** The directory of its files, or how those that the probe names are read. */
  files: string | ReadFile;
  clock: Clock;
  signal: AbortSignal;
  /** Told each time it is not ready yet, in a few words. */
  onProblem: (problem: string) => void;
}

/** Resolves when the component is ready, however long that takes; rejects when aborted. */
export async function untilReady(options: UntilReadyOptions): Promise<void> {
  const { component, startedAt, clock, signal } = options;
  if (component.probe === undefined) {
    const age = clock.now() - startedAt.getTime();
    if (age < settleMs) await clock.sleep(settleMs - Math.max(0, age), signal);
    return;
  }
  const start = clock.monotonic();
  const prober = await Probe.open(component.probe, options.files);
  try {
    for (;;) {
      const problem = await prober.ask(signal);
      if (problem === undefined) return;
      options.onProblem(problem);
      await clock.sleep(pauseMs(clock.monotonic() - start), signal);
    }
  } finally {
    prober.close();
  }
}

/** Somebody waits for what has just been started; what has not come up for long may be asked less often. */
function pauseMs(waitedMs: number): number {
  if (waitedMs < 10_000) return 50;
  return waitedMs < 30_000 ? 250 : 1_000;
}
