import type { KubeObject, MergePatch, ObjectRef, Resource } from '../../kube/index.ts';
import type { KeyRef, NamedResource, SyncContext } from '../context.ts';

/** Something that the tenant should read with `kubectl describe`. Text is free of super cluster names. */
export interface Notice {
  readonly type: 'Normal' | 'Warning';
  /** CamelCase, machine readable. */
  readonly reason: string;
  readonly message: string;
}

/**
 * One step towards agreement. The engine carries steps out in order and stops at the first that fails.
 * Deletes carry the UID of the object that the decision was made on, patches its UID and resourceVersion.
 */
export type Action =
  | { readonly do: 'createSuper'; readonly object: KubeObject }
  | {
      readonly do: 'patchSuper';
      readonly patch: MergePatch;
      readonly subresource?: string;
      /**
       * The super object, with the patch applied, is all that the server shall have of it, so that the write may be one of the
       * whole object: for an API server that is a third of the work of a large patch.
       */
      readonly isWhole?: true;
      /**
       * A refusal is reported on the tenant object, and the write is tried again later. The status of the super object
       * comes up without waiting for it.
       */
      readonly mayBeRefused?: true;
      /** It only takes away, as policy demands: no quota of the tenant's holds it back. */
      readonly isDemanded?: true;
    }
  | { readonly do: 'deleteSuper'; readonly gracePeriodSeconds?: number }
  | { readonly do: 'createTenant'; readonly object: KubeObject }
  | { readonly do: 'patchTenant'; readonly patch: MergePatch; readonly subresource?: string }
  | { readonly do: 'deleteTenant'; readonly gracePeriodSeconds?: number }
  /**
   * Binds the tenant's pod to a node; labels (from Kubernetes 1.35 on) and annotations of the Binding land on the pod.
   */
  | {
      readonly do: 'bindTenant';
      readonly node: string;
      readonly annotations: Record<string, string>;
      readonly labels?: Record<string, string>;
    }
  /** An event on the tenant's object. */
  | {
      readonly do: 'notice';
      readonly notice: Notice;
      /** It says why there is no super object. */
      readonly isRefusal?: boolean;
    }
  /** Stops here until these are in agreement themselves; the engine queues them and comes back. */
  | { readonly do: 'require'; readonly keys: readonly KeyRef[] }
  /** Comes back after a time, e.g. for something that goes two minutes after its last use. */
  | { readonly do: 'later'; readonly afterMs: number };

/**
 * What the super cluster answered to a refused write (400, 403, 409, 413, 422), as a kind may look at it.
 * `message` may hold super cluster names.
 */
export interface RefusedWrite {
  readonly code: number;
  readonly reason: string;
  readonly message: string;
  readonly causes: readonly { readonly reason: string; readonly message: string; readonly field: string }[];
}

/** A write of a super object as it is about to be sent. */
export type SuperWrite =
  | { readonly creates: KubeObject }
  | { readonly patches: KubeObject; readonly patch: MergePatch; readonly subresource: string | undefined };

interface KindBase {
  /**
   * Of all that a tenant has when it joins, its objects are looked at first: pods, for which people wait, and before them what
   * pods do not ask for and must not run without.
   */
  readonly joinsFirst?: true;
  /** The plural of the resource; part of the sync key, label of metrics. */
  readonly name: string;
  readonly resource: Resource;
  /**
   * Whether a change of a super object carries no news (a node's heartbeat): it is ignored. Only nodes have it: each
   * says every few seconds that it is there, and every tenant would look at it.
   */
  isHeartbeat?(before: KubeObject, after: KubeObject): boolean;
  /**
   * Label selectors for what is watched on either side; in the super cluster beside our own mark. In the tenant only
   * EndpointSlices have one: most of them belong to Services that have their own in the super cluster.
   */
  readonly selector?: { readonly tenant?: string; readonly super?: string };
  /** Index functions for the stores of either side; values are looked up with `Lookup.byIndex`. */
  readonly indexes?: {
    readonly tenant?: Readonly<Record<string, (object: KubeObject) => readonly string[]>>;
    readonly super?: Readonly<Record<string, (object: KubeObject) => readonly string[]>>;
  };
  /** Drops from a cached object what is never compared nor written (managedFields goes in any case). */
  readonly compact?: {
    readonly tenant?: (object: KubeObject) => KubeObject;
    readonly super?: (object: KubeObject, previous?: KubeObject) => KubeObject;
  };
  /**
   * There are many of it which are equal in part, to each other and on both sides: caches keep equal parts once, and
   * frozen.
   */
  readonly sharesParts?: true;
  /**
   * Keys of other objects whose agreement depends on this one; queued when it appears, changes or goes.
   * Called with the old and with the new state.
   */
  readonly touches?: {
    /**
     * A change of this object touches others, what it refers to included, only when it changes which ones (a pod and
     * its ConfigMaps). For pods alone: their status changes so often that each would queue all that they refer to.
     */
    readonly membershipOnly?: boolean;
    readonly tenant?: (object: KubeObject, context: SyncContext) => readonly KeyRef[];
    readonly super?: (object: KubeObject, context: SyncContext) => readonly KeyRef[];
  };
}

