import type { BinaryName, BinaryProgress } from './binary.ts';

/** About how long each takes to build, one after the other on two processors, in seconds. */
const weights: Readonly<Record<BinaryName, number>> = {
  etcd: 60,
  'kube-apiserver': 60,
  'kube-controller-manager': 70,
  'kube-scheduler': 30,
  kwok: 60,
  kubectl: 30,
};

/** How much longer the first of these takes: it builds the packages that all of one version share. */
const sharedWeight = 180;
const sharing = new Set<BinaryName>(['kube-apiserver', 'kube-controller-manager', 'kube-scheduler']);

/** Below it, what the time says of the rest is worth nothing. */
const leastShare = 0.03;

/** How much is done of all that was begun, and for how long it will go on. */
export class FetchShare {
  readonly #startedAtMs: number;
  /** By name and version, 0 to 1. */
  readonly #done = new Map<string, { weight: number; share: number; how: string }>();
  /** Versions of which the first program that shares its packages is being built, or was. */
  readonly #shared = new Set<string>();
  #current = '';
  #isBuilding = false;
  #hasFailed = false;

  constructor(startedAtMs: number) {
    this.#startedAtMs = startedAtMs;
  }

  add({ name, version, stage, message, percent }: BinaryProgress): void {
    const id = `${name} ${version}`;
    const before = this.#done.get(id)?.share ?? 0;
    const isOver = stage === 'ready' || stage === 'failed';
    const share = isOver ? 1 : Math.max(before, (percent ?? 0) / 100);
    const isFirst = stage === 'building' && sharing.has(name) && !this.#shared.has(version);
    if (isFirst) this.#shared.add(version);
    const weight = (this.#done.get(id)?.weight ?? weights[name]) + (isFirst ? sharedWeight : 0);
    this.#done.set(id, { weight, share, how: isOver ? message : '' });
    if (stage === 'failed') this.#hasFailed = true;
    if (stage === 'building') this.#isBuilding = true;
    if (!isOver && stage !== 'waiting') this.#current = `${stage} ${id}, ${message}`;
  }

  get isComplete(): boolean {
    return [...this.#done.values()].every(({ share }) => share === 1);
  }

  get hasFailed(): boolean {
    return this.#hasFailed;
  }

  /** `5 built, 1 downloaded`. */
  get summary(): string {
    const counts = Map.groupBy(this.#done.values(), ({ how }) => how);
    return [...counts].map(([how, all]) => `${all.length} ${how}`).join(', ');
  }

  /** Of packages that will be built with the first program that shares them. */
  #notBegun(): number {
    const versions = new Set<string>();
    for (const [id, { share }] of this.#done) {
      const [name = '', version = ''] = id.split(' ');
      if (share < 1 && sharing.has(name as BinaryName) && !this.#shared.has(version)) versions.add(version);
    }
    return versions.size * sharedWeight;
  }

  message(nowMs: number): string {
    const all = [...this.#done.values()];
    const whole = all.reduce((sum, { weight }) => sum + weight, this.#notBegun());
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
