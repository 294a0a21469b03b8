import type { LocalStack } from '../../local-stack/index.ts';
import type { Cli } from '../context.ts';
import { CliError } from '../errors.ts';
import type { Progress } from '../progress/index.ts';
import { claimStateDirectory } from '../state/state-directory.ts';
import { asSupervisor } from '../state/supervisor-lock.ts';
import { tellEvents } from './events.ts';
import type { UpOptions } from './options.ts';
import { startAll } from './start.ts';
import { stopAll } from './stop.ts';
import type { UpSummary } from './summary.ts';

/** Both a terminal and npm may hand on one and the same Ctrl-C. */
const oneKeypressMs = 1_000;

export interface SuperviseOptions extends UpOptions {
  progress: Progress;
  onReady: (summary: UpSummary) => void;
}

/** Brings everything up, keeps it up until a signal comes, and stops it all in order. */
export async function supervise(cli: Cli, options: SuperviseOptions): Promise<void> {
  const { stateDir, progress, isDetached } = options;
  const stop = new AbortController();
  const force = new AbortController();
  let firstAt = 0;
  cli.onSignal((signal) => {
    const now = cli.clock.monotonic();
    if (!stop.signal.aborted) {
      firstAt = now;
      progress.note('Stopping everything; Ctrl-C again kills it.');
      stop.abort(new Error(`received ${signal}`));
    } else if (signal === 'SIGINT' && now - firstAt > oneKeypressMs) {
      force.abort(new Error('received a second SIGINT'));
    }
  });
  await claimStateDirectory(stateDir);
  await asSupervisor({ stateDir, clock: cli.clock, signal: stop.signal, isDetached }, async () => {
    let stack: LocalStack | undefined;
    let failure: unknown;
    let isUp = false;
    try {
      const { summary, superCluster } = await startAll(cli, options, {
        progress,
        signal: stop.signal,
        onStack: (made) => {
          stack = made;
        },
      });
      isUp = true;
      options.onReady(summary);
      await tellEvents({ stack, superCluster, progress, clock: cli.clock, signal: stop.signal });
    } catch (error) {
      if (!stop.signal.aborted) {
        failure = error;
        if (stack !== undefined) progress.note('That failed; stopping what was started.');
      }
    }
    if (stack !== undefined) await stopInOrder(stack, options, force.signal);
    if (failure !== undefined) throw failure;
    progress.note('Stopped. The state is kept: "up" with the same --state-dir resumes.');
    if (!isUp) throw new CliError('Interrupted', 'stopped before everything was up');
  });
}

async function stopInOrder(
  { driver }: LocalStack,
  { stateDir, progress }: SuperviseOptions,
  force: AbortSignal,
): Promise<void> {
  try {
    await stopAll({ stateDir, progress, driver, signal: force });
  } catch (error) {
    if (!force.aborted) throw error;
    progress.note('Killing what is left.');
    await stopAll({ stateDir, progress, driver, signal: AbortSignal.timeout(60_000), force: true });
  }
}
