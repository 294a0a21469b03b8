import type { Socket } from 'node:net';

interface Held {
  readonly tenant: string;
  /** Requests that are not answered yet; an upgraded connection has one for ever. */
  busy: number;
}

/** Which connections are whose, so that no tenant has more than its share and all of one can be cut. */
export class TenantSockets {
  readonly #limit: number;
  readonly #held = new Map<Socket, Held>();
  readonly #byTenant = new Map<string, Set<Socket>>();

  /** `limit`: connections that one tenant may have at once. */
  constructor(limit: number) {
    this.#limit = limit;
  }

  get size(): number {
    return this.#held.size;
  }

  /**
   * Takes a connection as this tenant's; it leaves by itself when it closes. False when the tenant has too
   * many: of those that only wait for their next request one would have been closed for it.
   */
  admit(tenant: string, socket: Socket): boolean {
    const before = this.#held.get(socket);
    if (before !== undefined) return before.tenant === tenant;
    const sockets = this.#byTenant.get(tenant) ?? new Set<Socket>();
    if (sockets.size >= this.#limit) {
      const idle = [...sockets].find((each) => this.#held.get(each)?.busy === 0);
      if (idle === undefined) return false;
      this.#forget(idle);
      idle.destroy();
    }
    this.#byTenant.set(tenant, sockets.add(socket));
    this.#held.set(socket, { tenant, busy: 0 });
    socket.once('close', () => this.#forget(socket));
    return true;
  }

  has(socket: Socket): boolean {
    return this.#held.has(socket);
  }

  /** The number of connections of a tenant. */
  of(tenant: string): number {
    return this.#byTenant.get(tenant)?.size ?? 0;
  }

  begin(socket: Socket): void {
    const held = this.#held.get(socket);
    if (held !== undefined) held.busy += 1;
  }

  end(socket: Socket): void {
    const held = this.#held.get(socket);
    if (held !== undefined) held.busy -= 1;
  }

  /** Ends all connections of a tenant at once. */
  cut(tenant: string): void {
    for (const socket of [...(this.#byTenant.get(tenant) ?? [])]) socket.destroy();
  }

  #forget(socket: Socket): void {
    const held = this.#held.get(socket);
    if (held === undefined) return;
    this.#held.delete(socket);
    const sockets = this.#byTenant.get(held.tenant);
    sockets?.delete(socket);
    if (sockets?.size === 0) this.#byTenant.delete(held.tenant);
  }
}
