import { isRecord, type KubeObject } from './types.ts';

/** Longer texts are seldom the same, and comparing them costs more. */
const longest = 128;
/** Parsed JSON shares texts up to this length already. */
const shortest = 11;

/**
 * Has equal texts of cached objects share their memory: each API object brings its own copy of image names, conditions,
 * timestamps and labels that thousands have. Remembers a limited number of texts, those that have been seen
 * again for longer than those that have not.
 */
export class StringPool {
  readonly #capacity: number;
  #seen = new Map<string, string>();
  #shared = new Map<string, string>();

  constructor(capacity = 8192) {
    this.#capacity = capacity;
  }

  /** How many texts are remembered. */
  get size(): number {
    return this.#seen.size + this.#shared.size;
  }

  /** Changes the texts within `value`, an object as JSON has it, for equal ones. Returns it. */
  share<T>(value: T): T {
    // It is shared already.
    if (Object.isFrozen(value)) return value;
    if (Array.isArray(value)) {
      for (let index = 0; index < value.length; index++) {
        const each: unknown = value[index];
        if (typeof each === 'string') value[index] = this.text(each);
        else if (typeof each === 'object') this.share(each);
      }
    } else if (isRecord(value)) {
      const fields: Record<string, unknown> = value;
      for (const key in fields) {
        const each = fields[key];
        // An assignment to `__proto__` would change the object itself.
        if (typeof each === 'string' && key !== '__proto__') fields[key] = this.text(each);
        else if (typeof each === 'object') this.share(each);
      }
    }
    return value;
  }

  /** The text that is remembered in place of an equal one. */
  text(text: string): string {
    if (text.length < shortest || text.length > longest) return text;
    const shared = this.#shared.get(text);
    if (shared !== undefined) return shared;
    const seen = this.#seen.get(text);
    if (seen !== undefined) {
      if (this.#shared.size >= this.#capacity) this.#shared = new Map();
      this.#shared.set(seen, seen);
      this.#seen.delete(seen);
      return seen;
    }
    if (this.#seen.size >= this.#capacity) this.#seen = new Map();
    this.#seen.set(text, text);
    return text;
  }
}

/** By hash; a power of two. */
const places = 2 ** 15;
/** Of a part by itself, in bytes as `PartPool` counts them: longer ones are seldom the same. */
const longestPart = 1024;
const emptyPartBytes = 48;
const fieldBytes = 16;
/** Of a key that no other part has: the text and what JavaScript keeps to find the field by it. */
const keyBytes = 64;
/** Keys of types are shorter, and JavaScript keeps those once by itself. */
const longestFreeKey = 64;
/** In place of the hash of a part that is not shared. */
const unshared = 0;
/** Odd, and with bits everywhere. */
const seed = 0x9e3779b1;

/** One part for each hash, so that it is limited and needs no order. */
class PartTable {
  readonly #parts = new Array<object | undefined>(places).fill(undefined);
  readonly #maxBytes: number;
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** The part at this hash, if it is the same. */
  find(hash: number, part: object): object | undefined {
    const there = this.#parts[placeOf(hash)];
    return there !== undefined && isSamePart(there, part) ? there : undefined;
  }

  /** In place of what is there. `bytes` of all that came are counted, also of those that have gone. */
  put(hash: number, part: object | undefined, bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes > this.#maxBytes) {
      this.#parts.fill(undefined);
      this.#bytes = bytes;
    }
    this.#parts[placeOf(hash)] = part;
  }
}

/**
 * Has equal parts of cached objects share their memory: pods have containers, tolerations and conditions that are equal
 * to those of others, and to those of their own copies on the other side. A part that is shared is frozen, so that no
 * change of one object can show in another. Remembers a limited number of them, those that were seen again for longer
 * than those that were not.
 */
export class PartPool {
  readonly #seen: PartTable;
  readonly #shared: PartTable;
  /** Of the part that was looked at last; its bytes as if no other part had its keys. */
  #hash = unshared;
  #bytes = 0;

  /** `maxBytes`: about what it may keep in memory, twice, where a tenant invents all keys; less than half of it else. */
  constructor(maxBytes = 8 * 2 ** 20) {
    this.#seen = new PartTable(maxBytes);
    this.#shared = new PartTable(maxBytes);
  }

  /** About what it keeps in memory if no two parts have a key in common. */
  get bytes(): number {
    return this.#seen.bytes + this.#shared.bytes;
  }

