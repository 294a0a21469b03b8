import type { Step } from './step.ts';

/** Rows of steps that need nothing of each other: each row in its order, the rows at once. */
export interface SideBySide {
  readonly rows: readonly (readonly Step[])[];
}

export type Stage = Step | SideBySide;

export function sideBySide(...rows: (readonly Step[])[]): SideBySide {
  return { rows };
}

/** The step that has failed, with what it has thrown as the cause. */
export class StepFailed extends Error {
  readonly step: Step;

  constructor(step: Step, cause: unknown) {
    super(`${step.name} has failed`, { cause });
    this.step = step;
  }
}

/**
 * Runs stages one after the other. A row that fails does not stop the rows beside it, which are short; its failure
 * is thrown when they have ended, as StepFailed.
 */
export async function runStages(
  stages: readonly Stage[],
  perform: (step: Step) => Promise<void>,
): Promise<void> {
  for (const stage of stages) {
    const rows = 'rows' in stage ? stage.rows : [[stage]];
    const results = await Promise.allSettled(rows.map((row) => runRow(row, perform)));
    for (const result of results) if (result.status === 'rejected') throw result.reason;
  }
}

async function runRow(row: readonly Step[], perform: (step: Step) => Promise<void>): Promise<void> {
  for (const step of row) {
    try {
      await perform(step);
    } catch (error) {
      throw new StepFailed(step, error);
    }
  }
}
