import { run } from '../machine/run.ts';

/**
 * Leads this machine, which has no kube-proxy, to single service addresses by way of a node that has one. Only to those
 * that are asked for: other clusters on this machine have the same range.
 */
export class ServiceRoutes {
  readonly #via: string;
  readonly #addresses = new Set<string>();

  constructor(node: { address: string }) {
    this.#via = node.address;
  }

  async add(address: string): Promise<void> {
    if (this.#addresses.has(address)) return;
    this.#addresses.add(address);
    await run('ip', ['route', 'replace', `${address}/32`, 'via', this.#via]);
  }

  async close(): Promise<void> {
    for (const address of this.#addresses) {
      // With the cluster its link goes, and the route with that.
      await run('ip', ['route', 'delete', `${address}/32`, 'via', this.#via]).catch(() => undefined);
    }
    this.#addresses.clear();
  }
}
