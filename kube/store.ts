import { estimateObjectBytes } from './object-size.ts';
import type { KubeObject, ObjectRef } from './types.ts';

/** Finds keys by values computed from their objects. Holds keys only, so a change that keeps the values costs nothing. */
class StoreIndex<T> {
  readonly #valuesOf: (object: T) => readonly string[];
  /** No set in here is empty. */
  readonly #keys = new Map<string, Set<string>>();

  constructor(valuesOf: (object: T) => readonly string[]) {
    this.#valuesOf = valuesOf;
  }

  keys(value: string): ReadonlySet<string> | undefined {
    return this.#keys.get(value);
  }

  /**
   * `before` and `after` are the same key's objects; undefined where there is none. Returns under how many values it is
   * found from now on.
   */
  update(key: string, before: T | undefined, after: T | undefined): number {
    const old = before === undefined ? none : this.#valuesOf(before);
    const current = after === undefined ? none : this.#valuesOf(after);
    if (same(old, current)) return current.length;
    for (const value of old) {
      const keys = this.#keys.get(value);
      if (keys?.delete(key) && keys.size === 0) this.#keys.delete(value);
    }
    for (const value of current) {
      const keys = this.#keys.get(value);
      if (keys === undefined) this.#keys.set(value, new Set([key]));
      else keys.add(key);
    }
    return current.length;
  }
}

const none: readonly string[] = [];
/** What a value in an index takes in memory: a set of its own, unless other objects have it too. Measured with V8. */
const indexValueBytes = 250;

function same(a: readonly string[], b: readonly string[]): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

export interface StoreEvent<T extends KubeObject = KubeObject> {
  type: 'added' | 'modified' | 'deleted';
  /** For `deleted`: the last known state. */
  object: T;
  previous?: T;
  /** True: the server reported this change in a watch. False: found by comparing a list with the store. */
  watched: boolean;
}

export interface StoreOptions<T extends KubeObject> {
  /**
   * What is kept of an object, in place of `previous`; may change and return the one it is given. Must keep name,
   * namespace, uid, resourceVersion.
   */
  transform?: (object: T, previous: T | undefined) => T;
  /** For each index, the values under which an object is found. Must depend on the object alone. */
  indexes?: Record<string, (object: T) => readonly string[]>;
  /** Has `bytes` counted; called when they have grown. */
  onGrowth?: (() => void) | undefined;
  /** Called when a listener, `transform` or an index function throws. Default: a process warning. */
  onListenerError?: (error: unknown) => void;
}

interface ReplaceOptions {
  versionsMayRepeat?: boolean;
}

/**
 * The objects of one resource as last heard from the server. Objects are shared by all readers
 * and must not be changed. Keeps one object per name; another UID under a name is another object.
 */
export class Store<T extends KubeObject = KubeObject> {
  readonly #objects = new Map<string, T>();
  readonly #indexes = new Map<string, StoreIndex<T>>();
  /** Replaced, never changed, so that a listener may unsubscribe while events are delivered. */
  #listeners: readonly ((event: StoreEvent<T>) => void)[] = [];
  readonly #transform: StoreOptions<T>['transform'];
  readonly #onListenerError: (error: unknown) => void;
  readonly #onGrowth: (() => void) | undefined;
  /** By key; empty where bytes are not counted. */
  readonly #sizes = new Map<string, number>();
  #bytes = 0;
  #version = 0;

  constructor(options: StoreOptions<T> = {}) {
    this.#transform = options.transform;
    this.#onListenerError = options.onListenerError ?? warn;
    this.#onGrowth = options.onGrowth;
    for (const [name, valuesOf] of Object.entries(options.indexes ?? {})) {
      this.#indexes.set(name, new StoreIndex(this.#guarded(valuesOf)));
    }
  }

  /** Grows with each change. */
  get version(): number {
    return this.#version;
  }

  get size(): number {
    return this.#objects.size;
  }

  /** About what the objects and their places in indexes take in memory; 0 without `onGrowth`. */
  get bytes(): number {
    return this.#bytes;
  }

  get(ref: ObjectRef): T | undefined {
    return this.#objects.get(keyOf(ref.namespace, ref.name));
  }

  list(): IterableIterator<T> {
    return this.#objects.values();
  }

  /** Throws for an index that was not declared. Costs what it returns. */
  byIndex(index: string, value: string): T[] {
    const found = this.#indexes.get(index);
    if (found === undefined) throw new RangeError(`this store has no index "${index}"`);
    const objects: T[] = [];
    for (const key of found.keys(value) ?? []) {
      const object = this.#objects.get(key);
      if (object !== undefined) objects.push(object);
    }
    return objects;
  }

  /** Called after the store has changed, for every change, in order. Returns how to stop that. */
  subscribe(listener: (event: StoreEvent<T>) => void): () => void {
    this.#listeners = [...this.#listeners, listener];
    return () => {
      this.#listeners = this.#listeners.filter((each) => each !== listener);
    };
  }

