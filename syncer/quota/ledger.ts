import type { Charge } from './charges.ts';

/** What is asked for beyond what is left, of each resource. */
export interface Excess {
  readonly resource: string;
  readonly asked: bigint;
  readonly used: bigint;
  readonly allowed: bigint;
  /** There is no limit in what is asked for, where one has to be. */
  readonly isUnbounded?: true;
}

interface Entry {
  /** What the cache of the super cluster shows. */
  shown?: Charge | undefined;
  /** What a write under way, or one that the cache does not show yet, makes of it. */
  reserved?: Charge | undefined;
  /** What counts: the larger of both. */
  counted: ReadonlyMap<string, bigint>;
}

type Limits = ReadonlyMap<string, bigint>;

const none: ReadonlyMap<string, bigint> = new Map();

interface Waiter {
  readonly charge: Charge;
  readonly excess: readonly Excess[];
  /** Resources that it keeps from those behind it. */
  readonly claims: readonly string[];
}

/** `hopeless`: it asks for more than there is in all, and keeps nothing from others. */
type Line = 'hopeful' | 'hopeless';

const lines: readonly Line[] = ['hopeful', 'hopeless'];

function lineOf(claims: readonly string[]): Line {
  return claims.length === 0 ? 'hopeless' : 'hopeful';
}

/**
 * As many of a tenant stand in line, and as many more that do not fit whatever goes: each `admit` looks at all of them.
 */
const maxWaiting = 5_000;

/**
 * What one tenant has of each limited resource: of every object the larger of what the super cluster shows and what is
 * reserved for a write. `used` never grows past a limit by what is reserved. What waits for room is let in first come,
 * first served: nothing takes of a resource that an earlier one waits for. The line is limited: those beyond it have to
 * ask again, at the latest when `takeNext` names them. Synchronous, and knows nothing of objects.
 */
export class QuotaLedger {
  readonly #entries = new Map<string, Entry>();
  readonly #used = new Map<string, bigint>();
  /** In the order in which they came. */
  readonly #waiting = new Map<string, Waiter>();
  readonly #standing: Record<Line, number> = { hopeful: 0, hopeless: 0 };
  /** Keys that have found the line full, in the order in which they came. */
  readonly #beyond: Readonly<Record<Line, Set<string>>> = { hopeful: new Set(), hopeless: new Set() };
  readonly #maxWaiting: number;
  /**
   * Resources that those who wait need more of than is left, and how many of them do; until the next `admit` perhaps
   * more than those.
   */
  #claimed = new Map<string, number>();
  #limits: Limits = none;

  constructor(options: { readonly maxWaiting?: number } = {}) {
    this.#maxWaiting = options.maxWaiting ?? maxWaiting;
  }

  get limits(): Limits {
    return this.#limits;
  }

  /** Call `admit` afterwards: there may be room now. */
  setLimits(limits: Limits): void {
    this.#limits = limits;
  }

  used(resource: string): bigint {
    return this.#used.get(resource) ?? 0n;
  }

  isWaiting(id: string): boolean {
    return this.#waiting.has(id);
  }

