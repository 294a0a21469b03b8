import type { Wish } from './delay.ts';
import type { HeapNode } from './heap.ts';
import type { Priority } from './options.ts';
import type { Tenant } from './tenant.ts';

/**
 * Where an item is. It is in exactly one place: a ready list, the delay heap, or a worker's hands.
 * An item that is in none has no entry.
 */
export type EntryState = 'new' | 'ready' | 'delayed' | 'processing';

/**
 * Why an item is delayed, which decides what may end the delay:
 * `wish` any add; `backoff` a live add; `refused` an add with another version; `released` any add, but not
 * before the pause since the last release is over.
 */
export type DelayReason = 'wish' | 'backoff' | 'refused' | 'released';

/** One stay of an item with a worker. */
export interface EntryRun {
  startedAt: number;
  expectedMs: number;
  /** What adds during the run ask for, all taken together. */
  again: Wish | undefined;
  /** The tenant was removed during the run: its outcome does not count, only what is added after that. */
  dropped: boolean;
}

export class Entry<Item> implements HeapNode {
  readonly key: string;
  readonly tenant: Tenant<Item>;
  /** The newest that was added. */
  item: Item;
  state: EntryState = 'new';
  /** The ready list it is in or will go to. */
  priority: Priority = 'live';
  /** Goes ahead of what its tenant has waiting, the next time that it is ready. */
  first = false;
  /** Failed runs in a row. */
  failures = 0;

  // In the ready list.
  readyAt = 0;
  previous: Entry<Item> | undefined = undefined;
  next: Entry<Item> | undefined = undefined;

  // In the delay heap, by dueAt.
  heapIndex = -1;
  dueAt = 0;
  delay: DelayReason = 'wish';
  refusedVersion: string | undefined = undefined;
  /** When a release from `refused` last led to a run. */
  releasedAt: number | undefined = undefined;

  /** While in process. */
  run: EntryRun | undefined = undefined;

  constructor(key: string, tenant: Tenant<Item>, item: Item) {
    this.key = key;
    this.tenant = tenant;
    this.item = item;
  }
}

/** First in, first out, with removal from the middle in O(1). */
export class EntryList<Item> {
  #head: Entry<Item> | undefined;
  #tail: Entry<Item> | undefined;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  append(entry: Entry<Item>): void {
    entry.previous = this.#tail;
    if (this.#tail === undefined) this.#head = entry;
    else this.#tail.next = entry;
    this.#tail = entry;
    this.#size += 1;
  }

  prepend(entry: Entry<Item>): void {
    entry.next = this.#head;
    if (this.#head === undefined) this.#tail = entry;
    else this.#head.previous = entry;
    this.#head = entry;
    this.#size += 1;
  }

  first(): Entry<Item> | undefined {
    return this.#head;
  }

  remove(entry: Entry<Item>): void {
    if (entry.previous === undefined) this.#head = entry.next;
    else entry.previous.next = entry.next;
    if (entry.next === undefined) this.#tail = entry.previous;
    else entry.next.previous = entry.previous;
    entry.previous = undefined;
    entry.next = undefined;
    this.#size -= 1;
  }
}
