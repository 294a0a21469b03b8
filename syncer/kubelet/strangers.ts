import type { Socket } from 'node:net';

/**
 * Connections that have not shown a tenant's certificate yet. There are only so many of them: a newcomer
 * takes the place of the one that has been here longest. Whoever is somebody is known within milliseconds,
 * so that floods push out only each other.
 */
export class Strangers {
  readonly #limit: number;
  /** In the order in which they came. */
  readonly #sockets = new Map<string, Socket>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  get size(): number {
    return this.#sockets.size;
  }

  /** Before any handshake. */
  arrive(socket: Socket): void {
    const name = peer(socket);
    this.#sockets.set(name, socket);
    socket.on('error', () => undefined);
    socket.once('close', () => {
      if (this.#sockets.get(name) === socket) this.#sockets.delete(name);
    });
    if (this.#sockets.size <= this.#limit) return;
    for (const [oldest, first] of this.#sockets) {
      this.#sockets.delete(oldest);
      first.destroy();
      return;
    }
  }

  /** It is known now who this is; `socket` is the TLS connection over the one that arrived. */
  known(socket: Socket): void {
    this.#sockets.delete(peer(socket));
  }

  clear(): void {
    for (const socket of this.#sockets.values()) socket.destroy();
  }
}

function peer(socket: Socket): string {
  return `${socket.remoteAddress}|${socket.remotePort}`;
}
