import type { Load, RunResult, Target } from './generator/protocol.ts';
import { missing } from './measure/figures.ts';
import { type Round, type RoundWork, runRounds } from './rounds.ts';

export type PodRound = Round<RunResult>;

export interface PodRounds extends Pick<RoundWork<RunResult>, 'lab' | 'options' | 'sides' | 'whileLoaded'> {
  loads: (targets: readonly Target[]) => Load[];
  withTokens?: boolean;
}

/** Rounds in which pods are created and become Ready. */
export function runPodRounds({ loads, withTokens = false, ...work }: PodRounds): Promise<PodRound[]> {
  const { lab, options } = work;
  return runRounds({
    ...work,
    measure: async (targets, _side, repeat) => {
      const run = {
        podPrefix: `r${repeat}`,
        loads: loads(targets),
        withTokens,
        timeoutMs: options.timeoutMs,
      };
      const result = await lab.generator.ask('run', run, lab.signal);
      for (const failure of result.failures) lab.tell(`  ${failure}`);
      return result;
    },
    count: ({ pods }) => pods.length,
    describe: ({ pods }) => `${pods.length - missing(pods)} of ${pods.length} pods Ready`,
  });
}