  /** Takes one watch event. What the store knows already changes nothing. */
  apply(type: 'ADDED' | 'MODIFIED' | 'DELETED', raw: T): void {
    const key = keyOf(raw.metadata.namespace, raw.metadata.name);
    const previous = this.#objects.get(key);
    if (type !== 'DELETED') {
      if (previous !== undefined && sameVersion(previous, raw)) return;
      this.#put(key, previous, this.#transformed(raw, previous), true);
    } else if (previous !== undefined && previous.metadata.uid === raw.metadata.uid) {
      // A deletion of another UID is about an earlier object of that name.
      this.#remove(key, previous, this.#transformed(raw, previous), true);
    }
  }

  /**
   * Takes a whole list: what is not in it is deleted. With `versionsMayRepeat`, the server's history
   * is not the one that the store has seen, and an equal resourceVersion does not prove equality.
   */
  replace(objects: readonly T[], options: ReplaceOptions = {}): void {
    for (const _ of this.replacing(objects, options));
  }

  /**
   * The same in steps, between which others may work; `apply` and `replace` must wait until it has ended. All that is
   * missing goes in one step, so that a count of what has gone is complete.
   */
  *replacing(objects: readonly T[], options: ReplaceOptions = {}): Generator<void, void, undefined> {
    const keys = new Set<string>();
    for (const { metadata } of objects) {
      keys.add(keyOf(metadata.namespace, metadata.name));
      yield;
    }
    const removed: T[] = [];
    for (const [key, object] of this.#objects) {
      if (keys.has(key)) continue;
      this.#drop(key, object);
      removed.push(object);
    }
    for (const object of removed) {
      this.#emit({ type: 'deleted', object, previous: object, watched: false });
      yield;
    }
    for (const raw of objects) {
      const key = keyOf(raw.metadata.namespace, raw.metadata.name);
      const previous = this.#objects.get(key);
      if (previous === undefined || options.versionsMayRepeat || !sameVersion(previous, raw))
        this.#put(key, previous, this.#transformed(raw, previous), false);
      yield;
    }
  }

  #put(key: string, previous: T | undefined, object: T, watched: boolean): void {
    if (previous !== undefined && previous.metadata.uid !== object.metadata.uid) {
      this.#remove(key, previous, previous, watched);
      previous = undefined;
    }
    this.#version++;
    this.#objects.set(key, object);
    this.#measure(key, object, this.#index(key, previous, object));
    if (previous === undefined) this.#emit({ type: 'added', object, watched });
    else this.#emit({ type: 'modified', object, previous, watched });
  }

  #drop(key: string, previous: T): void {
    this.#version++;
    this.#objects.delete(key);
    this.#measure(key, undefined, this.#index(key, previous, undefined));
  }

  #remove(key: string, previous: T, object: T, watched: boolean): void {
    this.#drop(key, previous);
    this.#emit({ type: 'deleted', object, previous, watched });
  }

  /** Returns under how many values it is found in all indexes. */
  #index(key: string, previous: T | undefined, object: T | undefined): number {
    let values = 0;
    for (const index of this.#indexes.values()) values += index.update(key, previous, object);
    return values;
  }

  #measure(key: string, object: T | undefined, indexValues: number): void {
    if (this.#onGrowth === undefined) return;
    const before = this.#sizes.get(key) ?? 0;
    const now =
      object === undefined ? 0 : key.length + estimateObjectBytes(object) + indexValues * indexValueBytes;
    if (object === undefined) this.#sizes.delete(key);
    else this.#sizes.set(key, now);
    this.#bytes += now - before;
    if (now > before) this.#onGrowth();
  }

  #emit(event: StoreEvent<T>): void {
    for (const listener of this.#listeners) {
      try {
        listener(event);
      } catch (error) {
        this.#onListenerError(error);
      }
    }
  }

  /** An index function that throws leaves the object out of the index; the reflector goes on. */
  #guarded(valuesOf: (object: T) => readonly string[]): (object: T) => readonly string[] {
    return (object) => {
      try {
        return valuesOf(object);
      } catch (error) {
        this.#onListenerError(error);
        return [];
      }
    };
  }

  #transformed(raw: T, previous: T | undefined): T {
    if (this.#transform === undefined) return raw;
    try {
      return this.#transform(raw, previous);
    } catch (error) {
      this.#onListenerError(error);
      return raw;
    }
  }
}

function keyOf(namespace: string | undefined, name: string | undefined): string {
  return namespace === undefined ? `/${name}` : `${namespace}/${name}`;
}

function sameVersion(a: KubeObject, b: KubeObject): boolean {
  const version = a.metadata.resourceVersion;
  return version !== undefined && version === b.metadata.resourceVersion && a.metadata.uid === b.metadata.uid;
}

function warn(error: unknown): void {
  process.emitWarning(error instanceof Error ? error : String(error), { type: 'StoreListenerWarning' });
}
