import { deepEqual } from 'fast-equals';
import { annotationKeys } from '../../api/labels.ts';
import {
  type Clock,
  estimateBytes,
  isAlreadyExists,
  isConflict,
  isNotFound,
  type KubeObject,
  type ListMeter,
  type MergePatch,
  mergePatch,
  type ObjectRef,
  resources,
  type StoreEvent,
  withoutUndefined,
} from '../../kube/index.ts';
import type { KeyRef, NamedResource, SyncContext } from '../context.ts';
import { payloadOf } from '../kinds/payload.ts';
import { tokenSecretName } from '../kinds/pods/token-requests.ts';
import { allKinds } from '../kinds/registry.ts';
import { isOurs, originalUid, tenantNamespaceOf, tenantUidOf } from '../mapping/labels.ts';
import { copyMetadata } from '../mapping/metadata.ts';
import { superNamespaceName } from '../mapping/names.ts';
import { scrub } from '../mapping/scrub.ts';
import { BoundedMap } from '../reconcile/bounded-map.ts';
import { byTenantIndex, type Caches, type SuperWatch } from '../reconcile/caches.ts';
import { done, type Outcome, outcomeOf, type SpecialController } from '../reconcile/controller.ts';
import type { Drift } from '../reconcile/decide.ts';
import { refOf } from '../reconcile/guarded-writes.ts';
import { keyId } from '../reconcile/keys.ts';
import { hasMoved } from '../reconcile/router.ts';
import type { TenantState } from '../reconcile/tenant-state.ts';

const name = 'events';
const bySuperNamespace = 'superNamespace';
/** A copy that was written a moment ago is not patched again before this time: bursts are written once. */
const patchEveryMs = 5_000;
/** Under load a copy waits for what people wait for, but not beyond this age of its event. */
const maxWaitMs = 30_000;
/** How often it is looked at whether copies still have to wait. */
const lookEveryMs = 1_000;
const lookAgainMs = 1_000;
/** As many copies as are remembered of a tenant. */
const maxCopies = 5_000;
/** In memory, of one copy: a message has up to 1 KiB, two bytes a character, and the rest is short. */
const maxCopyBytes = 8 * 1024;
/** Events of one page of a list: no more are in memory whole. */
const copiesPerPage = 500;

/** All events of the super cluster: they carry no marks, and belong to the tenant of their namespace. */
export const eventWatch: SuperWatch = {
  name,
  resource: resources.events,
  superScope: 'all',
  indexes: {
    [bySuperNamespace]: ({ metadata }) => (metadata.namespace === undefined ? [] : [metadata.namespace]),
  },
};

interface EventControllerOptions {
  superCaches: Caches;
  clock: Pick<Clock, 'sleep'>;
  /** A tenant that is served, by the UID of its VirtualCluster. */
  tenant: (uid: string) => TenantState | undefined;
  /** Queues a key behind everything else: no other key depends on it. */
  enqueue: (tenant: TenantState, key: KeyRef) => void;
  /** Whether something that a person waits for waits for a worker, or a pod for its turn with the scheduler. */
  isBusy: () => boolean;
}

/** A copy as last written, with what is needed of it and no more. */
interface Copy {
  readonly object: KubeObject;
  readonly atMs: number;
}

/**
 * Brings up what the super cluster says about a tenant's synced objects, and keeps counts current (sync rule
 * `events`). Events are not watched in the tenant: the controller remembers what it wrote there. A copy outlives its
 * original; the tenant's API server forgets it in its own time.
 */
export class EventController implements SpecialController {
  readonly name = name;
  readonly #options: EventControllerOptions;
  /** Keys of copies that wait, by tenant. */
  readonly #waiting = new Map<TenantState, Map<string, KeyRef>>();
  /** By key id. */
  readonly #copies = new WeakMap<TenantState, BoundedMap<Copy>>();