/** What the objects of a kind refer to, in the tenant's names. The engine keeps the index of it in both directions. */
export interface References {
  /** Each once, whether it is there or not. Depends on nothing but the object. */
  of(tenantObject: KubeObject): readonly KeyRef[];
  /** Kinds that go down because objects of this one refer to them (sync rule `write-order`). */
  readonly needed?: readonly string[];
  /** Whether an object is in the super cluster, or is to be, so that it needs what it refers to; always, unless given. */
  needs?(tenantObject: KubeObject, context: SyncContext): boolean;
  /** Kinds whose objects decide about this one: it is looked at again when one that it refers to appears, changes or goes. */
  readonly followed?: readonly string[];
}

/** Born in the tenant, mirrored into the super cluster. */
export interface DownKind extends KindBase, NamedResource {
  readonly direction: 'down';
  readonly references?: References;
  /**
   * Top-level fields that caches do not hold (`compact` sees to that): the tenant object is followed as metadata only and
   * read whole when it goes down; the super object is listed whole and watched as metadata only. `toSuper` is called with
   * whole objects; `down` with whole ones, with a super object that `isToBeReplaced`, or with two that have no payload
   * where both have the same. The super object carries its `payloadSummary`.
   */
  readonly payload?: readonly string[];
  /**
   * A second super object of another kind's tenant objects, found by `selector`. Such a kind has no cache of its own
   * in the tenant, but one in the super cluster. Of the tenant object's changes only the deletion queues its key; the
   * other kind touches it for everything else.
   */
  readonly isSecondCopy?: true;
  /**
   * Not made while it is not known whether policies would isolate it. When that is known, the tenant's settings change, and
   * all of it is looked at.
   */
  readonly waitsForIsolation?: true;
  /** Super objects of all tenants are known to each replica: names of namespaces turn up in texts of other objects. */
  readonly ofAllTenants?: true;
  /** A delete needs a live 404 even after a watched DELETED event (namespaces, claims). */
  readonly deleteNeedsLiveCheck?: boolean;
  /**
   * Super objects that `admit` does not want count as missing (sync rule `mass-deletion-hold`): a setting may have
   * switched off all of them at once.
   */
  readonly unwantedIsMissing?: boolean;
  /**
   * Whether the tenant object should have a super object. `{ wanted: false }` without a notice is silent; the super
   * object, if there, goes unless `keep` is set.
   */
  admit?(tenantObject: KubeObject, context: SyncContext): Admission;
  /**
   * What the operator's policy demands of a super object, whatever the tenant says: `patchSuper` or `deleteSuper`, empty
   * where it is as it may be. Carried out before anything else (sync rule `policy-over-holds`). `tenantObject`: the one
   * that it was made from, if that is there.
   */
  enforce?(
    superObject: KubeObject,
    tenantObject: KubeObject | undefined,
    context: SyncContext,
  ): readonly Action[];
  /** What must be in agreement before the super object is created: ServiceAccount, objects that a pod refers to. */
  requires?(tenantObject: KubeObject, context: SyncContext): readonly KeyRef[];
  /**
   * The super object as it is to be created, complete with name, namespace, marks, labels and annotations
   * (`superMetadata` in mapping makes them).
   */
  toSuper(tenantObject: KubeObject, context: SyncContext): KubeObject;
  /**
   * Brings the super object's tenant-owned fields up to date; empty when they are. The super object carries the tenant
   * object's UID mark.
   */
  down(tenantObject: KubeObject, superObject: KubeObject, context: SyncContext): readonly Action[];
  /**
   * The super object carries no marks, but stands in our own super namespace and may be taken over (the `default`
   * ServiceAccount).
   */
  adopts?(superObject: KubeObject, tenantObject: KubeObject, context: SyncContext): boolean;
  /**
   * Whether what is decided of these two depends on nothing but them and the tenant's settings: neither on the time
   * nor on other objects. A resync that has found them to agree then looks at them again only when one has changed.
   * For pods alone: of nothing else are there so many, and nothing else is so dear to compare.
   */
  dependsOnlyOnPair?(tenantObject: KubeObject, superObject: KubeObject): boolean;
  /** Brings the tenant object's super-owned fields up to date, deletion in either direction included. */
  up?(tenantObject: KubeObject, superObject: KubeObject, context: SyncContext): readonly Action[];
  /**
   * The tenant object is there, the super object is not, and the tenant object shows that the super object once was:
   * instead of creating it anew (sync rule `pod-deletion`).
   * `undefined`: create. Carried out only after a live check of both sides. `last` is what `lastState` says of the super
   * object, when its end was seen.
   */
  superGone?(
    tenantObject: KubeObject,
    context: SyncContext,
    last?: KubeObject,
  ): readonly Action[] | undefined;
  /**
   * What is kept of a super object that is gone, for `last` of `superGone`, beside its UID, generation, mark and time of
   * deletion, as long as the tenant object is there. Default: nothing.
   */
  lastState?(superObject: KubeObject): Record<string, unknown>;
  /**
   * Deletions have a grace period (pods). Where the tenant object was seen going while the super object is there, it
   * was deleted by force, and so is the super object; otherwise the super object keeps its grace.
   */
  readonly hasGrace?: true;
  /**
   * Merge patch of the tenant object's status that says why it has no super object; undefined: it says so, or something
   * like it was written a moment ago. Only pods have a condition that says so (`PodScheduled`); others get the event
   * alone, but for what `hasConditions` brings.
   */
  refusedStatus?(tenantObject: KubeObject, message: string, nowMs: number): object | undefined;
  /**
   * `status.conditions` of the tenant object has room for one of ours, which says that a write waits for the quota
   * (`syncer/kinds/conditions.ts`). `up` leaves that one alone.
   */
  readonly hasConditions?: true;
  /**
   * Why a write of the super object is not sent, whatever made it; undefined: it may be sent. Called with every write,
   * as it is about to be sent (sync rule `validated-writes`). Must not throw.
   */
  validate?(write: SuperWrite, context: SyncContext): Notice | undefined;
  /**
   * Whether the state of other super objects that a write of the super object was decided by still holds; `none`: it
   * depends on no other, `failed`: it is not sent. Called at the moment in which it is sent; the write is registered in
   * the same turn. Pods alone have one (sync rule `tenant-isolation`).
   */
  precondition?(write: SuperWrite, context: SyncContext): 'none' | 'met' | 'failed';
  /**
   * A way round a refused create of the super object; `undefined`: the refusal stands (event on the tenant object,
   * back-off). Services have one, for numbers that others have taken: pure, so that it is tested without a server.
   */
  recover?(
    refused: RefusedWrite,
    tenantObject: KubeObject,
    attempted: KubeObject,
    context: SyncContext,
  ): readonly Action[] | undefined;
}

