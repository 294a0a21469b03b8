import { isRecord } from './types.ts';

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
