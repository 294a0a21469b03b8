import { Binaries, type BinaryProgress, defaultCacheDirectory, FetchShare } from '../binaries/index.ts';
import type { Cli } from './context.ts';
import type { Progress, Step } from './progress.ts';

/** How often a log that is not a terminal gets a line of it. Milliseconds. */
const lineMs = 10_000;
/** A build is silent for minutes while it links or compiles one large package; meanwhile the time goes on. */
const tickMs = 1_000;

interface Running {
  step: Step;
  share: FetchShare;
  ended: AbortController;
}

/** Binaries whose progress is shown as one step for all that are not on this machine already. */
export function binariesWithProgress(
  { env, clock }: Pick<Cli, 'env' | 'clock'>,
  progress: Progress,
): Binaries {
  return new Binaries({
    cacheDir: defaultCacheDirectory(env),
    env,
    clock,
    onProgress: showFetching(progress, clock),
  });
}

/** Shows news of several binaries as one step, which ends when all of them are there or cannot be had. */
export function showFetching(progress: Progress, clock: Cli['clock']): (news: BinaryProgress) => void {
  let running: Running | undefined;
  const noted = new Set<string>();
  const begin = (): Running => {
    const begun: Running = {
      step: progress.step('Fetching Kubernetes', { lineMs }),
      share: new FetchShare(clock.monotonic()),
      ended: new AbortController(),
    };
    void tick(begun, clock);
    return begun;
  };
  return (news) => {
    const { name, version, stage, message } = news;
    if (stage === 'note') {
      // The same of each program, when a server cannot be reached.
      const text = message.replaceAll(name, 'it');
      if (!noted.has(text)) progress.note(`  ${name} ${version}: ${message}`);
      noted.add(text);
      return;
    }
    running ??= begin();
    const { step, share, ended } = running;
    share.add(news);
    if (!share.isComplete) {
      step.update(share.message(clock.monotonic()));
      return;
    }
    if (share.hasFailed) step.fail(share.summary);
    else step.done(share.summary);
    ended.abort();
    running = undefined;
  };
}

async function tick({ step, share, ended }: Running, clock: Cli['clock']): Promise<void> {
  try {
    for (;;) {
      await clock.sleep(tickMs, ended.signal);
      step.update(share.message(clock.monotonic()));
    }
  } catch (error) {
    if (!ended.signal.aborted) throw error;
  }
}
