import { randomUUID } from 'node:crypto';
import type { KubeObject, ObjectRef } from '../types.ts';

/** One change, as watches see it. */
export interface Change {
  readonly version: number;
  readonly collection: string;
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  readonly object: KubeObject;
  readonly previous: KubeObject | undefined;
}

export interface Snapshot {
  readonly version: number;
  readonly collections: ReadonlyMap<string, ReadonlyMap<string, KubeObject>>;
  /** Watches from an earlier version read it after a restore, too. */
  readonly history: readonly Change[];
  readonly compacted: number;
}

/**
 * Objects of all collections with one counter for versions, and the history that watches read.
 * Stored objects are frozen in spirit: every write stores a new one.
 */
export class FakeStorage {
  #version = 1;
  #collections = new Map<string, Map<string, KubeObject>>();
  #history: Change[] = [];
  /** Changes up to this version are forgotten. */
  #compacted = 0;
  readonly #onChange: (change: Change) => void;

  constructor(onChange: (change: Change) => void) {
    this.#onChange = onChange;
  }

  get version(): number {
    return this.#version;
  }

  get compacted(): number {
    return this.#compacted;
  }

  get(collection: string, ref: ObjectRef): KubeObject | undefined {
    return this.#collections.get(collection)?.get(keyOf(ref));
  }

  /** In order of their keys, as etcd answers. */
  list(collection: string): KubeObject[] {
    const entries = [...(this.#collections.get(collection) ?? [])];
    return entries.sort(([a], [b]) => (a < b ? -1 : 1)).map(([, object]) => object);
  }

  /** The same as it was at a version that is not forgotten. */
  listAt(collection: string, version: number): KubeObject[] {
    const objects = new Map(this.#collections.get(collection));
    for (const change of this.changesAfter(version).toReversed()) {
      if (change.collection !== collection) continue;
      const key = keyOf(refOf(change.object));
      if (change.previous === undefined) objects.delete(key);
      else objects.set(key, change.previous);
    }
    return [...objects].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, object]) => object);
  }

  changesAfter(version: number): readonly Change[] {
    return this.#history.filter((change) => change.version > version);
  }

  /** Stores an object under its own name. Gives a new one a UID, `uid` if it is given, and its creation time. */
  put(collection: string, object: KubeObject, uid?: string): KubeObject {
    const objects = this.#objects(collection);
    const key = keyOf(refOf(object));
    const previous = objects.get(key);
    this.#version += 1;
    const stored: KubeObject = {
      ...object,
      metadata: {
        ...object.metadata,
        uid: previous?.metadata.uid ?? uid ?? randomUUID(),
        creationTimestamp:
          previous?.metadata.creationTimestamp ?? new Date().toISOString().replace(/\.\d+/, ''),
        resourceVersion: String(this.#version),
      },
    };
    objects.set(key, stored);
    this.#record(collection, previous === undefined ? 'ADDED' : 'MODIFIED', stored, previous);
    return stored;
  }

  /** The last state carries the version of its deletion, as a watch shows it. */
  remove(collection: string, ref: ObjectRef): KubeObject | undefined {
    const objects = this.#objects(collection);
    const previous = objects.get(keyOf(ref));
    if (previous === undefined) return undefined;
    objects.delete(keyOf(ref));
    this.#version += 1;
    const last = { ...previous, metadata: { ...previous.metadata, resourceVersion: String(this.#version) } };
    this.#record(collection, 'DELETED', last, previous);
    return last;
  }

  /** Counts a version up without a change, as writes to other collections do. */
  bump(): void {
    this.#version += 1;
  }

  /** Forgets history: watches and continue tokens from before now are expired. */
  compact(): void {
    this.#compacted = this.#version;
    this.#history = [];
  }

  snapshot(): Snapshot {
    const collections = new Map<string, ReadonlyMap<string, KubeObject>>();
    for (const [name, objects] of this.#collections) collections.set(name, new Map(objects));
    return { version: this.#version, collections, history: [...this.#history], compacted: this.#compacted };
  }

  /** Goes back to an earlier state, versions included. */
  restore(snapshot: Snapshot): void {
    this.#version = snapshot.version;
    this.#collections = new Map();
    for (const [name, objects] of snapshot.collections) this.#collections.set(name, new Map(objects));
    this.#history = [...snapshot.history];
    this.#compacted = snapshot.compacted;
  }

  #objects(collection: string): Map<string, KubeObject> {
    let objects = this.#collections.get(collection);
    if (objects === undefined) {
      objects = new Map();
      this.#collections.set(collection, objects);
    }
    return objects;
  }

  #record(
    collection: string,
    type: Change['type'],
    object: KubeObject,
    previous: KubeObject | undefined,
  ): void {
    const change = { version: this.#version, collection, type, object, previous };
    this.#history.push(change);
    this.#onChange(change);
  }
}

export function refOf(object: KubeObject): ObjectRef {
  return { name: object.metadata.name ?? '', namespace: object.metadata.namespace };
}

function keyOf(ref: ObjectRef): string {
  return `${ref.namespace ?? ''}/${ref.name}`;
}
