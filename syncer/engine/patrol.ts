import { setImmediate } from 'node:timers/promises';
import type { Clock } from '../../kube/index.ts';
import type { KeyRef } from '../kinds/index.ts';
import type { Finding } from './finding.ts';
import { keyId } from './key.ts';
import type { TenantState } from './tenant-state.ts';

export interface PatrolOptions {
  clock: Pick<Clock, 'monotonic'>;
  /** Every key that either side has something for. */
  keysOf: (tenant: TenantState) => Iterable<KeyRef>;
  /** How its sides disagree, by the caches; may throw. */
  findingOf: (tenant: TenantState, key: KeyRef) => Finding | undefined;
  /** Whether somebody will look at it in any case. */
  isQueued: (tenant: TenantState, key: KeyRef) => boolean;
  enqueue: (tenant: TenantState, key: KeyRef) => void;
  isServed: (tenant: TenantState) => boolean;
  /** A round has ended: how long it has looked, without the waits between its slices. */
  onRound?: (busyMs: number) => void;
}

/** What one round has found of one kind. */
export interface PatrolFinding {
  readonly kind: string;
  readonly finding: Finding;
  readonly count: number;
}

/** It looks this long at a stretch: whoever has an event to be served waits for no more than that. */
const sliceMs = 5;

/** Compares both sides of a tenant from the caches, and has looked at what differs (sync rule 27). Changes nothing itself. */
export class Patrol {
  readonly #options: PatrolOptions;

  constructor(options: PatrolOptions) {
    this.#options = options;
  }

  /** One round; ends early if the tenant leaves. Also ends every wait that nothing else has ended. */
  async round(tenant: TenantState): Promise<PatrolFinding[]> {
    const { clock, keysOf, isServed } = this.#options;
    const found = new Map<string, Map<Finding, number>>();
    tenant.forgetPassing();
    let sliceStart = clock.monotonic();
    let busyMs = 0;
    for (const key of keysOf(tenant)) {
      this.#look(tenant, key, found);
      const lookedMs = clock.monotonic() - sliceStart;
      if (lookedMs < sliceMs) continue;
      busyMs += lookedMs;
      await setImmediate();
      sliceStart = clock.monotonic();
      if (!isServed(tenant)) break;
    }
    this.#options.onRound?.(busyMs + clock.monotonic() - sliceStart);
    return [...found].flatMap(([kind, counts]) =>
      [...counts].map(([finding, count]) => ({ kind, finding, count })),
    );
  }

  #look(tenant: TenantState, key: KeyRef, found: Map<string, Map<Finding, number>>): void {
    const { isQueued, enqueue } = this.#options;
    if ((tenant.held.size > 0 && tenant.held.has(keyId(key))) || isQueued(tenant, key)) return;
    const finding = this.#findingOf(tenant, key);
    if (finding === undefined) return;
    const counts = found.get(key.kind) ?? new Map<Finding, number>();
    counts.set(finding, (counts.get(finding) ?? 0) + 1);
    found.set(key.kind, counts);
    enqueue(tenant, key);
  }

  /** A key that cannot even be looked at differs: the reconcile will say what is wrong with it. */
  #findingOf(tenant: TenantState, key: KeyRef): Finding | undefined {
    try {
      return this.#options.findingOf(tenant, key);
    } catch {
      return 'differs';
    }
  }
}
