/**
 * Room for so many of what is held for long, as connections, divided among holders: however many hold as much as they may,
 * another one finds room. Each may have as many as are still free, or as many as all would have if there was one holder
 * more and all had the same, whichever is more. So the first few leave room by themselves. Where many have left none, what
 * a holder still may have is taken back from the one that has most, never from one that has less than an equal share.
 */
export class FairShares {
  readonly #all: number;
  readonly #each: number;
  /** What each holds, the newest last; no holder without any. */
  readonly #held = new Map<string, Set<Held>>();
  #taken = 0;

  /** `each`: what one holder may have at most, however much is free. */
  constructor({ all, each }: { all: number; each: number }) {
    this.#all = all;
    this.#each = each;
  }

  /** Why `holder` may not have another one: it has as many as one may have, or as is its share. */
  refuses(holder: string): 'each' | 'share' | undefined {
    const own = this.#held.get(holder)?.size ?? 0;
    if (own >= this.#each) return 'each';
    const holders = this.#held.size + (own === 0 ? 1 : 0);
    const share = Math.max(this.#all - this.#taken, Math.floor(this.#all / (holders + 1)));
    return own >= share ? 'share' : undefined;
  }

  /**
   * Counts another one. Returns what gives it up, which may be called again. `takeBack` is called when another holder has it
   * from then on. Only for whom `refuses` does not refuse.
   */
  take(holder: string, takeBack: () => void): () => void {
    if (this.#taken >= this.#all) this.#takeBackOne();
    const one: Held = { takeBack };
    const held = this.#held.get(holder) ?? new Set();
    this.#held.set(holder, held.add(one));
    this.#taken += 1;
    return () => this.#release(holder, one);
  }

  has(holder: string): boolean {
    return this.#held.has(holder);
  }

  #takeBackOne(): void {
    let most: [holder: string, held: Set<Held>] | undefined;
    for (const each of this.#held) if (most === undefined || each[1].size > most[1].size) most = each;
    const newest = most && [...most[1]].at(-1);
    if (most === undefined || newest === undefined) return;
    this.#release(most[0], newest);
    newest.takeBack();
  }

  #release(holder: string, one: Held): void {
    const held = this.#held.get(holder);
    if (held?.delete(one) !== true) return;
    this.#taken -= 1;
    if (held.size === 0) this.#held.delete(holder);
  }
}

interface Held {
  readonly takeBack: () => void;
}
