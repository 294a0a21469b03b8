import { setImmediate } from 'node:timers/promises';
import type { Difference, DifferenceReport, DifferenceState } from '../../api/difference-report.ts';
import { type Clock, isRecord, type MergePatch } from '../../kube/index.ts';
import type { KeyRef } from '../context.ts';
import type { Action } from '../kinds/contract.ts';
import type { Drift } from './decide.ts';
import { keyId } from './keys.ts';
import type { TenantState } from './tenant-state.ts';

/** What is to be said of a key whose sides disagree, before anything is known of the queue. */
export interface Finding {
  readonly is: Drift | 'refused';
  /** Why it is refused. */
  readonly refusal?: string;
  /** Why it cannot be compared. */
  readonly problem?: string;
  readonly fields?: readonly string[];
  /** Has to be in agreement first. */
  readonly requires?: readonly KeyRef[];
}

/** A decision in the terms of a report; `undefined`: both sides agree. */
export function findingOf(drift: Drift | undefined, actions: readonly Action[]): Finding | undefined {
  if (drift === undefined) {
    const said = actions.find(
      (action) => action.do === 'notice' && (action.isRefusal === true || action.notice.type === 'Warning'),
    );
    return said?.do === 'notice' ? { is: 'refused', refusal: said.notice.message } : undefined;
  }
  const fields = actions.flatMap((action) =>
    action.do === 'patchSuper' || action.do === 'patchTenant' ? pathsOf(action.patch) : [],
  );
  const requires = actions.flatMap((action) => (action.do === 'require' ? action.keys : []));
  return {
    is: drift,
    ...(fields.length === 0 ? {} : { fields: [...new Set(fields)].slice(0, maxFields) }),
    ...(requires.length === 0 ? {} : { requires }),
  };
}

const maxFields = 20;

function pathsOf(patch: MergePatch, before = ''): string[] {
  return Object.entries(patch).flatMap(([name, value]) => {
    const path = before === '' ? name : `${before}.${name}`;
    return isRecord(value) && Object.keys(value).length > 0 ? pathsOf(value, path) : [path];
  });
}

interface DifferencesOptions {
  clock: Pick<Clock, 'monotonic'>;
  keysOf: (tenant: TenantState) => Iterable<KeyRef>;
  /** By the caches; may throw. */
  findingOf: (tenant: TenantState, key: KeyRef) => Finding | undefined;
  /** Whether the key waits for its turn, a moment at most. */
  isQueued: (tenant: TenantState, key: KeyRef) => boolean;
  /** What else it waits for, as a sentence. */
  waitsFor: (tenant: TenantState, key: KeyRef) => string | undefined;
  isServed: (tenant: TenantState) => boolean;
}

/** It works this long at a stretch, as a resync does. */
const sliceMs = 5;

/** Says how the two sides of a tenant differ, and why. Changes nothing. */
export class Differences {
  readonly #options: DifferencesOptions;

  constructor(options: DifferencesOptions) {
    this.#options = options;
  }

  /** The first `most` of what differs. Ends early if the tenant leaves. */
  async of(tenant: TenantState, most: number): Promise<DifferenceReport> {
    const { clock, keysOf, isServed } = this.#options;
    const differences: Difference[] = [];
    let compared = 0;
    let total = 0;
    let sliceStart = clock.monotonic();
    for (const key of keysOf(tenant)) {
      compared += 1;
      const found = this.#find(tenant, key);
      if (found !== undefined) {
        total += 1;
        if (differences.length < most) differences.push(this.#explain(tenant, key, found));
      }
      if (clock.monotonic() - sliceStart < sliceMs) continue;
      await setImmediate();
      sliceStart = clock.monotonic();
      if (!isServed(tenant)) break;
    }
    return { tenant: tenant.label, compared, total, differences };
  }

  #find(tenant: TenantState, key: KeyRef): Finding | undefined {
    try {
      return this.#options.findingOf(tenant, key);
    } catch (error) {
      return { is: 'differs', problem: error instanceof Error ? error.message : String(error) };
    }
  }

  #explain(tenant: TenantState, key: KeyRef, finding: Finding): Difference {
    const { is, refusal, fields } = finding;
    const { kind, namespace, name } = key;
    return {
      kind,
      ...(namespace === undefined ? {} : { namespace }),
      name,
      is,
      ...(refusal === undefined ? this.#stateOf(tenant, key, finding) : { state: 'refused', why: refusal }),
      ...(fields === undefined ? {} : { fields }),
    };
  }

  #stateOf(
    tenant: TenantState,
    key: KeyRef,
    { is, requires, problem }: Finding,
  ): { state: DifferenceState; why: string } {
    const { waitsFor, isQueued } = this.#options;
    const id = keyId(key);
    // Where too many are held, not all are remembered.
    if (tenant.held.get(id) === true || (is === 'orphan' && tenant.held.isFull)) {
      const why = tenant.frozen ?? 'too many objects of a kind are missing at once';
      return {
        state: 'held',
        why: `deletions are stopped (${why}): "vc-manager describe" says what lets them go on`,
      };
    }
    const waits = waitsFor(tenant, key);
    if (waits !== undefined) return { state: 'waiting', why: waits };
    const failure = tenant.failures.get(id);
    if (failure?.isRefused === true)
      return { state: 'refused', why: `the super cluster refuses it: ${failure.message}` };
    if (problem !== undefined) return { state: 'failing', why: `it cannot be compared: ${problem}` };
    if (requires !== undefined) {
      const names = requires.map((each) => `${each.kind} ${each.namespace ?? ''}/${each.name}`);
      return {
        state: 'waiting',
        why: `has to wait for ${names.slice(0, 3).join(', ').replaceAll(' /', ' ')}`,
      };
    }
    if (failure !== undefined)
      return { state: 'failing', why: `the last try failed and is repeated: ${failure.message}` };
    if (isQueued(tenant, key)) return { state: 'queued', why: 'the syncer is about to write it' };
    return { state: 'unnoticed', why: 'the next comparison of all objects takes it up, within five minutes' };
  }
}
