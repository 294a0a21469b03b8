type State = 'parked' | 'active' | 'refused';

interface Known {
  tenant: string;
  id: string;
  state: State;
}

/** What a window promises, in the plainest way: one list, in the order in which pods asked; no index, no counter. */
export class ReferenceWindow {
  readonly weights = new Map<string, number>();
  readonly #maxRefused: number;
  #pods: Known[] = [];

  constructor(maxRefused: number) {
    this.#maxRefused = maxRefused;
  }

  /** Tenants of which a parked pod could go now. */
  askers(size: number): string[] {
    return [...this.weights.keys()].filter(
      (tenant) => this.count(tenant, 'parked') > 0 && this.hasRoom(tenant, size),
    );
  }

  hasRoom(tenant: string, size: number): boolean {
    const active = this.count(tenant, 'active');
    return (
      this.count(tenant, 'refused') < this.#maxRefused &&
      (active === 0 || this.#pods.filter(({ state }) => state === 'active').length < size)
    );
  }

  /** What the tenant would have for its weight with one place more. */
  load(tenant: string): number {
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
    if (state === undefined) this.#pods = this.#pods.filter((each) => each !== pod);
    else if (pod === undefined) this.#pods.push({ tenant, id, state });
    else pod.state = state;
  }

  leave(tenant: string): void {
    this.weights.delete(tenant);
    this.#pods = this.#pods.filter((pod) => pod.tenant !== tenant);
  }

  of(state: State): readonly { tenant: string; id: string }[] {
    return this.#pods.filter((pod) => pod.state === state);
  }

  #find(tenant: string, id: string): Known | undefined {
    return this.#pods.find((pod) => pod.tenant === tenant && pod.id === id);
  }
}
