import { createHash } from 'node:crypto';
import type { TenantInfo } from '../kinds/index.ts';

/** Objects that have lost their counterpart although nobody was seen deleting it. */
export interface Missing {
  /** UIDs of what would be deleted. */
  readonly uids: readonly string[];
  /** How many objects there are of which they are a part. */
  readonly total: number;
}

/** An operator's question: may this many objects go? */
export interface Hold {
  /** The same for the same objects, whoever asks and when; another for any others. */
  readonly id: string;
  readonly missing: number;
  readonly total: number;
}

const minimumHeld = 20;
const heldFraction = 0.2;
const assessmentTtlMs = 500;

/**
 * Sync rule 0 C: a pass that would delete more than a fifth of a tenant's objects (and at least 20)
 * waits for the operator.
 */
export class DeletionGuard {
  readonly #tenantId: string;
  readonly #count: () => Missing;
  readonly #nowMs: () => number;
  #assessed: { atMs: number; missing: Missing } | undefined;
  #hold: Hold | undefined;
  #confirmed: string | undefined;

  constructor(tenant: Pick<TenantInfo, 'id'>, count: () => Missing, nowMs: () => number) {
    this.#tenantId = tenant.id;
    this.#count = count;
    this.#nowMs = nowMs;
  }

  get hold(): Hold | undefined {
    return this.#hold;
  }

  /** The operator agrees to the hold with this id. Returns whether that opens the guard just now. */
  confirm(id: string): boolean {
    if (this.#confirmed === id || (this.#hold !== undefined && this.#hold.id !== id)) return false;
    this.#confirmed = id;
    return this.#hold !== undefined;
  }

  /** To be called when objects are found missing in a list: what was counted before is out of date. */
  invalidate(): void {
    this.#assessed = undefined;
  }

  /** Whether a deletion that nobody watched may be carried over now. */
  allowsUnwatched(): boolean {
    const { uids, total } = this.#assess();
    if (uids.length < minimumHeld || uids.length <= total * heldFraction) {
      this.#hold = undefined;
      return true;
    }
    // A consent covers what the operator was shown, and while that goes, what is left of it; not more.
    if (this.#hold === undefined || uids.length > this.#hold.missing) {
      this.#hold = { id: this.#id(uids), missing: uids.length, total };
    }
    return this.#hold.id === this.#confirmed;
  }

  #id(uids: readonly string[]): string {
    const hash = createHash('sha256').update(uids.toSorted().join('\n')).digest('hex');
    return `${this.#tenantId}-${uids.length}-${hash.slice(0, 12)}`;
  }

  #assess(): Missing {
    const nowMs = this.#nowMs();
    if (this.#assessed !== undefined && nowMs - this.#assessed.atMs < assessmentTtlMs)
      return this.#assessed.missing;
    const missing = this.#count();
    this.#assessed = { atMs: nowMs, missing };
    return missing;
  }
}