  constructor(options: EventControllerOptions) {
    this.#options = options;
    options.superCaches.watched(name).subscribe(({ object }) => this.#superEvent(object));
    options.superCaches.store(resources.namespaces).subscribe((event) => this.#superNamespace(event));
  }

  /** Until aborted: queues the copies that wait again as soon as they need not. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, isBusy, enqueue, tenant } = this.#options;
    try {
      for (;;) {
        await clock.sleep(lookEveryMs, signal);
        for (const state of this.#waiting.keys())
          if (tenant(state.info.uid) !== state) this.#waiting.delete(state);
        if (this.#waiting.size === 0 || isBusy()) continue;
        for (const [state, keys] of this.#waiting) for (const key of keys.values()) enqueue(state, key);
        this.#waiting.clear();
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  *keysOf(tenant: TenantState): Generator<KeyRef> {
    const { superCaches } = this.#options;
    for (const { metadata } of superCaches.byIndex(resources.namespaces, byTenantIndex, tenant.info.uid))
      yield* this.#keysIn(tenant, metadata.name ?? '');
  }

  async reconcile(tenant: TenantState, key: KeyRef, signal: AbortSignal): Promise<Outcome> {
    try {
      return await this.#reconcile(tenant, key, signal);
    } catch (error) {
      if (signal.aborted) throw error;
      const outcome = outcomeOf(error);
      if (outcome.is !== 'refused') return outcome;
      return { ...outcome, message: scrub(outcome.message, tenant.context()) };
    }
  }

  /** Only of copies that this syncer knows: it cannot tell what became of others. */
  driftOf(tenant: TenantState, key: KeyRef): Drift | undefined {
    const superEvent = this.#superEventOf(tenant, key);
    const copy = this.copiesOf(tenant).get(keyId(key));
    if (superEvent === undefined || copy === undefined) return undefined;
    const isDue = pauseMs(copy.atMs, tenant.context().nowMs) === 0;
    return isDue && this.#patchOf(tenant, key, superEvent, copy.object) !== undefined ? 'differs' : undefined;
  }

  /** The copies that are remembered of a tenant, by key id. */
  copiesOf(tenant: TenantState): BoundedMap<Copy> {
    const copies = this.#copies.get(tenant) ?? new BoundedMap<Copy>(maxCopies);
    this.#copies.set(tenant, copies);
    return copies;
  }

  /**
   * Remembers the copies that an earlier run has made: without that, each of them would be made once more in vain. To
   * be called before the tenant joins. Throws what the server or a meter says; then they are tried one by one.
   * @param meterList makes one for each page
   */
  async loadExistingCopies(
    tenant: TenantState,
    signal: AbortSignal,
    meterList?: () => ListMeter,
  ): Promise<void> {
    let token: string | undefined;
    for (let left = maxCopies; left > 0 && token !== ''; left -= copiesPerPage) {
      const meter = meterList?.();
      try {
        const { items, metadata } = await tenant.client.list(resources.events, {
          limit: copiesPerPage,
          cutManagedFields: true,
          signal,
          continue: token,
          onPage: meter?.page,
        });
        // A page may have more objects than were asked for.
        for (const object of items.slice(0, copiesPerPage)) {
          const { namespace, name: eventName = '' } = object.metadata;
          if (originalUid(object) !== undefined)
            this.#remember(tenant, keyId({ kind: name, namespace, name: eventName }), object);
        }
        token = metadata.continue ?? '';
      } finally {
        meter?.end();
      }
    }
  }

  async #reconcile(tenant: TenantState, key: KeyRef, signal: AbortSignal): Promise<Outcome> {
    const superEvent = this.#superEventOf(tenant, key);
    const id = keyId(key);
    this.#waiting.get(tenant)?.delete(id);
    const copy = this.copiesOf(tenant).get(id);
    if (superEvent === undefined) {
      this.copiesOf(tenant).delete(id);
      return done;
    }
    const { nowMs } = tenant.context();
    if (copy === undefined) {
      const createdMs = Date.parse(superEvent.metadata.creationTimestamp ?? '');
      return (
        this.#wait(tenant, key, superEvent, nowMs - createdMs) ??
        this.#create(tenant, key, superEvent, signal)
      );
    }
    const patch = this.#patchOf(tenant, key, superEvent, copy.object);
    if (patch === undefined) return done;
    const afterMs = pauseMs(copy.atMs, nowMs);
    if (afterMs > 0) return { is: 'later', afterMs };
    return (
      this.#wait(tenant, key, superEvent, nowMs - copy.atMs) ??
      this.#patch(tenant, id, copy.object, patch, signal)
    );
  }

  /**
   * Until the load is over, or it has waited for long enough; undefined: it need not wait. Whatever is added to the event
   * meanwhile goes with the same write. What went wrong is told at once.
   */
  #wait(tenant: TenantState, key: KeyRef, superEvent: KubeObject, forMs: number): Outcome | undefined {
    // Clocks that disagree, or no time at all, must not make it wait for long.
    const isYoung = forMs >= -maxWaitMs && forMs < maxWaitMs;
    if (!isYoung || superEvent['type'] === 'Warning' || !this.#options.isBusy()) return undefined;
    const keys = this.#waiting.get(tenant) ?? new Map<string, KeyRef>();
    this.#waiting.set(tenant, keys.set(keyId(key), key));
    return { is: 'later', afterMs: Math.min(maxWaitMs, maxWaitMs - forMs) };
  }

  async #create(
    tenant: TenantState,
    key: KeyRef,
    superEvent: KubeObject,
    signal: AbortSignal,
  ): Promise<Outcome> {
    const context = tenant.context();
    if (superEvent.metadata.deletionTimestamp !== undefined) return done;
    if (!isAt(tenantRefOf(superEvent, context), key)) return done;
    const { client } = tenant;
    try {
      const options = { signal, cutManagedFields: true };
      const created = await client.create(resources.events, copyOf(superEvent, context), options);
      this.#remember(tenant, keyId(key), created);
      return done;
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
    }
    const live = await client.get(resources.events, key, { signal });
    if (originalUid(live) === undefined) return done;
    this.#remember(tenant, keyId(key), live);
    const patch = eventContentPatch(live, eventContent(superEvent, context));
    return patch === undefined ? done : this.#patch(tenant, keyId(key), live, patch, signal);
  }

