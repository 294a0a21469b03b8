import { createHash } from 'node:crypto';
import {
  groupResource,
  ignoreNotFound,
  type KubeClient,
  type Resource,
  resources,
} from '../../kube/index.ts';
import type { TenantInfo } from '../context.ts';
import { isOlder } from './expectations.ts';

/**
 * A question to a server that many ask at once. An answer counts for a caller only if it was asked for after
 * the call, so that what the caller saw before cannot be younger than the answer; callers that wait share one.
 */
class SingleFlight<T> {
  readonly #ask: () => Promise<T>;
  #running: Promise<T> | undefined;
  #next: Promise<T> | undefined;

  constructor(ask: () => Promise<T>) {
    this.#ask = ask;
  }

  /** Throws what `ask` throws. */
  async run(): Promise<T> {
    if (this.#running === undefined) return this.#start();
    this.#next ??= this.#running.then(
      () => this.#start(),
      () => this.#start(),
    );
    return this.#next;
  }

  #start(): Promise<T> {
    this.#next = undefined;
    const check = this.#ask().finally(() => {
      if (this.#running === check) this.#running = undefined;
    });
    this.#running = check;
    return check;
  }
}

/** Knows which server a side must be: the UID of its `kube-system` Namespace (sync rule `side-identity`). */
export class IdentityGuard {
  readonly #client: KubeClient;
  #expectedUid: string | undefined;
  #distrusted: string | undefined;
  readonly #shared = new SingleFlight(() => this.#check());

  constructor(client: KubeClient, expectedUid: string | undefined) {
    this.#client = client;
    this.#expectedUid = expectedUid;
  }

  /** `undefined` until the first server was seen, where none was given. */
  get expectedUid(): string | undefined {
    return this.#expectedUid;
  }

  /** Why the server is not believed although its name is right. */
  get distrusted(): string | undefined {
    return this.#distrusted;
  }

  /** The operator says that the server with this identity is the right one. */
  accept(uid: string): void {
    this.#expectedUid = uid;
  }

  /** The server has shown what it cannot have shown, e.g. its own past: from now on it does not pass. */
  distrust(reason: string): void {
    this.#distrusted = reason;
  }

  /** Whether the server is still the one it should be. Throws what the client throws when it cannot tell. */
  async verify(): Promise<boolean> {
    return this.#distrusted === undefined && this.#shared.run();
  }

  async #check(): Promise<boolean> {
    const ref = { name: 'kube-system' };
    const uid = (await ignoreNotFound(this.#client.get(resources.namespaces, ref)))?.metadata.uid;
    if (this.#expectedUid === undefined && uid !== undefined) this.#expectedUid = uid;
    return uid !== undefined && uid === this.#expectedUid && this.#distrusted === undefined;
  }
}

/**
 * Knows which definition (CustomResourceDefinition) the objects in a tenant's cache were served by. When it is
 * deleted, all of its objects go with it, one DELETED event each, though none of them was meant.
 */
export class DefinitionGuard {
  readonly #check: SingleFlight<boolean>;

  constructor(client: KubeClient, name: string, uid: string) {
    this.#check = new SingleFlight(async () => {
      const live = await ignoreNotFound(client.get(resources.customResourceDefinitions, { name }));
      return live?.metadata.uid === uid && live.metadata.deletionTimestamp === undefined;
    });
  }

  /** Whether the definition is still the same and here to stay. Throws what the client throws when it cannot tell. */
  isIntact(): Promise<boolean> {
    return this.#check.run();
  }
}

/** Objects that have lost their counterpart although no deletion of it was watched. */
export interface Unmatched {
  /** UIDs of what would be deleted. */
  readonly uids: readonly string[];
  /** How many objects there are of which they are a part. */
  readonly total: number;
}

/** An operator's question: may this many objects go? */
export interface DeletionHold {
  /** The same for the same objects at any time; another for any others. */
  readonly id: string;
  readonly missing: number;
  readonly total: number;
}

const minimumHeld = 20;
const heldFraction = 0.2;
/** A count is good for that long, or for a multiple of what it took: a tenant can have very many objects to be counted. */
const assessmentTtlMs = 500;
const assessmentTtlPerCost = 20;
const longestTtlMs = 30_000;

/**
 * Sync rule `mass-deletion-hold`: a pass that would delete more than a fifth of a tenant's objects (and at least 20)
 * waits for the operator.
 */
export class MassDeletionGuard {
  readonly #tenantId: string;
  readonly #count: () => Unmatched;
  readonly #nowMs: () => number;
  #assessed: { atMs: number; ttlMs: number; missing: Unmatched } | undefined;
  #hold: DeletionHold | undefined;
  #confirmed: string | undefined;

  constructor(tenant: Pick<TenantInfo, 'id'>, count: () => Unmatched, nowMs: () => number) {
    this.#tenantId = tenant.id;
    this.#count = count;
    this.#nowMs = nowMs;
  }

  get hold(): DeletionHold | undefined {
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

  /** Whether a deletion that was not watched may be carried over now. */
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

  #assess(): Unmatched {
    const nowMs = this.#nowMs();
    if (this.#assessed !== undefined && nowMs - this.#assessed.atMs < this.#assessed.ttlMs)
      return this.#assessed.missing;
    const startedMs = performance.now();
    const missing = this.#count();
    const ttlMs = Math.max(assessmentTtlMs, (performance.now() - startedMs) * assessmentTtlPerCost);
    this.#assessed = { atMs: nowMs, ttlMs: Math.min(ttlMs, longestTtlMs), missing };
    return missing;
  }
}

/** A server's data is older than what the same server has shown before. */
interface Regression {
  readonly resource: string;
  readonly shown: string;
  readonly now: string;
}

/**
 * The highest resourceVersion heard of each resource of one server. They are not compared with one another:
 * a server may keep its events elsewhere than the rest.
 */
export class VersionHistory {
  readonly #highest = new Map<string, string>();
  /** What an earlier syncer has seen, of any resource. */
  #floor: string | undefined;

  constructor(floor?: string) {
    this.#floor = floor;
  }

  observe(resource: Resource, version: string): void {
    const highest = this.#highest.get(groupResource(resource));
    if (highest === undefined || isOlder(highest, version))
      this.#highest.set(groupResource(resource), version);
  }

  /**
   * Whether a list with this version shows the past. A server may answer a list slightly late from its
   * memory, so that an old version is believed only when a consistent read confirms it.
   */
  async regression(
    client: KubeClient,
    resource: Resource,
    listed: string,
    signal: AbortSignal,
  ): Promise<Regression | undefined> {
    // What is heard while the answer is on its way may be newer than the answer.
    const own = this.#highest.get(groupResource(resource));
    const floor = this.#floor;
    const shown = own === undefined || (floor !== undefined && isOlder(own, floor)) ? floor : own;
    if (shown === undefined || !isOlder(listed, shown)) return undefined;
    const consistent = await client.list(resource, { limit: 1, signal });
    const now = consistent.metadata.resourceVersion ?? '';
    return isOlder(now, shown) ? { resource: resource.plural, shown, now } : undefined;
  }

  /** The server may start anew from whatever it shows next. */
  forget(): void {
    this.#highest.clear();
    this.#floor = undefined;
  }
}