  /** Whether it has found the line full. */
  isBeyond(id: string): boolean {
    return lines.some((line) => this.#beyond[line].has(id));
  }

  waiting(): string[] {
    return [...this.#waiting.keys()];
  }

  /** How many stand in line, or have found it full. */
  get waitingSize(): number {
    return this.#waiting.size + this.#beyond.hopeful.size + this.#beyond.hopeless.size;
  }

  isReserved(id: string): boolean {
    return this.#entries.get(id)?.reserved !== undefined;
  }

  ids(): string[] {
    return [...this.#entries.keys()];
  }

  /** What the super cluster's cache shows of an object; undefined: it is gone. Call `admit` afterwards. */
  show(id: string, charge: Charge | undefined): void {
    this.#change(id, (entry) => {
      entry.shown = charge;
    });
  }

  /**
   * Reserves what a write makes of an object. Returns what there is too little of: then it waits for its turn, or is
   * beyond the line.
   */
  reserve(id: string, charge: Charge): readonly Excess[] {
    const waiter = this.#waiting.get(id);
    // `admit` lets in what there is room for.
    if (waiter !== undefined && isSame(waiter.charge, charge)) return waiter.excess;
    this.#leave(id);
    const excess = this.#excess(id, charge, this.#claimed);
    const line = lineOf(claims(excess));
    const isFull = excess.length > 0 && this.#standing[line] >= this.#maxWaiting;
    // One that was beyond the line already keeps its place there.
    for (const each of lines) if (!isFull || each !== line) this.#beyond[each].delete(id);
    if (isFull) this.#beyond[line].add(id);
    else if (excess.length === 0) this.#reserve(id, charge);
    else this.#wait(id, charge, excess, this.#claimed);
    return excess;
  }

  /** The write has not been made, or is shown. Call `admit` afterwards. */
  release(id: string): void {
    if (this.isReserved(id))
      this.#change(id, (entry) => {
        entry.reserved = undefined;
      });
  }

  /** It waits no more. Call `admit` afterwards. Answers whether it stood in line. */
  giveUp(id: string): boolean {
    for (const line of lines) this.#beyond[line].delete(id);
    return this.#leave(id);
  }

  #leave(id: string): boolean {
    const waiter = this.#waiting.get(id);
    if (waiter === undefined) return false;
    for (const resource of waiter.claims) {
      const others = (this.#claimed.get(resource) ?? 0) - 1;
      if (others > 0) this.#claimed.set(resource, others);
      else this.#claimed.delete(resource);
    }
    this.#standing[lineOf(waiter.claims)] -= 1;
    return this.#waiting.delete(id);
  }

  /** Those whose turn it is now, in order; what they take is reserved. */
  admit(): string[] {
    const admitted: string[] = [];
    const claimed = new Map<string, number>();
    for (const [id, { charge, claims: before }] of this.#waiting) {
      const excess = this.#excess(id, charge, claimed);
      this.#standing[lineOf(before)] -= 1;
      if (excess.length > 0) this.#wait(id, charge, excess, claimed);
      else {
        this.#waiting.delete(id);
        this.#reserve(id, charge);
        admitted.push(id);
      }
    }
    this.#claimed = claimed;
    return admitted;
  }

  /** Of those beyond the line, as many as find a place there now: they are to ask again, and are forgotten until then. */
  takeNext(): string[] {
    const next: string[] = [];
    for (const line of lines) {
      let free = this.#maxWaiting - this.#standing[line];
      for (const id of this.#beyond[line]) {
        if (free-- <= 0) break;
        this.#beyond[line].delete(id);
        next.push(id);
      }
    }
    return next;
  }

  /** One that waits already keeps its place. */
  #wait(id: string, charge: Charge, excess: readonly Excess[], claimed: Map<string, number>): void {
    const its = claims(excess);
    this.#waiting.set(id, { charge, excess, claims: its });
    this.#standing[lineOf(its)] += 1;
    for (const resource of its) claimed.set(resource, (claimed.get(resource) ?? 0) + 1);
  }

  #reserve(id: string, charge: Charge): void {
    this.#change(id, (entry) => {
      entry.reserved = charge;
    });
  }

  #excess(id: string, charge: Charge, claimed: ReadonlyMap<string, number>): Excess[] {
    const has = this.#entries.get(id);
    const excess: Excess[] = [];
    for (const [resource, allowed] of this.#limits) {
      const asked = charge.amounts.get(resource) ?? 0n;
      if (charge.unbounded.includes(resource)) {
        if (has?.shown?.unbounded.includes(resource) !== true)
          excess.push({ resource, asked, used: this.used(resource), allowed, isUnbounded: true });
        continue;
      }
      const more = asked - (has?.counted.get(resource) ?? 0n);
      if (more <= 0n) continue;
      const used = this.used(resource);
      if (used + more > allowed || claimed.has(resource))
        excess.push({ resource, asked: more, used, allowed });
    }
    return excess;
  }

  #change(id: string, change: (entry: Entry) => void): void {
    const entry = this.#entries.get(id) ?? { counted: none };
    change(entry);
    const counted = largest(entry.shown, entry.reserved);
    for (const resource of new Set([...entry.counted.keys(), ...counted.keys()])) {
      const more = (counted.get(resource) ?? 0n) - (entry.counted.get(resource) ?? 0n);
      if (more === 0n) continue;
      const used = this.used(resource) + more;
      if (used === 0n) this.#used.delete(resource);
      else this.#used.set(resource, used);
    }
    entry.counted = counted;
    if (entry.shown === undefined && entry.reserved === undefined) this.#entries.delete(id);
    else this.#entries.set(id, entry);
  }
}

function largest(one: Charge | undefined, other: Charge | undefined): ReadonlyMap<string, bigint> {
  if (one === undefined || other === undefined) return (one ?? other)?.amounts ?? none;
  const result = new Map(one.amounts);
  for (const [resource, amount] of other.amounts)
    if (amount > (result.get(resource) ?? 0n)) result.set(resource, amount);
  return result;
}

/** What may be kept from others for one that waits; it waits in vain where it asks for more than there ever is. */
function claims(excess: readonly Excess[]): string[] {
  if (excess.some(({ isUnbounded, asked, allowed }) => isUnbounded === true || asked > allowed)) return [];
  return excess.map(({ resource }) => resource);
}

function isSame(one: Charge, other: Charge): boolean {
  if (one.amounts.size !== other.amounts.size || one.unbounded.length !== other.unbounded.length)
    return false;
  for (const [resource, amount] of one.amounts) if (other.amounts.get(resource) !== amount) return false;
  return one.unbounded.every((resource) => other.unbounded.includes(resource));
}