  /** What has to change in a copy; `undefined`: nothing, or it is not the copy of this event. */
  #patchOf(
    tenant: TenantState,
    key: KeyRef,
    superEvent: KubeObject,
    copy: KubeObject,
  ): MergePatch | undefined {
    const context = tenant.context();
    if (originalUid(copy) !== superEvent.metadata.uid || !isAt(tenantRefOf(superEvent, context), key))
      return undefined;
    return eventContentPatch(copy, eventContent(superEvent, context));
  }

  async #patch(
    tenant: TenantState,
    id: string,
    copy: KubeObject,
    patch: MergePatch,
    signal: AbortSignal,
  ): Promise<Outcome> {
    const { uid, resourceVersion } = copy.metadata;
    const guarded = { ...patch, metadata: { uid, resourceVersion } };
    const options = { type: 'merge', signal, cutManagedFields: true } as const;
    try {
      const patched = await tenant.client.patch(resources.events, refOf(copy), guarded, options);
      this.#remember(tenant, id, patched);
      return done;
    } catch (error) {
      // Gone, or another than remembered: the next look is at the object itself.
      if (isNotFound(error) || isConflict(error)) this.copiesOf(tenant).delete(id);
      if (isNotFound(error)) return { is: 'later', afterMs: lookAgainMs };
      throw error;
    }
  }

  /**
   * What tells the copy from others, and what it says: a server may put anything beside. What is larger than an API server
   * lets an event be is not remembered: it is only tried once more.
   */
  #remember(tenant: TenantState, id: string, { metadata, ...event }: KubeObject): void {
    const { name: copyName, namespace, uid, resourceVersion } = metadata;
    const original = metadata.annotations?.[annotationKeys.uid];
    const annotations = original === undefined ? undefined : { [annotationKeys.uid]: original };
    const kept = withoutUndefined({ name: copyName, namespace, uid, resourceVersion, annotations });
    const object = { metadata: kept, ...payloadOf(event, contentFields) };
    const copies = this.copiesOf(tenant);
    if (estimateBytes(object) > maxCopyBytes) copies.delete(id);
    else copies.set(id, { object, atMs: tenant.context().nowMs });
  }

  #superEvent(superEvent: KubeObject): void {
    const superNamespace = this.#options.superCaches.get(resources.namespaces, {
      name: superEvent.metadata.namespace ?? '',
    });
    const tenant = superNamespace && this.#tenantOf(superNamespace);
    const key = tenant && keyOf(superEvent, tenant.context());
    if (tenant !== undefined && key !== undefined) this.#options.enqueue(tenant, key);
  }

  /** Events may be seen before their super namespace, and so before their tenant is known. */
  #superNamespace({ type, object, previous }: StoreEvent<KubeObject>): void {
    const isNew = type === 'added' || (previous !== undefined && hasMoved(previous, object));
    const tenant = isNew ? this.#tenantOf(object) : undefined;
    if (tenant === undefined) return;
    for (const key of this.#keysIn(tenant, object.metadata.name ?? '')) this.#options.enqueue(tenant, key);
  }

  *#keysIn(tenant: TenantState, superNamespace: string): Generator<KeyRef> {
    for (const superEvent of this.#options.superCaches
      .watched(name)
      .byIndex(bySuperNamespace, superNamespace)) {
      const key = keyOf(superEvent, tenant.context());
      if (key !== undefined) yield key;
    }
  }

  #tenantOf(superNamespace: KubeObject): TenantState | undefined {
    const uid = tenantUidOf(superNamespace);
    return uid === undefined ? undefined : this.#options.tenant(uid);
  }

  #superEventOf(tenant: TenantState, { namespace, name: eventName }: KeyRef): KubeObject | undefined {
    if (namespace === undefined) return undefined;
    const ref = { namespace: superNamespaceName(tenant.info, namespace), name: eventName };
    return this.#options.superCaches.watched(name).get(ref);
  }
}

