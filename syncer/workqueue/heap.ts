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

  /** To be called whenever what `before` looks at has changed. */
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

/** One tenant's account in a ring. All times in milliseconds; virtual time is service time divided by weight. */
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
 * Start-time fair queueing over measured service time: whoever has the least virtual time goes next.
 *
 * Work in flight counts: the time it has run, and its expected service time on top. So a burst of takes cannot give
 * one flow every worker, and a call that hangs is charged while it hangs.
 * The floor is the virtual time of the flow that was furthest behind when last looked at; it never falls. A flow that
 * comes back starts there: no credit for having been away, and no more debt than `memoryMs`.
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

  /** Brings the floor up to date. To be called when a flow that had nothing ready has something, before it enters. */
  arrive(arriving: TenantUsage<Owner>, now: number): void {
    const first = this.first(now);
    let floor = Number.POSITIVE_INFINITY;
    if (first !== undefined) {
      floor = this.#received(first, now);
    } else {
      for (const flow of this.#busy) {
        if (flow !== arriving) floor = Math.min(floor, this.#received(flow, now));
      }
      // Nobody is served: what was used of an idle system is held against no one.
      if (this.#busy.size === 0) floor = this.#furthest;
    }
    if (floor !== Number.POSITIVE_INFINITY) this.#floor = Math.max(this.#floor, floor);
  }

  /** Makes a flow eligible. It gets no credit for the time outside, whether it was idle or at its limit. */
  enter(flow: TenantUsage<Owner>, now: number): void {
    const behind = this.#floor - this.#virtualTime(flow, now);
    if (behind > 0) flow.finished += behind;
    flow.key = this.#virtualTime(flow, now);
    flow.order = ++this.#order;
    this.#heap.push(flow);
  }

  leave(flow: TenantUsage<Owner>): void {
    if (flow.heapIndex >= 0) this.#heap.remove(flow);
  }

  /** The eligible flow that goes next. */
  first(now: number): TenantUsage<Owner> | undefined {
    // Keys are lower bounds: bringing the top one up to date until it stays on top finds the least.
    for (;;) {
      const flow = this.#heap.first();
      if (flow === undefined || flow.inFlight === 0) return flow;
      const key = this.#virtualTime(flow, now);
      if (key <= flow.key) return flow;
      flow.key = key;
      this.#heap.update(flow);
      if (this.#heap.first() === flow) return flow;
    }
  }

  /** The eligible flow that goes next among those of some owners. */
  firstOf(isWanted: (owner: Owner) => boolean, now: number): TenantUsage<Owner> | undefined {
    let first: TenantUsage<Owner> | undefined;
    let least = Number.POSITIVE_INFINITY;
    for (const flow of this.#heap.nodes()) {
      if (!isWanted(flow.owner)) continue;
      const time = this.#virtualTime(flow, now);
      if (time > least || (time === least && first !== undefined && flow.order > first.order)) continue;
      first = flow;
      least = time;
    }
    return first;
  }

  /**
   * Charges an item of this flow from now on. Returns the service time expected of it, to be handed to `finish`.
   * @param inOrder whether it was the first of all
   */
  begin(flow: TenantUsage<Owner>, now: number, inOrder = true): number {
    if (inOrder) this.#floor = Math.max(this.#floor, this.#received(flow, now));
    const mean = flow.meanMs ?? this.#meanMs;
    // Calls under way that already take longer than usual say more about the next one than those before.
    const ageMs = flow.inFlight === 0 ? 0 : (flow.inFlight * now - flow.startsMs) / flow.inFlight;
    const expectedMs = Math.max(mean, ageMs);
    flow.inFlight += 1;
    flow.startsMs += now;
    flow.expectedMs += expectedMs;
    this.#busy.add(flow);
    this.#rekey(flow, now);
    return expectedMs;
  }

  finish(
    flow: TenantUsage<Owner>,
    startMs: number,
    expectedMs: number,
    measuredMs: number,
    now: number,
  ): void {
    const serviceMs = Math.max(minServiceMs, measuredMs);
    flow.inFlight -= 1;
    if (flow.inFlight === 0) {
      // Also ends the drift of adding and subtracting floating-point numbers.
      flow.startsMs = 0;
      flow.expectedMs = 0;
      this.#busy.delete(flow);
    } else {
      flow.startsMs -= startMs;
      flow.expectedMs -= expectedMs;
    }
    flow.finished = Math.min(flow.finished + serviceMs / flow.weight, this.#floor + this.#memoryMs);
    this.#furthest = Math.max(this.#furthest, flow.finished);
    flow.meanMs = flow.meanMs === undefined ? serviceMs : flow.meanMs + (serviceMs - flow.meanMs) * learning;
    this.#meanMs += (serviceMs - this.#meanMs) * learning;
    this.#rekey(flow, now);
  }

  setWeight(flow: TenantUsage<Owner>, weight: number, now: number): void {
    flow.weight = weight;
    this.#rekey(flow, now);
  }

  #rekey(flow: TenantUsage<Owner>, now: number): void {
    if (flow.heapIndex < 0) return;
    flow.key = this.#virtualTime(flow, now);
    flow.order = ++this.#order;
    this.#heap.update(flow);
  }

  /** Where the flow stands in the order: what it had so far, and what its work in flight is expected to need yet. */
  #virtualTime(flow: TenantUsage<Owner>, now: number): number {
    const time = this.#received(flow, now) + flow.expectedMs / flow.weight;
    return Math.min(time, this.#floor + this.#memoryMs);
  }

  /** What the flow really had so far. The floor is made of this: expectations may prove too high, and it never falls. */
  #received(flow: TenantUsage<Owner>, now: number): number {
    return flow.finished + Math.max(0, flow.inFlight * now - flow.startsMs) / flow.weight;
  }
}
