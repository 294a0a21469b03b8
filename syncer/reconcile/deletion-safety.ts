import { annotationKeys } from '../../api/labels.ts';
import {
  ignoreNotFound,
  type KubeClient,
  type KubeObject,
  type ObjectRef,
  type Resource,
} from '../../kube/index.ts';
import { originalUid } from '../mapping/labels.ts';
import type { Situation } from './decide.ts';
import type { Work } from './execute.ts';
import type { DefinitionGuard, IdentityGuard } from './guards.ts';
import type { TenantState } from './tenant-state.ts';

export interface DeletionSafetyOptions {
  superIdentity: IdentityGuard;
  /** A server has another identity than expected: deletes of this tenant have stopped until the operator has spoken. */
  onMismatch: (tenant: TenantState, side: 'tenant' | 'super') => void;
  /** A mass-deletion guard closed for this tenant. */
  onHeld: (tenant: TenantState) => void;
}

/** What a deletion is founded on: the absence of an object on one side, or what one there says. */
interface Deletion {
  readonly side: 'tenant' | 'super';
  /** The deletion of the counterpart was not watched: a mass-deletion guard that is closed holds this back. */
  readonly unwatched: boolean;
  /** Reads from the server of that side the object that the cache has lost; not asked unless given. */
  readonly live?: () => Promise<KubeObject | undefined>;
  /** What the object that is absent lived by, if it was of a kind that comes and goes. */
  readonly definition?: DefinitionGuard | undefined;
}

/**
 * - `open`: the deletion may be carried out.
 * - `held`: not before the operator has spoken.
 * - `exists`: the server has the object that the cache has lost.
 * - `not-now`: the tenant has had as many live answers as it may; again after a time.
 * - `definition-gone`: the definition of the object is gone too, so that its absence says nothing.
 */
export type Verdict =
  | { readonly is: 'open' }
  | { readonly is: 'held' }
  | { readonly is: 'exists'; readonly live: KubeObject }
  | { readonly is: 'not-now'; readonly afterMs: number }
  | { readonly is: 'definition-gone' };

const open: Verdict = { is: 'open' };
const held: Verdict = { is: 'held' };
const notNow: Verdict = { is: 'not-now', afterMs: 5_000 };

/**
 * The checks before a deletion (sync rules `side-identity`, `confirmed-delete`, `mass-deletion-hold`): identity
 * first, then the live answer, then the size of the pass.
 */
export class DeletionSafety {
  readonly #options: DeletionSafetyOptions;

  constructor(options: DeletionSafetyOptions) {
    this.#options = options;
  }

