import { hash } from 'node:crypto';
import type { Notice } from '../kinds/contract.ts';
import { BoundedMap } from './bounded-map.ts';

/**
 * An object may be patched so often within `windowMs`, and then as often with the same patch or for the same source, until
 * that counts as contested; and it may be created so often, each time from another one.
 */
const tolerated = 10;
const windowMs = 60_000;
const firstHoldMs = 1_000;
const longestHoldMs = 60_000;
/** One that is not contested for so long is forgotten. */
const calmMs = 2 * longestHoldMs;

interface Repeated {
  /** When it was checked last and not held. */
  atMs: number;
  sinceMs: number;
  count: number;
  /** It is not written before. */
  heldUntilMs: number;
}

interface Recent {
  sinceMs: number;
  lastMs: number;
  count: number;
  source: string | undefined;
}

interface Created {
  sinceMs: number;
  lastMs: number;
  count: number;
  /** Of the last. */
  source: string | undefined;
  /** The source was deleted since it was first made from it. */
  isSourceDeleted: boolean;
  /** It is not created before. */
  heldUntilMs: number;
  /** Whether a hold has been told. */
  isTold: boolean;
}

/**
 * Notices write wars (sync rule `contested-writes`): the same patch of the same object again and again means that
 * something else puts back what it changes, and so does any patch whose source has not changed, or an object that is made
 * from another one again and again. Bounded: it forgets what is oldest.
 */
export class ContestedWrites {
  /** Patches of each object, whatever they change. */
  readonly #recent = new BoundedMap<Recent>(2_000);
  /** By object and patch, or by object alone for patches whose source has not changed. */
  readonly #repeated = new BoundedMap<Repeated>(2_000);
  /** By object, whatever its UID. */
  readonly #created = new BoundedMap<Created>(1_000);
  readonly #nowMs: () => number;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /**
   * Call it before a patch is written; `id` names its object and side. While `held` it must not be written; `begins`:
   * it was not held before. `source`: version of the object that the patch is made from. What undoes patches may do so in
   * another way each time: those that follow each other while the source stays as it is count as one.
   */
  check(id: string, patch: object, source?: string): { held: boolean; begins: boolean } {
    const nowMs = this.#nowMs();
    const { isBusy, isSourceSame } = this.#see(id, source, nowMs);
    if (!isBusy) return { held: false, begins: false };
    const key = hash('sha1', `${id}\0${isSourceSame ? '' : JSON.stringify(patch)}`, 'base64');
    const before = this.#repeated.get(key);
    if (before !== undefined && nowMs < before.heldUntilMs) return { held: true, begins: false };
    const isContested = before !== undefined && before.count > tolerated;
    const isOver =
      before === undefined ||
      (isContested ? nowMs - before.atMs >= calmMs : nowMs - before.sinceMs >= windowMs);
    const next: Repeated = isOver
      ? { atMs: nowMs, sinceMs: nowMs, count: 1, heldUntilMs: 0 }
      : { ...before, atMs: nowMs, count: before.count + 1 };
    this.#repeated.set(key, next);
    // After each hold it is written once, and the next one is twice as long.
    const over = next.count - tolerated - 1;
    if (over < 0 || over % 2 === 1) return { held: false, begins: false };
    next.heldUntilMs = nowMs + Math.min(firstHoldMs * 2 ** (over / 2), longestHoldMs);
    return { held: true, begins: over === 0 };
  }

  /**
   * An object was created; `id` names it, and those that had its name before. `source`: UID of the object that it is made from. One
   * that is needed now and then is made anew from the same, which stays where it is meanwhile.
   */
  created(id: string, source: string | undefined): void {
    const nowMs = this.#nowMs();
    const before = this.#created.get(id);
    const isSourceSame = before !== undefined && before.source === source;
    if (isSourceSame && !before.isSourceDeleted) return;
    const isOver =
      before === undefined ||
      (before.count > tolerated ? nowMs - before.lastMs >= calmMs : nowMs - before.sinceMs >= windowMs);
    const next: Created = {
      ...(isOver ? { sinceMs: nowMs, heldUntilMs: 0, isTold: false } : before),
      ...{ lastMs: nowMs, count: isOver ? 1 : before.count + 1, source, isSourceDeleted: isSourceSame },
    };
    const over = next.count - tolerated - 1;
    if (over >= 0) next.heldUntilMs = nowMs + Math.min(firstHoldMs * 2 ** over, longestHoldMs);
    this.#created.set(id, next);
  }

  /**
   * The object with this UID, from which the one that `id` names is made, was deleted. No API server shows a UID again after
   * that: where one does, what is made from it counts as if it were made from another one.
   */
  sourceDeleted(id: string, uid: string | undefined): void {
    const created = this.#created.get(id);
    if (created !== undefined && created.source === uid) created.isSourceDeleted = true;
  }

  /** Call it before an object is created. While `held` it must not be; `begins`: that is so for the first time. */
  checkCreation(id: string): { held: boolean; begins: boolean } {
    const created = this.#created.get(id);
    if (created === undefined || this.#nowMs() >= created.heldUntilMs) return { held: false, begins: false };
    const begins = !created.isTold;
    created.isTold = true;
    return { held: true, begins };
  }

  /** `isBusy`: an object is patched so often that it is worth a look at what is patched. */
  #see(id: string, source: string | undefined, nowMs: number): { isBusy: boolean; isSourceSame: boolean } {
    const recent = this.#recent.get(id);
    const isOver =
      recent === undefined ||
      (recent.count > tolerated ? nowMs - recent.lastMs >= calmMs : nowMs - recent.sinceMs >= windowMs);
    if (isOver) {
      this.#recent.set(id, { sinceMs: nowMs, lastMs: nowMs, count: 1, source });
      return { isBusy: false, isSourceSame: false };
    }
    const isSourceSame = source !== undefined && source === recent.source;
    recent.lastMs = nowMs;
    recent.count += 1;
    recent.source = source;
    return { isBusy: recent.count > tolerated, isSourceSame };
  }
}

/** `where`: what the patch changes, as the tenant calls it. */
export function contestedNotice(where: string, patch: object): Notice {
  const fields = patchedFields(patch).join(', ');
  const message = `something else keeps changing ${where} back (${fields}): Skerry writes it less and less often`;
  return { type: 'Warning', reason: 'ContestedWrites', message };
}

export const recreationNotice: Notice = {
  type: 'Warning',
  reason: 'ContestedWrites',
  message:
    'its copy in the cluster that it runs on has been made again and again, as objects of this name come and go: Skerry makes it less and less often',
};

/** Paths of the fields that a patch sets, at most five. */
export function patchedFields(patch: object): string[] {
  const fields: string[] = [];
  const walk = (value: unknown, path: readonly string[]): void => {
    if (fields.length >= 5) return;
    const isLeaf = typeof value !== 'object' || value === null || Array.isArray(value);
    if (isLeaf) fields.push(path.join('.'));
    else for (const [key, inner] of Object.entries(value)) walk(inner, [...path, key]);
  };
  walk(patch, []);
  return fields;
}