/** How long a copy is to be left as it is, because it was written a moment ago. */
function pauseMs(writtenAtMs: number, nowMs: number): number {
  const restMs = writtenAtMs + patchEveryMs - nowMs;
  // A clock that was set back must not make it wait.
  return restMs <= patchEveryMs ? Math.max(0, restMs) : 0;
}

function keyOf(superEvent: KubeObject, context: SyncContext): KeyRef | undefined {
  const ref = tenantRefOf(superEvent, context);
  return ref && { kind: name, ...ref };
}

function isAt(ref: ObjectRef | undefined, key: KeyRef): boolean {
  return ref !== undefined && ref.name === key.name && ref.namespace === key.namespace;
}

/** Where the copy of an event belongs in this tenant; `undefined`: nowhere. */
export function tenantRefOf(superEvent: KubeObject, context: SyncContext): ObjectRef | undefined {
  const { namespace, name: eventName } = superEvent.metadata;
  if (namespace === undefined || eventName === undefined) return undefined;
  const superNamespace = context.superObjects.get(resources.namespaces, { name: namespace });
  if (superNamespace === undefined || !isOurs(superNamespace, context.tenant)) return undefined;
  const tenantNamespace = tenantNamespaceOf(superNamespace);
  if (tenantNamespace === undefined || involvedObjectOf(superEvent, context) === undefined) return undefined;
  if (isWaitForTokens(superEvent)) return undefined;
  return { namespace: tenantNamespace, name: eventName };
}

/** The copy as it is to be created. */
export function copyOf(superEvent: KubeObject, context: SyncContext): KubeObject {
  const { namespace } = tenantRefOf(superEvent, context) ?? {};
  return {
    apiVersion: 'v1',
    kind: 'Event',
    metadata: { ...copyMetadata(superEvent), ...(namespace && { namespace }) },
    involvedObject: involvedObjectOf(superEvent, context),
    ...eventContent(superEvent, context),
  };
}

interface ObjectReference {
  apiVersion?: string;
  kind?: string;
  namespace?: string;
  name?: string;
  uid?: string;
  fieldPath?: string;
  resourceVersion?: string;
}

/**
 * Kinds whose events come up, by the `kind` of their objects: what tenants have in namespaces. Not nodes and volumes, though
 * tenants have them: what is said of those is about machines and disks that others use too.
 */
const byObjectKind: ReadonlyMap<string, NamedResource> = new Map(
  allKinds
    .filter((kind) => kind.direction === 'down' && kind.isSecondCopy !== true && kind.resource.namespaced)
    .map((kind) => [kind.resource.kind, kind]),
);

/**
 * The tenant's object that an event of the super cluster is about, as an event in the tenant names it;
 * `undefined` when it is about something that the tenant does not have, or no longer has.
 */
