type State = 'parked' | 'active' | 'refused';

interface Known {
  tenant: string;
  id: string;
  state: State;
  /** Among those that tenants with a backlog hold together. */
  ofBacklog: boolean;
  /** It got its slot at once, while its tenant had no backlog. */
  isLight?: boolean;
  /** When it came to the scheduler. */
  since?: number;
}

/** What a window promises, in the plainest way: one list, in the order in which pods asked; no index, no counter. */
export class ReferenceWindow {
  readonly weights = new Map<string, number>();
  now = 0;
  readonly #maxRefused: number;
  readonly #backlogSize: number;
  #pods: Known[] = [];
  /** When a pod of a tenant was last parked, or left off being so; when one came in at once, without a backlog. */
  #backlogAt = new Map<string, number>();
  #lightAt = new Map<string, number>();
  #restsEndAt: number[] = [];
  /** By tenant, and of the one that last got one of the slots that those with a backlog share. */
  #virtualTimes = new Map<string, number>();
  #virtualTime = 0;

  constructor(maxRefused: number, backlogSize: number) {
    this.#maxRefused = maxRefused;
    this.#backlogSize = backlogSize;
  }

  /** Tenants of which a parked pod could go now. */
  askers(size: number): string[] {
    return [...this.weights.keys()].filter(
      (tenant) => this.count(tenant, 'parked') > 0 && this.hasRoom(tenant, size),
    );
  }

  hasRoom(tenant: string, size: number): boolean {
    if (this.count(tenant, 'refused') >= this.#maxRefused) return false;
    if (this.count(tenant, 'active') > 0 && this.of('active').length >= size) return false;
    if (!this.#hasBacklog(tenant) || !this.#isAnyLight()) return true;
    const held = this.#pods.filter(({ state, ofBacklog }) => state === 'active' && ofBacklog).length;
    const resting = this.#restsEndAt.filter((endsAt) => endsAt > this.now).length;
    return held + resting < Math.min(this.#backlogSize, Math.max(1, Math.floor(size / 2)));
  }

  /** A pod that is new to the window gets a slot at once. */
  enter(tenant: string, id: string): void {
    const ofBacklog = this.#hasBacklog(tenant);
    if (ofBacklog) this.#charge(tenant);
    this.#pods.push({ tenant, id, state: 'active', ofBacklog, isLight: !ofBacklog });
  }

  /** A parked pod gets a slot. */
  grant(tenant: string, id: string): void {
    this.#charge(tenant);
    this.set(tenant, id, 'active');
    const pod = this.#find(tenant, id);
    if (pod !== undefined) pod.ofBacklog = true;
  }

  /** A pod has been created, and is with the scheduler. */
  await(tenant: string, id: string): void {
    const pod = this.#find(tenant, id);
    if (pod === undefined) return;
    if (pod.since === undefined && pod.isLight === true) this.#lightAt.set(tenant, this.now);
    pod.since ??= this.now;
  }

  #charge(tenant: string): void {
    if (!this.#isAnyLight()) return;
    const virtualTime = this.#virtualTimes.get(tenant) ?? 0;
    this.#virtualTime = Math.max(this.#virtualTime, virtualTime);
    this.#virtualTimes.set(tenant, virtualTime + 1 / (this.weights.get(tenant) as number));
  }

  /** The scheduler has said something of a pod. */
  recordLatency(tenant: string, id: string): void {
    const { state, ofBacklog, since = this.now } = this.#find(tenant, id) ?? {};
    if (state !== 'active' || ofBacklog !== true || !this.#isAnyLight()) return;
    this.#restsEndAt.push(this.now + Math.min(1_000, Math.max(5, this.now - since)));
  }

  /** The tenant with the least is next. */
  load(tenant: string): number {
    if (this.#isAnyLight()) return this.#virtualTimes.get(tenant) ?? 0;
    return (this.count(tenant, 'active') + 1) / (this.weights.get(tenant) as number);
  }

  firstParked(tenant: string): string | undefined {
    return this.#pods.find((pod) => pod.tenant === tenant && pod.state === 'parked')?.id;
  }

  count(tenant: string, state: State): number {
    return this.#pods.filter((pod) => pod.tenant === tenant && pod.state === state).length;
  }

  state(tenant: string, id: string): State | undefined {
    return this.#find(tenant, id)?.state;
  }

  set(tenant: string, id: string, state: State | undefined): void {
    const pod = this.#find(tenant, id);
    if (state === 'parked' || pod?.state === 'parked') this.#backlogAt.set(tenant, this.now);
    const hadTooManyRefused = pod?.state === 'refused' && this.count(tenant, 'refused') === this.#maxRefused;
    if (
      (state === 'parked' && this.count(tenant, 'parked') === 0) ||
      (hadTooManyRefused && state !== 'refused')
    )
      this.#virtualTimes.set(tenant, Math.max(this.#virtualTimes.get(tenant) ?? 0, this.#virtualTime));
    if (state === undefined) this.#pods = this.#pods.filter((each) => each !== pod);
    else if (pod === undefined) this.#pods.push({ tenant, id, state, ofBacklog: false });
    else pod.state = state;
  }

  leave(tenant: string): void {
    this.weights.delete(tenant);
    this.#backlogAt.delete(tenant);
    this.#virtualTimes.delete(tenant);
    this.#lightAt.delete(tenant);
    this.#pods = this.#pods.filter((pod) => pod.tenant !== tenant);
  }

  of(state: State): readonly { tenant: string; id: string }[] {
    return this.#pods.filter((pod) => pod.state === state);
  }

  #hasBacklog(tenant: string): boolean {
    return this.count(tenant, 'parked') > 0 || this.#isRecent(this.#backlogAt.get(tenant));
  }

  #isAnyLight(): boolean {
    return [...this.#lightAt].some(([tenant, at]) => this.#isRecent(at) && !this.#hasBacklog(tenant));
  }

  #isRecent(at = Number.NEGATIVE_INFINITY): boolean {
    return this.now - at < 1_000;
  }

  #find(tenant: string, id: string): Known | undefined {
    return this.#pods.find((pod) => pod.tenant === tenant && pod.id === id);
  }
}
