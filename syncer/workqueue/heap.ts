/** An element knows its place in the heap that holds it, so that it can be moved or taken out in O(log n). */
export interface HeapNode {
  /** -1 while in no heap. Written by the heap only. */
  heapIndex: number;
}

/** A binary heap with the first element, by `before`, on top. An element is in at most one heap. */
export class IndexedHeap<Node extends HeapNode> {
  readonly #nodes: Node[] = [];
  readonly #before: (a: Node, b: Node) => boolean;

  constructor(before: (a: Node, b: Node) => boolean) {
    this.#before = before;
  }

  get size(): number {
    return this.#nodes.length;
  }

  first(): Node | undefined {
    return this.#nodes[0];
  }

  /** All of them, in no order; not to be added to or removed from meanwhile. */
  nodes(): Iterable<Node> {
    return this.#nodes;
  }

  push(node: Node): void {
    this.#nodes.push(node);
    this.#up(node, this.#nodes.length - 1);
  }

  /** Call it whenever what `before` compares has changed. */
  update(node: Node): void {
    const index = node.heapIndex;
    this.#up(node, index);
    if (node.heapIndex === index) this.#down(node, index);
  }

  remove(node: Node): void {
    const index = node.heapIndex;
    const last = this.#nodes.pop() as Node;
    node.heapIndex = -1;
    if (last === node) return;
    last.heapIndex = index;
    this.#nodes[index] = last;
    this.update(last);
  }

  #up(node: Node, start: number): void {
    let index = start;
    while (index > 0) {
      const parentIndex = (index - 1) >> 1;
      const parent = this.#nodes[parentIndex] as Node;
      if (!this.#before(node, parent)) break;
      this.#place(parent, index);
      index = parentIndex;
    }
    this.#place(node, index);
  }

  #down(node: Node, start: number): void {
    const size = this.#nodes.length;
    let index = start;
    for (;;) {
      let childIndex = 2 * index + 1;
      if (childIndex >= size) break;
      let child = this.#nodes[childIndex] as Node;
      const sibling = this.#nodes[childIndex + 1];
      if (sibling !== undefined && this.#before(sibling, child)) {
        child = sibling;
        childIndex += 1;
      }
      if (!this.#before(child, node)) break;
      this.#place(child, index);
      index = childIndex;
    }
    this.#place(node, index);
  }

  #place(node: Node, index: number): void {
    this.#nodes[index] = node;
    node.heapIndex = index;
  }
}

/** A key costs at least this much, so that a clock too coarse to see it cannot make work free. */
const minServiceMs = 0.01;
/** How quickly the expected service time follows what is measured. */
const learning = 0.1;

/**
 * What one tenant has used of the workers. All times in milliseconds; virtual time is service time divided by
 * weight.
 */
export class TenantUsage<Owner> implements HeapNode {
  readonly owner: Owner;
  weight: number;
  heapIndex = -1;
  /** Virtual time of all finished work. */
  finished = 0;
  inFlight = 0;
  /** Sum of the start times of what is in flight. */
  startsMs = 0;
  /** Sum of the expected service times of what is in flight. */
  expectedMs = 0;
  /** Expected service time of the next item; undefined until one was measured. */
  meanMs: number | undefined;
  /** Virtual time as of the last look. Never above what it would be now: time in flight only adds. */
  key = 0;
  /** Of equal keys the one that waits longest goes first. */
  order = 0;

  constructor(owner: Owner, weight: number) {
    this.owner = owner;
    this.weight = weight;
  }
}

/**
 * Start-time fair queueing over measured service time: the tenant with the least virtual time goes next (sync rules
 * `equal-service-time`, `weights`).
 *
 * Work in flight counts: the time it has run, and its expected service time on top. So a burst of takes cannot give
 * one tenant every worker, and a call that hangs is charged while it hangs.
 * The floor is the virtual time of the tenant that was furthest behind when last looked at; it never falls. A tenant that
 * comes back starts there: no credit for having been away, and no more debt than `memoryMs` (sync rule `idle-credit`).
 */
