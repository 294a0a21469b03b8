import type { Entry } from './entry.ts';
import { IndexedHeap } from './heap.ts';
import type { Turns } from './turns.ts';

/** When items run: those that may run now, by tenant and priority, and those that wait for a point in time. */
export class Agenda<Item> {
  readonly #turns: Turns<Item>;
  readonly #delayed = new IndexedHeap<Entry<Item>>((a, b) => a.dueAt < b.dueAt);

  constructor(turns: Turns<Item>) {
    this.#turns = turns;
  }

  /** When the first delayed item is due. */
  nextDueAt(): number | undefined {
    return this.#delayed.first()?.dueAt;
  }

  schedule(entry: Entry<Item>, dueAt: number, now: number): void {
    if (dueAt <= now) {
      this.#makeReady(entry, now);
      return;
    }
    entry.state = 'delayed';
    entry.dueAt = dueAt;
    entry.tenant.delayed += 1;
    this.#delayed.push(entry);
  }

  unschedule(entry: Entry<Item>): void {
    if (entry.state === 'delayed') {
      this.#delayed.remove(entry);
      entry.tenant.delayed -= 1;
    } else if (entry.state === 'ready') {
      entry.tenant.ready[entry.priority].remove(entry);
    }
    entry.state = 'new';
  }

  /** Moves a ready item from background to live, or to its place if that is now the first; it keeps the time since when it waits. */
  promote(entry: Entry<Item>, now: number): void {
    const readyAt = entry.readyAt;
    this.unschedule(entry);
    entry.priority = 'live';
    this.#makeReady(entry, now);
    entry.readyAt = readyAt;
    this.#turns.settle(entry.tenant, now);
  }

  /** Makes ready what is due. */
  wake(now: number): void {
    for (;;) {
      const entry = this.#delayed.first();
      if (entry === undefined || entry.dueAt > now) return;
      this.unschedule(entry);
      this.#makeReady(entry, now);
      entry.readyAt = entry.dueAt;
    }
  }

  #makeReady(entry: Entry<Item>, now: number): void {
    const { tenant, priority } = entry;
    entry.state = 'ready';
    entry.readyAt = now;
    if (entry.first) tenant.ready[priority].prepend(entry);
    else tenant.ready[priority].append(entry);
    if (tenant.ready[priority].size > 1) return;
    this.#turns.activate(tenant, priority, now);
  }
}
