import type { BinaryName, BinaryProgress } from './binary.ts';

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
  #isBuilding = false;

  constructor(startedAtMs: number) {
    this.#startedAtMs = startedAtMs;
  }

  add({ name, version, stage, message, percent }: BinaryProgress): void {
    const id = `${name} ${version}`;
    const before = this.#done.get(id)?.share ?? 0;
    const share = stage === 'ready' ? 1 : Math.max(before, (percent ?? 0) / 100);
    this.#done.set(id, { weight: weights[name], share, how: stage === 'ready' ? message : '' });
    if (stage === 'building') this.#isBuilding = true;
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
    const byTime = share < leastShare ? undefined : `about ${roughly(leftMs)} left`;
    // A build that has just begun takes as long as its programs do.
    const byWeight = this.#isBuilding ? `about ${roughly(whole * 1_000)} in all` : undefined;
    const left = (byTime ?? byWeight) === undefined ? '' : `, ${byTime ?? byWeight}`;
    return `${Math.floor(share * 100)} %${left}: ${this.#current}`;
  }
}

function roughly(ms: number): string {
  return ms < 60_000 ? `${Math.max(5, Math.round(ms / 5_000) * 5)} s` : `${Math.round(ms / 60_000)} min`;
}
