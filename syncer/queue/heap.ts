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
