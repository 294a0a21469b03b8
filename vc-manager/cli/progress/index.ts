import type { Cli } from '../context.ts';
import { PlainProgress } from './plain-progress.ts';
import type { Progress } from './progress.ts';
import { TerminalProgress } from './terminal-progress.ts';

export { inStep, type Progress, type Step } from './progress.ts';

/** Fit for where stderr goes. */
export function progressFor({ stderr, clock, env }: Pick<Cli, 'stderr' | 'clock' | 'env'>): Progress {
  const canRedraw = stderr.isTTY === true && env['TERM'] !== 'dumb';
  return canRedraw ? new TerminalProgress(stderr, clock) : new PlainProgress(stderr, clock);
}