export class VirtualTimeHeap<Owner> {
  readonly #heap = new IndexedHeap<TenantUsage<Owner>>(
    (a, b) => a.key < b.key || (a.key === b.key && a.order < b.order),
  );
  readonly #memoryMs: number;
  readonly #busy = new Set<TenantUsage<Owner>>();
  #floor = 0;
  #furthest = 0;
  #order = 0;
  #meanMs = minServiceMs;

  constructor(memoryMs: number) {
    this.#memoryMs = memoryMs;
  }

  /** How many usages are in the heap. */
  get size(): number {
    return this.#heap.size;
  }

  /** Brings the floor up to date. Call it when a tenant that had nothing ready has something, before `enter`. */
  arrive(arriving: TenantUsage<Owner>, now: number): void {
    const first = this.first(now);
    let floor = Number.POSITIVE_INFINITY;
    if (first !== undefined) {
      floor = this.#received(first, now);
    } else {
      for (const usage of this.#busy) {
        if (usage !== arriving) floor = Math.min(floor, this.#received(usage, now));
      }
      // No tenant is served: use of an otherwise idle system does not count against it.
      if (this.#busy.size === 0) floor = this.#furthest;
    }
    if (floor !== Number.POSITIVE_INFINITY) this.#floor = Math.max(this.#floor, floor);
  }

  /** Makes a tenant eligible. It gets no credit for the time outside, whether it was idle or at its limit. */
  enter(usage: TenantUsage<Owner>, now: number): void {
    const behind = this.#floor - this.#virtualTime(usage, now);
    if (behind > 0) usage.finished += behind;
    usage.key = this.#virtualTime(usage, now);
    usage.order = ++this.#order;
    this.#heap.push(usage);
  }

  leave(usage: TenantUsage<Owner>): void {
    if (usage.heapIndex >= 0) this.#heap.remove(usage);
  }

  /** The eligible tenant that goes next. */
  first(now: number): TenantUsage<Owner> | undefined {
    // Keys are lower bounds: bringing the top one up to date until it stays on top finds the least.
    for (;;) {
      const usage = this.#heap.first();
      if (usage === undefined || usage.inFlight === 0) return usage;
      const key = this.#virtualTime(usage, now);
      if (key <= usage.key) return usage;
      usage.key = key;
      this.#heap.update(usage);
      if (this.#heap.first() === usage) return usage;
    }
  }

  /** The eligible tenant that goes next among some. */
  firstOf(isWanted: (owner: Owner) => boolean, now: number): TenantUsage<Owner> | undefined {
    let first: TenantUsage<Owner> | undefined;
    let least = Number.POSITIVE_INFINITY;
    for (const usage of this.#heap.nodes()) {
      if (!isWanted(usage.owner)) continue;
      const time = this.#virtualTime(usage, now);
      if (time > least || (time === least && first !== undefined && usage.order > first.order)) continue;
      first = usage;
      least = time;
    }
    return first;
  }

  /**
   * Charges the tenant for one more item from now on. Returns the service time expected of it, to be handed to `finish`.
   * @param inOrder whether it was the first of all
   */
  begin(usage: TenantUsage<Owner>, now: number, inOrder = true): number {
    if (inOrder) this.#floor = Math.max(this.#floor, this.#received(usage, now));
    const mean = usage.meanMs ?? this.#meanMs;
    // Calls under way that already take longer than usual say more about the next one than those before.
    const ageMs = usage.inFlight === 0 ? 0 : (usage.inFlight * now - usage.startsMs) / usage.inFlight;
    const expectedMs = Math.max(mean, ageMs);
    usage.inFlight += 1;
    usage.startsMs += now;
    usage.expectedMs += expectedMs;
    this.#busy.add(usage);
    this.#rekey(usage, now);
    return expectedMs;
  }

  finish(
    usage: TenantUsage<Owner>,
    startMs: number,
    expectedMs: number,
    measuredMs: number,
    now: number,
  ): void {
    const serviceMs = Math.max(minServiceMs, measuredMs);
    usage.inFlight -= 1;
    if (usage.inFlight === 0) {
      // Also ends the drift of adding and subtracting floating-point numbers.
      usage.startsMs = 0;
      usage.expectedMs = 0;
      this.#busy.delete(usage);
    } else {
      usage.startsMs -= startMs;
      usage.expectedMs -= expectedMs;
    }
    usage.finished = Math.min(usage.finished + serviceMs / usage.weight, this.#floor + this.#memoryMs);
    this.#furthest = Math.max(this.#furthest, usage.finished);
    usage.meanMs =
      usage.meanMs === undefined ? serviceMs : usage.meanMs + (serviceMs - usage.meanMs) * learning;
    this.#meanMs += (serviceMs - this.#meanMs) * learning;
    this.#rekey(usage, now);
  }

  setWeight(usage: TenantUsage<Owner>, weight: number, now: number): void {
    usage.weight = weight;
    this.#rekey(usage, now);
  }

  #rekey(usage: TenantUsage<Owner>, now: number): void {
    if (usage.heapIndex < 0) return;
    usage.key = this.#virtualTime(usage, now);
    usage.order = ++this.#order;
    this.#heap.update(usage);
  }

  /** Where the tenant stands in the order: what it had so far, and what its work in flight is expected to need yet. */
  #virtualTime(usage: TenantUsage<Owner>, now: number): number {
    const time = this.#received(usage, now) + usage.expectedMs / usage.weight;
    return Math.min(time, this.#floor + this.#memoryMs);
  }

  /**
   * What the tenant really had so far. The floor is made of this: expectations may prove too high, and it never
   * falls.
   */
  #received(usage: TenantUsage<Owner>, now: number): number {
    return usage.finished + Math.max(0, usage.inFlight * now - usage.startsMs) / usage.weight;
  }
}