function involvedObjectOf(event: KubeObject, context: SyncContext): ObjectReference | undefined {
  const involved = event['involvedObject'] as ObjectReference | undefined;
  const kind = kindOf(involved, context);
  if (involved?.name === undefined || involved.namespace === undefined || kind === undefined)
    return undefined;
  if (involved.namespace !== event.metadata.namespace) return undefined;
  const superNamespace = context.superObjects.get(resources.namespaces, { name: involved.namespace });
  const namespace = superNamespace === undefined ? undefined : tenantNamespaceOf(superNamespace);
  if (namespace === undefined) return undefined;

  const there = context.superObjects.get(kind.resource, {
    namespace: involved.namespace,
    name: involved.name,
  });
  const name = kind.tenantName?.(involved.name, there) ?? involved.name;
  const own = context.tenantObjects.get(kind.resource, { namespace, name });
  const uid = own?.metadata.uid;
  if (own === undefined || uid === undefined) return undefined;
  if (!isAbout(event, involved, own, there, context)) return undefined;
  const { apiVersion, kind: objectKind, fieldPath } = involved;
  return withoutUndefined({ apiVersion, kind: objectKind, namespace, name, uid, fieldPath });
}

/** Kinds of different groups may have one name: a custom `Service` is none of ours. */
function kindOf(involved: ObjectReference | undefined, context: SyncContext): NamedResource | undefined {
  const { apiVersion, kind = '' } = involved ?? {};
  const builtIn = byObjectKind.get(kind);
  if (apiVersion === undefined) return builtIn;
  const group = apiVersion.includes('/') ? (apiVersion.split('/')[0] ?? '') : '';
  return builtIn?.resource.group === group ? builtIn : context.customKind?.(group, kind);
}

/**
 * Whether the super object that the event names was made from this tenant object, and not from an earlier one of its
 * name.
 */
function isAbout(
  event: KubeObject,
  involved: ObjectReference,
  own: KubeObject,
  there: KubeObject | undefined,
  context: SyncContext,
): boolean {
  if (there !== undefined) {
    if (!isOurs(there, context.tenant) || originalUid(there) !== own.metadata.uid) return false;
    return involved.uid === undefined || involved.uid === there.metadata.uid;
  }
  // The event was faster than its subject, or outlived it: it counts unless it is older than the tenant object.
  const at = Date.parse(
    (event['firstTimestamp'] ?? event['eventTime'] ?? event.metadata.creationTimestamp ?? '') as string,
  );
  return !(at < Date.parse(own.metadata.creationTimestamp ?? ''));
}

/** What an event says happened; the rest of it (its subject, its name) is made anew. */
const contentFields = [
  'reason',
  'message',
  'type',
  'source',
  'reportingComponent',
  'reportingInstance',
  'action',
  'count',
  'firstTimestamp',
  'lastTimestamp',
  'eventTime',
  'series',
] as const;

/** Of an event with a series; scrubbing can make a text longer. */
const maxMessageLength = 1_024;

/** What the copy of an event says, in the tenant's words. */
export function eventContent(superObject: KubeObject, context: SyncContext): Record<string, unknown> {
  const result = payloadOf(superObject, contentFields);
  const { message, source } = result;
  if (message !== undefined) result['message'] = scrub(String(message), context).slice(0, maxMessageLength);
  if (source !== undefined) result['source'] = sourceFor(source as Source, context);
  const instance = result['reportingInstance'];
  if (context.tenant.hideNodes && typeof instance === 'string' && instance !== '') {
    // Kubelet's is its node; others end in the name of the machine that they run on.
    const shown = scrub(instance, context);
    result['reportingInstance'] = shown === instance ? (result['reportingComponent'] ?? '') : shown;
  }
  return result;
}

/** What has to change in a copy so that it says this; `undefined` when it does. */
export function eventContentPatch(
  tenantObject: KubeObject,
  wanted: Record<string, unknown>,
): MergePatch | undefined {
  const present = payloadOf(tenantObject, contentFields);
  return deepEqual(present, wanted) ? undefined : mergePatch(present, wanted);
}

interface Source {
  component?: string;
  host?: string;
}

function sourceFor({ component, host }: Source, context: SyncContext): Source {
  return withoutUndefined({ component, host: host && scrub(host, context) });
}

/**
 * Kubelet is on the node before the tokens are issued, and finds no Secret at first. The tenant knows of no such
 * Secret; when there is something to say of tokens, a notice says it.
 */
function isWaitForTokens(event: KubeObject): boolean {
  const { kind, name = '' } = (event['involvedObject'] ?? {}) as ObjectReference;
  if (kind !== 'Pod' || event['reason'] !== 'FailedMount') return false;
  return String(event['message'] ?? '').includes(`"${tokenSecretName(name)}"`);
}
