import type { KubeObject } from '../../kube/index.ts';
import { originalUid } from '../mapping/labels.ts';

/**
 * Whether one resourceVersion comes before another of the same resource. Versions are decimal numbers that
 * grow; Kubernetes 1.35 made comparing them a promise. Of anything else nothing is known: false.
 */
export function isOlder(version: string, than: string): boolean {
  if (!decimal.test(version) || !decimal.test(than)) return false;
  if (version.length !== than.length) return version.length < than.length;
  return version < than;
}

const decimal = /^\d+$/;

/** An object that we created and that the cache may not show yet. */
interface Created {
  readonly uid: string;
  /** UID of the original that it was made from. */
  readonly originUid: string | undefined;
  readonly atMs: number;
}

/** What our own write made of an object, or, if the answer did not say, the version that the write was made on. */
interface Written {
  readonly resourceVersion: string;
  readonly isReplaced: boolean;
  readonly atMs: number;
}

const createdTtlMs = 30_000;
/** A watch that is later than this has lost its place; a resync finds what it missed. */
const writtenTtlMs = 5_000;

/** What our own writes made on one side, until its cache shows it; by key id. */
export class Expectations {
  readonly #nowMs: () => number;
  readonly #created = new Map<string, Created>();
  readonly #written = new Map<string, Written>();

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** How much is remembered. */
  get size(): number {
    return this.#created.size + this.#written.size;
  }

  expectCreated(id: string, created: KubeObject): void {
    const { uid } = created.metadata;
    if (uid !== undefined)
      this.#created.set(id, { uid, originUid: originalUid(created), atMs: this.#nowMs() });
  }

  /** UID of an object that we created a moment ago, until the cache has shown it. */
  createdUid(id: string): string | undefined {
    return this.#recent(id)?.uid;
  }

  /** UID of the original that such an object was made from. */
  createdFor(id: string): string | undefined {
    return this.#recent(id)?.originUid;
  }

  forgetCreated(id: string): void {
    this.#created.delete(id);
  }

  /** Our own write made this version; until the cache shows it, deciding again would only repeat the write. */
  expectVersion(id: string, resourceVersion: string): void {
    this.#written.set(id, { resourceVersion, isReplaced: false, atMs: this.#nowMs() });
  }

  /** Our own write has made another one of this version; which, the server did not say. */
  expectReplaced(id: string, resourceVersion: string): void {
    this.#written.set(id, { resourceVersion, isReplaced: true, atMs: this.#nowMs() });
  }

  /** Whether the cache still shows an object as it was before our own last write. Its watch event is on the way. */
  isBehind(id: string, object: KubeObject | undefined): boolean {
    const written = this.#written.get(id);
    if (written === undefined) return false;
    const version = object?.metadata.resourceVersion;
    const behind =
      version !== undefined &&
      (isOlder(version, written.resourceVersion) ||
        (written.isReplaced && version === written.resourceVersion)) &&
      this.#nowMs() - written.atMs < writtenTtlMs;
    if (!behind) this.#written.delete(id);
    return behind;
  }

  forgetAll(matches: (id: string) => boolean): void {
    for (const memory of [this.#created, this.#written])
      for (const id of memory.keys()) if (matches(id)) memory.delete(id);
  }

  /** Forgets what was not asked for in its time. */
  prune(): void {
    const now = this.#nowMs();
    for (const [id, { atMs }] of this.#created) if (now - atMs >= createdTtlMs) this.#created.delete(id);
    for (const [id, { atMs }] of this.#written) if (now - atMs >= writtenTtlMs) this.#written.delete(id);
  }

  #recent(id: string): Created | undefined {
    const created = this.#created.get(id);
    if (created === undefined || this.#nowMs() - created.atMs < createdTtlMs) return created;
    this.#created.delete(id);
    return undefined;
  }
}
