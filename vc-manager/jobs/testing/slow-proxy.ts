import { connect, createServer, type Server, type Socket } from 'node:net';

/** A way to a server on loopback on which every piece takes its time, in both directions. */
export class SlowProxy {
  readonly port: number;
  readonly #server: Server;
  readonly #sockets: Set<Socket>;

  private constructor(server: Server, sockets: Set<Socket>) {
    const address = server.address();
    if (address === null || typeof address === 'string') throw new Error('no port');
    this.port = address.port;
    this.#server = server;
    this.#sockets = sockets;
  }

  static async start({ to, delayMs }: { to: number; delayMs: number }): Promise<SlowProxy> {
    const sockets = new Set<Socket>();
    const server = createServer((near) => {
      const far = connect(to, '127.0.0.1');
      for (const [from, into] of [
        [near, far],
        [far, near],
      ] as const) {
        sockets.add(from);
        from.on('error', () => into.destroy());
        from.on('close', () => {
          sockets.delete(from);
          into.destroy();
        });
        from.on('data', (data) => setTimeout(() => into.destroyed || into.write(data), delayMs));
      }
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return new SlowProxy(server, sockets);
  }

  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