  /** Throws what a client throws when it cannot tell. */
  async check(tenant: TenantState, deletion: Deletion): Promise<Verdict> {
    const { superIdentity } = this.#options;
    if (tenant.frozen !== undefined) return held;
    if (this.#isForeign(tenant)) return this.#mismatch(tenant, 'super');
    if (deletion.side === 'super' && deletion.live !== undefined && !tenant.liveChecks.take()) return notNow;
    const side = deletion.side === 'tenant' ? tenant.identity : superIdentity;
    if (!(await side.verify())) return this.#mismatch(tenant, deletion.side);
    // The first look at the super cluster may have been this one.
    if (this.#isForeign(tenant)) return this.#mismatch(tenant, 'super');
    const live = await deletion.live?.();
    if (live !== undefined) return { is: 'exists', live };
    if ((await deletion.definition?.isIntact()) === false) return { is: 'definition-gone' };
    // Another key's check may have found the wrong server meanwhile.
    if (tenant.frozen !== undefined) return held;
    const guard = deletion.side === 'tenant' ? tenant.superDeletions : tenant.tenantDeletions;
    if (deletion.unwatched && !guard.allowsUnwatched()) {
      this.#options.onHeld(tenant);
      return held;
    }
    return open;
  }

  /**
   * Whether the super cluster is the right one, so that what policy demands there may be carried out. Nothing that the
   * tenant says or does counts. Throws what a client throws when it cannot tell.
   */
  async mayEnforce(tenant: TenantState): Promise<boolean> {
    if (tenant.frozen === 'SuperClusterIdentity' || this.#isForeign(tenant)) return false;
    return (await this.#options.superIdentity.verify()) && !this.#isForeign(tenant);
  }

  /** Whether the super cluster is known not to be this tenant's, or to show its own past. */
  #isForeign(tenant: TenantState): boolean {
    const { superIdentity } = this.#options;
    return superIdentity.distrusted !== undefined || !tenant.belongsTo(superIdentity.expectedUid);
  }

  /** Freezes the tenant at once; the condition in the VirtualCluster may follow later. */
  #mismatch(tenant: TenantState, side: 'tenant' | 'super'): Verdict {
    tenant.frozen ??= side === 'tenant' ? 'TenantIdentity' : 'SuperClusterIdentity';
    this.#options.onMismatch(tenant, side);
    return held;
  }
}

/** A list is good for that long. What is searched for is older than its copy, and so than a list that lacks it. */
const listTtlMs = 2_000;

interface List {
  readonly atMs: number;
  readonly objects: Promise<readonly KubeObject[]>;
}

/** What a server has of a resource, as metadata, asked for once for all searches at about the same time. */
export class SharedLists {
  readonly #client: KubeClient;
  readonly #lists = new Map<Resource, List>();

  constructor(client: KubeClient) {
    this.#client = client;
  }

  /** Throws what the client throws. */
  of(resource: Resource, nowMs: number): Promise<readonly KubeObject[]> {
    const present = this.#lists.get(resource);
    if (present !== undefined && Math.abs(nowMs - present.atMs) < listTtlMs) return present.objects;
    const objects = this.#client.list(resource, { metadataOnly: true }).then(({ items }) => items);
    const list: List = { atMs: nowMs, objects };
    this.#lists.set(resource, list);
    objects.catch(() => {
      if (this.#lists.get(resource) === list) this.#lists.delete(resource);
    });
    return objects;
  }
}

/** What the server of one side has of the object whose absence there is the reason for a deletion on the other. */
export async function liveObject(
  work: Work,
  side: 'tenant' | 'super',
  { superClient, superLists }: { superClient: KubeClient; superLists: SharedLists },
): Promise<KubeObject | undefined> {
  const { kind, tenant, situation, signal } = work;
  const ref =
    side === 'tenant' ? situation.key : (tenant.superRef(kind, situation.key) ?? lastRef(situation));
  if (ref === undefined) return searchOriginal(work, superLists);
  const client = side === 'tenant' ? tenant.client : superClient;
  const live = await ignoreNotFound(client.get(kind.resource, ref, { signal }));
  if (live === undefined) return undefined;
  const other = side === 'tenant' ? situation.superObject : situation.tenantObject;
  // What is gone stays gone, whatever has its name now.
  const isCopy = side === 'tenant' ? kind.direction === 'down' : kind.direction === 'up';
  const isIt =
    other === undefined || (isCopy ? isCopyOf(other, live) : isCopyOf(live, other) || isBoundTo(other, live));
  return isIt ? live : undefined;
}

/** The original of a copy whose name leads to it through the cache alone: looks through all that there are. */
async function searchOriginal(
  { kind, tenant, situation, signal }: Work,
  superLists: SharedLists,
): Promise<KubeObject | undefined> {
  const { tenantObject, key } = situation;
  if (kind.direction !== 'up' || kind.copyName === undefined || tenantObject === undefined) return undefined;
  const context = tenant.context();
  const objects = await superLists.of(kind.resource, context.nowMs);
  signal.throwIfAborted();
  return objects.find(
    (live) => isCopyOf(tenantObject, live) && kind.copyName?.(live.metadata.name ?? '', context) === key.name,
  );
}

/** Where the super object was when it was seen going. */
function lastRef({ superTombstone }: Situation): ObjectRef | undefined {
  const { name, namespace } = superTombstone?.object.metadata ?? {};
  return name === undefined ? undefined : { name, namespace };
}

/** Whether the mark of one object names the other. */
function isCopyOf(copy: KubeObject, original: KubeObject): boolean {
  return originalUid(copy) === original.metadata.uid;
}

/** A pod knows its super object by UID, even if all marks were taken off that one. */
function isBoundTo(tenantObject: KubeObject, superObject: KubeObject): boolean {
  return tenantObject.metadata.annotations?.[annotationKeys.superUid] === superObject.metadata.uid;
}
