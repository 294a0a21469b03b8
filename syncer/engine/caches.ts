import { type KubeObject, type ObjectRef, type Resource, Store } from '../../kube/index.ts';
import type { Lookup, SyncedKind } from '../kinds/index.ts';
import { marks } from '../mapping/index.ts';

/** Index that every store of the super cluster has: UID of the VirtualCluster an object belongs to. */
export const byTenantIndex = 'tenant';

function tenantLabel(object: KubeObject): readonly string[] {
  const uid = object.metadata.labels?.[marks.tenant];
  return uid === undefined ? [] : [uid];
}

/** The stores of one side, one per kind, and the reads that kinds may do on them. */
export class Caches implements Lookup {
  readonly #stores = new Map<string, Store>();

  constructor(kinds: readonly SyncedKind[], side: 'tenant' | 'super') {
    for (const kind of kinds) {
      const compact = kind.compact?.[side];
      const indexes: Record<string, (object: KubeObject) => readonly string[]> = { ...kind.indexes?.[side] };
      if (side === 'super') indexes[byTenantIndex] = tenantLabel;
      this.#stores.set(
        kind.resource.plural,
        new Store({
          transform: (object) => {
            delete object.metadata['managedFields'];
            return compact === undefined ? object : compact(object);
          },
          indexes,
        }),
      );
    }
  }

  store(resource: Resource): Store {
    const store = this.#stores.get(resource.plural);
    if (store === undefined) throw new Error(`no cache for ${resource.plural}`);
    return store;
  }

  get<T extends KubeObject = KubeObject>(resource: Resource, ref: ObjectRef): T | undefined {
    return this.store(resource).get(ref) as T | undefined;
  }

  byIndex<T extends KubeObject = KubeObject>(resource: Resource, index: string, value: string): readonly T[] {
    return this.store(resource).byIndex(index, value) as T[];
  }
}
