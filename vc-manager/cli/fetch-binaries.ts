import { Binaries, type BinaryName, type BinaryProgress, defaultCacheDirectory } from '../binaries/index.ts';
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

/** About how long each takes to build, one after the other on two processors, in seconds; those after the first share most packages with it. */
const weights: Readonly<Record<BinaryName, number>> = {
  etcd: 60,
  'kube-apiserver': 240,
  'kube-controller-manager': 70,
  'kube-scheduler': 30,
  kwok: 60,
  kubectl: 30,
};

/** Below it, what the time says of the rest is worth nothing. */
const leastShare = 0.03;

/** How much is done of all that was begun, and for how long it will go on. */
export class FetchShare {
  readonly #startedAtMs: number;
  /** By name and version, 0 to 1. */
  readonly #done = new Map<string, { weight: number; share: number; how: string }>();
  #current = '';

  constructor(startedAtMs: number) {
    this.#startedAtMs = startedAtMs;
  }

  add({ name, version, stage, message, percent }: BinaryProgress): void {
    const id = `${name} ${version}`;
    const before = this.#done.get(id)?.share ?? 0;
    const share = stage === 'ready' ? 1 : Math.max(before, (percent ?? 0) / 100);
    this.#done.set(id, { weight: weights[name], share, how: stage === 'ready' ? message : '' });
    if (stage !== 'ready' && stage !== 'waiting') this.#current = `${stage} ${id}, ${message}`;
  }

  get isComplete(): boolean {
    return [...this.#done.values()].every(({ share }) => share === 1);
  }

  /** `5 built, 1 downloaded`. */
  get summary(): string {
    const counts = Map.groupBy(this.#done.values(), ({ how }) => how);
    return [...counts].map(([how, all]) => `${all.length} ${how}`).join(', ');
  }

  message(nowMs: number): string {
    const all = [...this.#done.values()];
    const whole = all.reduce((sum, { weight }) => sum + weight, 0);
    const share = all.reduce((sum, { weight, share: part }) => sum + weight * part, 0) / whole;
    const leftMs = ((nowMs - this.#startedAtMs) * (1 - share)) / share;
    const left = share < leastShare ? '' : `, about ${roughly(leftMs)} left`;
    return `${Math.floor(share * 100)} %${left}: ${this.#current}`;
  }
}

function roughly(ms: number): string {
  return ms < 60_000 ? `${Math.max(5, Math.round(ms / 5_000) * 5)} s` : `${Math.round(ms / 60_000)} min`;
}
