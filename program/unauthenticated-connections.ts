import type { Socket } from 'node:net';

/**
 * Connections of which it is not known whose they are. There are only so many of them: a newcomer takes the place of the
 * one that has been here longest. A legitimate client authenticates within milliseconds, so that floods push out only
 * each other.
 */
export class UnauthenticatedConnections {
  readonly #limit: number;
  /** All connections, by their peer. */
  readonly #open = new Map<string, Socket>();
  /** A subset of those, in the order in which they came. */
  readonly #unauthenticated = new Set<string>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Before any handshake. */
  arrive(socket: Socket): void {
    const name = peer(socket);
    this.#open.set(name, socket);
    socket.on('error', () => undefined);
    socket.once('close', () => {
      if (this.#open.get(name) === socket) this.#forget(name);
    });
    this.#add(name);
  }

  /** It is known now who this is; `socket` may be the TLS connection over the one that arrived. */
  known(socket: Socket): void {
    this.#unauthenticated.delete(peer(socket));
  }

  /** The same connection counts again: who it is was known for what has been answered. */
  unknown(socket: Socket): void {
    const name = peer(socket);
    if (this.#open.has(name)) this.#add(name);
  }

  #add(name: string): void {
    this.#unauthenticated.delete(name);
    this.#unauthenticated.add(name);
    if (this.#unauthenticated.size <= this.#limit) return;
    const [oldest = ''] = this.#unauthenticated;
    const socket = this.#open.get(oldest);
    this.#forget(oldest);
    socket?.destroy();
  }

  #forget(name: string): void {
    this.#open.delete(name);
    this.#unauthenticated.delete(name);
  }
}

function peer(socket: Socket): string {
  return `${socket.remoteAddress}|${socket.remotePort}`;
}
