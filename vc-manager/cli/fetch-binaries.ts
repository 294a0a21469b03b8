import { Binaries, defaultCacheDirectory } from '../binaries/index.ts';
import type { Cli } from './context.ts';
import type { Progress, Step } from './progress.ts';

/** Binaries whose progress is shown, one step for each that is not on this machine already. */
export function binariesWithProgress(
  { env, clock }: Pick<Cli, 'env' | 'clock'>,
  progress: Progress,
): Binaries {
  const steps = new Map<string, Step>();
  return new Binaries({
    cacheDir: defaultCacheDirectory(env),
    env,
    clock,
    onProgress: ({ name, version, stage, message, percent }) => {
      const title = `${name} ${version}`;
      const step = steps.get(title) ?? progress.step(title);
      steps.set(title, step);
      if (stage === 'ready') {
        steps.delete(title);
        step.done(message);
      } else if (stage === 'note') {
        progress.note(`  ${title}: ${message}`);
      } else {
        step.update(`${stage}${percent === undefined ? '' : ` ${Math.floor(percent)} %`}, ${message}`);
      }
    },
  });
}
