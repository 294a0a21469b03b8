import { Binaries, type BinaryName, defaultCacheDirectory, defaultRequests } from '../binaries/index.ts';
import type { Cli } from './context.ts';
import type { Progress, Step } from './progress.ts';

const ofTheSuperCluster: readonly BinaryName[] = ['kube-scheduler', 'kwok'];

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

/** Fetches what `up` will run, all at once; resolves to where kubectl is. */
export async function fetchBinaries(
  binaries: Binaries,
  options: { isLocal: boolean; signal: AbortSignal },
): Promise<string> {
  const requests = defaultRequests().filter(
    ({ name }) => options.isLocal || !ofTheSuperCluster.includes(name),
  );
  const locations = await binaries.ensureAll(requests, { signal: options.signal });
  return locations.find(({ name }) => name === 'kubectl')?.path ?? 'kubectl';
}