  /**
   * Changes the parts of an object as JSON has it for equal ones; the object and its metadata stay its own. Returns it.
   */
  share<T extends KubeObject>(object: T): T {
    this.#shareFields(object.metadata);
    for (const section of ['spec', 'status'] as const) {
      const part: unknown = object[section];
      if (isPart(part)) this.#shareFields(part);
    }
    return object;
  }

  #shareFields(fields: object): void {
    if (Object.isFrozen(fields)) return;
    for (const key in fields) {
      const part: unknown = (fields as Record<string, unknown>)[key];
      if (isPart(part) && key !== '__proto__') (fields as Record<string, unknown>)[key] = this.#part(part);
    }
  }

  /** The part that is remembered in place of an equal one. */
  #part(part: object): object {
    if (Object.isFrozen(part)) {
      this.#hash = unshared;
      return part;
    }
    if (Array.isArray(part)) this.#shareItems(part);
    else this.#sharePart(part as Record<string, unknown>);
    const hash = this.#hash;
    const bytes = this.#bytes;
    if (hash === unshared) return part;
    const shared = this.#shared.find(hash, part);
    if (shared !== undefined) return shared;
    const seen = this.#seen.find(hash, part);
    if (seen === undefined) {
      this.#seen.put(hash, part, bytes);
      return part;
    }
    this.#seen.put(hash, undefined, 0);
    this.#shared.put(hash, Object.freeze(seen), bytes);
    return seen;
  }

  #shareItems(items: unknown[]): void {
    let hash = seed;
    let bytes = emptyPartBytes;
    let isShared = true;
    for (let index = 0; index < items.length; index++) {
      const item = items[index];
      let value: number;
      if (isPart(item)) {
        const part = this.#part(item);
        if (part !== item) items[index] = part;
        value = this.#hash;
        if (value === unshared) isShared = false;
      } else value = hashOf(item);
      hash = Math.imul(hash ^ value, seed);
      bytes += fieldBytes + lengthOf(item);
    }
    this.#end(hash, isShared, bytes, 0);
  }

  #sharePart(fields: Record<string, unknown>): void {
    let hash = ~seed;
    let bytes = emptyPartBytes;
    let ownKeys = 0;
    let isShared = true;
    for (const key in fields) {
      if (key === '__proto__') {
        isShared = false;
        continue;
      }
      const field = fields[key];
      let value: number;
      if (isPart(field)) {
        const part = this.#part(field);
        if (part !== field) fields[key] = part;
        value = this.#hash;
        if (value === unshared) isShared = false;
      } else value = hashOf(field);
      hash = Math.imul(hash ^ value, seed) + 31 * key.length + key.charCodeAt(0);
      bytes += fieldBytes + (key.length > longestFreeKey ? key.length : 0) + lengthOf(field);
      ownKeys += keyBytes + (key.length > longestFreeKey ? 0 : key.length);
    }
    this.#end(hash, isShared, bytes, ownKeys);
  }

  #end(hash: number, isShared: boolean, bytes: number, ownKeys: number): void {
    this.#hash = isShared && bytes <= longestPart ? hash | 1 : unshared;
    this.#bytes = bytes + ownKeys;
  }
}

function isPart(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

function placeOf(hash: number): number {
  return ((hash ^ (hash >>> 16)) >>> 1) & (places - 1);
}

function lengthOf(value: unknown): number {
  return typeof value === 'string' ? value.length : 0;
}

/** Different values may have one hash: whoever finds a part compares it. */
function hashOf(value: unknown): number {
  if (typeof value === 'number') return value | 0;
  if (typeof value !== 'string') return value === true ? 1 : 2;
  const { length } = value;
  const step = (length >> 3) + 1;
  let hash = length;
  for (let at = length - 1; at >= 0; at -= step) hash = Math.imul(hash, 31) + value.charCodeAt(at);
  return hash | 0;
}

/** Parts within them are the same only if they are one. */
function isSamePart(one: object, other: object): boolean {
  if (Array.isArray(one) || Array.isArray(other)) {
    if (!Array.isArray(one) || !Array.isArray(other) || one.length !== other.length) return false;
    for (let index = 0; index < one.length; index++) if (one[index] !== other[index]) return false;
    return true;
  }
  let fields = 0;
  for (const key in one) {
    if ((one as Record<string, unknown>)[key] !== (other as Record<string, unknown>)[key]) return false;
    fields += 1;
  }
  for (const _ in other) fields -= 1;
  return fields === 0;
}
