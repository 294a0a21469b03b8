import { Binaries, defaultCacheDirectory, FetchShare } from '../binaries/index.ts';
import type { Cli } from './context.ts';
import type { Progress, Step } from './progress.ts';

/** Binaries whose progress is shown as one step for all that are not on this machine already. */
export function binariesWithProgress(
  { env, clock }: Pick<Cli, 'env' | 'clock'>,
  progress: Progress,
): Binaries {
  let running: { step: Step; share: FetchShare } | undefined;
  const noted = new Set<string>();
  return new Binaries({
    cacheDir: defaultCacheDirectory(env),
    env,
    clock,
    onProgress: (news) => {
      const { name, version, stage, message } = news;
      if (stage === 'note') {
        // The same of each program, when a server cannot be reached.
        const text = message.replaceAll(name, 'it');
        if (!noted.has(text)) progress.note(`  ${name} ${version}: ${message}`);
        noted.add(text);
        return;
      }
      running ??= { step: progress.step('Fetching Kubernetes'), share: new FetchShare(clock.monotonic()) };
      const { step, share } = running;
      share.add(news);
      if (share.isComplete) {
        step.done(share.summary);
        running = undefined;
      } else {
        step.update(share.message(clock.monotonic()));
      }
    },
  });
}