export type Admission = {
  readonly wanted: boolean;
  readonly notice?: Notice;
  /** With `wanted: false`: leave a super object that is there already. */
  readonly keep?: boolean;
  /** With `wanted: false`: what requires it waits; something else may have its name in the super namespace. */
  readonly isAwaited?: true;
};

/**
 * Born in the super cluster, mirrored into tenants. The copy carries the super object's UID in `skerry.dev/uid`. All
 * objects of the super cluster are watched, where of a `DownKind` only those with Skerry's labels are.
 */
export interface UpKind extends KindBase {
  readonly direction: 'up';
  /**
   * The super namespace that says whose the super object is (of a volume, its claim's); without this function every
   * tenant is asked. Volumes alone are many and belong to one tenant each.
   */
  superNamespaceOf?(superObject: KubeObject): string | undefined;
  /** Where the super object belongs in this tenant; `undefined`: nowhere. */
  tenantRef(superObject: KubeObject, context: SyncContext): ObjectRef | undefined;
  /**
   * What a copy of the super object is called, whether the super object has a place here or not; the same name unless
   * given (nodes, whose names may be hidden).
   */
  copyName?(superName: string, context: SyncContext): string;
  /** Where to look for the super object, given the tenant object's name; `undefined` where that name leads nowhere. */
  superRef(tenantRef: ObjectRef, context: SyncContext): ObjectRef | undefined;
  /**
   * The tenant object has lost the mark of a copy and is one all the same, by a field that cannot be changed (a node's
   * `providerID`).
   */
  adopts?(tenantObject: KubeObject, superObject: KubeObject, context: SyncContext): boolean;
  /** The tenant object as it is to be created, the mark of a copy included. */
  toTenant(superObject: KubeObject, context: SyncContext): KubeObject;
  /** Brings the copy up to date; empty when it is. */
  up(tenantObject: KubeObject, superObject: KubeObject, context: SyncContext): readonly Action[];
  /**
   * The super object is gone or no longer belongs here, and the tenant object is our copy: what to do; default: delete
   * the tenant object.
   */
  superGone?(tenantObject: KubeObject, context: SyncContext): readonly Action[];
}

export type SyncedKind = DownKind | UpKind;

/** Objects in the super cluster that are made from tenant objects: those of a kind, or of a controller of its own. */
export type SuperObjects = Pick<DownKind, 'name' | 'resource' | 'superName' | 'tenantName' | 'payload'>;
