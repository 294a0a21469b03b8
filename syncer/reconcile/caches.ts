import { labelKeys } from '../../api/labels.ts';
import {
  type KubeObject,
  type ObjectRef,
  PartPool,
  type Resource,
  Store,
  StringPool,
} from '../../kube/index.ts';
import type { Lookup } from '../context.ts';
import type { SyncedKind } from '../kinds/contract.ts';
import { referenceIds, referencesIndex } from '../kinds/references.ts';
import { isOlder } from './expectations.ts';

/** As servers with etcd write it, and no longer than that can become. */
const decimal = /^\d{1,20}$/;

/** Index that every store of the super cluster has: UID of the VirtualCluster an object belongs to. */
export const byTenantIndex = 'tenant';
/** Index of kinds with `superNamespaceOf`: the super namespace that says whose an object is. */
export const bySuperNamespaceIndex = 'superNamespace';

function tenantLabel(object: KubeObject): readonly string[] {
  const uid = object.metadata.labels?.[labelKeys.tenant];
  return uid === undefined ? [] : [uid];
}

/** Objects of the super cluster that a special controller has followed and cached. */
export interface SuperWatch {
  /** Of its store and in metrics: the controller's. */
  readonly name: string;
  readonly resource: Resource;
  /** `marked`: objects of the tenants that this replica serves; `allTenants`: of every tenant; `all`: every one. */
  readonly superScope: 'marked' | 'allTenants' | 'all';
  /** Label selector, beside our own mark. */
  readonly selector?: string | undefined;
  readonly indexes?: Readonly<Record<string, (object: KubeObject) => readonly string[]>>;
  /** Drops from a cached object what is never compared nor written. */
  readonly compact?: (object: KubeObject) => KubeObject;
}

/** The stores of one side, one per kind, and the reads that kinds may do on them. */
export class Caches implements Lookup {
  readonly #stores = new Map<string, Store>();
  /** In the super cluster: what is followed beside the objects of the resource's own kind, by name of kind or controller. */
  readonly #beside = new Map<string, Store>();
  readonly #side: 'tenant' | 'super';
  readonly #onGrowth: (() => void) | undefined;

  /** `onGrowth`: called when `bytes`, which are counted then, have grown. */
  constructor(
    kinds: readonly SyncedKind[],
    side: 'tenant' | 'super',
    watches: readonly SuperWatch[] = [],
    onGrowth?: () => void,
  ) {
    this.#side = side;
    this.#onGrowth = onGrowth;
    for (const kind of kinds) this.add(kind);
    for (const watch of watches) this.#addWatch(watch);
  }

  /** About what all objects take in memory; 0 where they are not counted. */
  get bytes(): number {
    let bytes = 0;
    for (const store of this.#stores.values()) bytes += store.bytes;
    return bytes;
  }

  /** A store for the objects of one more kind; it takes the place of an earlier one. */
  add(kind: SyncedKind): Store | undefined {
    const isSecondCopy = kind.direction === 'down' && kind.isSecondCopy === true;
    if (isSecondCopy && this.#side === 'tenant') return undefined;
    const store = makeStore(this.#indexesOf(kind), {
      compact: kind.compact?.[this.#side],
      sharesParts: kind.sharesParts,
      onGrowth: this.#onGrowth,
    });
    if (isSecondCopy) this.#beside.set(kind.name, store);
    else this.#stores.set(storeName(kind.resource), store);
    return store;
  }

  #addWatch({ name, resource, indexes = {}, compact }: SuperWatch): void {
    const store = makeStore({ [byTenantIndex]: tenantLabel, ...indexes }, { compact });
    this.#beside.set(name, store);
    if (!this.#stores.has(storeName(resource))) this.#stores.set(storeName(resource), store);
  }

  /** The objects of a `SuperWatch`. */
  watched(name: string): Store {
    const store = this.#beside.get(name);
    if (store === undefined) throw new Error(`no cache for ${name}`);
    return store;
  }

  /** Lets go of a store, unless another has taken its place. */
  remove(kind: SyncedKind, store: Store): void {
    const name = storeName(kind.resource);
    if (this.#stores.get(name) === store) this.#stores.delete(name);
  }

  /** Where the objects of this kind, or of this controller, are on this side. */
  of({ name, resource }: { readonly name: string; readonly resource: Resource }): Store {
    return this.#beside.get(name) ?? this.store(resource);
  }

  store(resource: Resource): Store {
    const store = this.#stores.get(storeName(resource));
    if (store === undefined) throw new Error(`no cache for ${resource.plural}`);
    return store;
  }

  /** The latest resourceVersion of all objects that are cached; undefined without any. */
  latestVersion(): string | undefined {
    let latest: string | undefined;
    for (const store of this.#stores.values()) {
      for (const { metadata } of store.list()) {
        const { resourceVersion = '' } = metadata;
        if (decimal.test(resourceVersion) && (latest === undefined || isOlder(latest, resourceVersion)))
          latest = resourceVersion;
      }
    }
    return latest;
  }

  get<T extends KubeObject = KubeObject>(resource: Resource, ref: ObjectRef): T | undefined {
    return this.store(resource).get(ref) as T | undefined;
  }

  byIndex<T extends KubeObject = KubeObject>(resource: Resource, index: string, value: string): readonly T[] {
    return this.store(resource).byIndex(index, value) as T[];
  }

  version(resource: Resource): number {
    return this.store(resource).version;
  }

  #indexesOf(kind: SyncedKind): Record<string, (object: KubeObject) => readonly string[]> {
    const indexes: Record<string, (object: KubeObject) => readonly string[]> = {
      ...kind.indexes?.[this.#side],
    };
    if (this.#side === 'tenant' && kind.direction === 'down' && kind.references !== undefined)
      indexes[referencesIndex] = (object) => referenceIds(kind, object);
    if (this.#side === 'super') indexes[byTenantIndex] = tenantLabel;
    const superNamespaceOf = this.#side === 'super' && kind.direction === 'up' && kind.superNamespaceOf;
    if (superNamespaceOf) {
      indexes[bySuperNamespaceIndex] = (object) => {
        const namespace = superNamespaceOf(object);
        return namespace === undefined ? [] : [namespace];
      };
    }
    return indexes;
  }
}

function makeStore(
  indexes: Record<string, (object: KubeObject) => readonly string[]>,
  {
    compact,
    sharesParts = false,
    onGrowth,
  }: {
    compact?: ((object: KubeObject, previous: KubeObject | undefined) => KubeObject) | undefined;
    sharesParts?: boolean | undefined;
    onGrowth?: (() => void) | undefined;
  },
): Store {
  return new Store({
    transform: (object, previous) => {
      delete object.metadata['managedFields'];
      const kept = sharedTexts.share(compact === undefined ? object : compact(object, previous));
      return sharesParts ? sharedParts.share(kept) : kept;
    },
    indexes,
    onGrowth,
  });
}

/** Tells resources of one plural name apart; a custom resource may be cached in several versions. */
function storeName(resource: Resource): string {
  let name = storeNames.get(resource);
  if (name === undefined) {
    name = `${resource.plural}.${resource.version}.${resource.group}`;
    storeNames.set(resource, name);
  }
  return name;
}

/** No state but a memory of what is a function of a resource: needed at every look into a cache. */
const storeNames = new WeakMap<Resource, string>();

/** Of all caches: pods of all tenants, and both sides of each, say the same. */
const sharedTexts = new StringPool();
const sharedParts = new PartPool();
