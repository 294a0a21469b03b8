import type { Clock, Reflector } from '../../kube/index.ts';
import type { KeyRef } from '../context.ts';
import type { Drift } from './decide.ts';
import { keyId } from './keys.ts';
import type { TenantState } from './tenant-state.ts';

interface PeriodicOptions {
  everyMs: number;
  clock: Clock;
  /** 0 to 1. */
  random: () => number;
}

/**
 * Calls `round` again and again until aborted, first within one interval and then at intervals that vary by a
 * tenth: rounds that start together do not stay together. Rejects with what a round throws, and when aborted.
 */
export async function runPeriodically(
  { everyMs, clock, random }: PeriodicOptions,
  signal: AbortSignal,
  round: () => void | Promise<void>,
): Promise<never> {
  await clock.sleep(everyMs * random(), signal);
  for (;;) {
    await round();
    await clock.sleep(everyMs * (0.9 + random() * 0.2), signal);
  }
}

/** Has one of the reflectors list afresh at each call, in turns that begin anywhere. */
export function relistInTurn(reflectors: () => readonly Reflector[], random: () => number): () => void {
  let turn = Math.floor(random() * reflectors().length);
  return () => {
    const present = reflectors();
    turn = (turn + 1) % Math.max(present.length, 1);
    present[turn]?.relist();
  };
}

export interface ResyncOptions {
  clock: Pick<Clock, 'monotonic' | 'sleep'>;
  /** Every key that either side has something for. */
  keysOf: (tenant: TenantState) => Iterable<KeyRef>;
  /** How its sides disagree, by the caches; may throw. */
  driftOf: (tenant: TenantState, key: KeyRef) => Drift | undefined;
  /** Whether policy demands something of the super object of a key. */
  isDemanded: (tenant: TenantState, key: KeyRef) => boolean;
  /** Whether it will be reconciled soon in any case. */
  isQueued: (tenant: TenantState, key: KeyRef) => boolean;
  enqueue: (tenant: TenantState, key: KeyRef, isDemanded: boolean) => void;
  isServed: (tenant: TenantState) => boolean;
  /** `isDemanded` has failed: a defect. */
  onError: (tenant: TenantState, key: KeyRef, error: unknown) => void;
  /** How long a resync has looked, without the pauses between its slices. */
  onCompleted?: (busyMs: number) => void;
}

/** What one round has found of one kind. */
export interface DriftCount {
  readonly kind: string;
  readonly drift: Drift;
  readonly count: number;
}

/** It works this long at a stretch, and then rests as long: events that come meanwhile wait for no more than that. */
const sliceMs = 5;

/**
 * Compares both sides of a tenant from the caches and queues what differs (sync rule `resync`). Changes nothing
 * itself.
 */
export class Resync {
  readonly #options: ResyncOptions;

  constructor(options: ResyncOptions) {
    this.#options = options;
  }

  /** One round; ends early if the tenant leaves. Also ends every wait that nothing else has ended. */
  async run(tenant: TenantState): Promise<DriftCount[]> {
    const { clock, keysOf, isServed } = this.#options;
    const found = new Map<string, Map<Drift, number>>();
    tenant.dependents.clear();
    tenant.prune();
    let sliceStart = clock.monotonic();
    let busyMs = 0;
    for (const key of keysOf(tenant)) {
      this.#look(tenant, key, found);
      const lookedMs = clock.monotonic() - sliceStart;
      if (lookedMs < sliceMs) continue;
      busyMs += lookedMs;
      // The queue counts this time for no tenant.
      await clock.sleep(lookedMs);
      sliceStart = clock.monotonic();
      if (!isServed(tenant)) break;
    }
    this.#options.onCompleted?.(busyMs + clock.monotonic() - sliceStart);
    return [...found].flatMap(([kind, counts]) =>
      [...counts].map(([drift, count]) => ({ kind, drift, count })),
    );
  }

  #look(tenant: TenantState, key: KeyRef, found: Map<string, Map<Drift, number>>): void {
    const { isQueued, enqueue } = this.#options;
    if (isQueued(tenant, key)) return;
    const isHeld = tenant.held.size > 0 && tenant.held.get(keyId(key)) === true;
    if (isHeld && !this.#isDemanded(tenant, key)) return;
    const finding = this.#findingOf(tenant, key);
    if (finding === undefined) return;
    const counts = found.get(key.kind) ?? new Map<Drift, number>();
    counts.set(finding, (counts.get(finding) ?? 0) + 1);
    found.set(key.kind, counts);
    enqueue(tenant, key, this.#isDemanded(tenant, key));
  }

  #isDemanded(tenant: TenantState, key: KeyRef): boolean {
    try {
      return this.#options.isDemanded(tenant, key);
    } catch (error) {
      this.#options.onError(tenant, key, error);
      return false;
    }
  }

  /** A key that cannot even be looked at differs: the reconcile will say what is wrong with it. */
  #findingOf(tenant: TenantState, key: KeyRef): Drift | undefined {
    try {
      return this.#options.driftOf(tenant, key);
    } catch {
      return 'differs';
    }
  }
}
