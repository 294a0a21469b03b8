import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/** One address before several ports of this machine, as a load balancer is: a connection goes to the next that takes it. */
export class Balancer {
  readonly #server: Server;
  readonly #ports: readonly number[];
  readonly #open = new Set<Socket>();
  /** How many connections each port has taken, in the order of the ports. */
  readonly taken: number[];
  #next = 0;

  private constructor(ports: readonly number[]) {
    this.#ports = ports;
    this.taken = ports.map(() => 0);
    this.#server = createServer((client) => {
      client.on('error', () => undefined);
      this.#lead(client, ports.length);
    });
  }

  static async listen(ports: readonly number[]): Promise<Balancer> {
    const balancer = new Balancer(ports);
    await once(balancer.#server.listen(0, '127.0.0.1'), 'listening');
    return balancer;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  close(): void {
    this.#server.close();
    for (const socket of this.#open) socket.destroy();
  }

  #lead(client: Socket, triesLeft: number): void {
    const place = this.#next++ % this.#ports.length;
    const server = connect({ host: '127.0.0.1', port: this.#ports[place] ?? 0 });
    const refused = (): void => {
      if (triesLeft > 1) this.#lead(client, triesLeft - 1);
      else client.destroy();
    };
    server.once('error', refused);
    server.once('connect', () => {
      server.off('error', refused).on('error', () => undefined);
      this.taken[place] = (this.taken[place] ?? 0) + 1;
      join(client, server);
      join(server, client);
      this.#open.add(client);
      client.once('close', () => this.#open.delete(client));
    });
  }
}

/** What the one says goes to the other, which goes when the one is gone, however that came. */
function join(one: Socket, other: Socket): void {
  one.pipe(other);
  one.once('close', () => other.destroy());
}
