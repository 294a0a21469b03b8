import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:tls';

/** Stand-ins for API servers in a process of their own: each line is answered with the name asked for and the server's port. */
export interface ServersRequest {
  cert: string;
  key: string;
  count: number;
}

process.once('message', (request: ServersRequest) => void serve(request));
process.once('disconnect', () => process.exit());

async function serve({ cert, key, count }: ServersRequest): Promise<void> {
  const ports: number[] = [];
  for (let made = 0; made < count; made++) {
    const server = createServer({ cert, key }, (socket) => {
      socket.on('error', () => undefined);
      socket.on('data', () => socket.write(`${socket.servername} ${socket.localPort}\n`));
    });
    server.listen({ port: 0, host: '127.0.0.1', backlog: 4_096 });
    await once(server, 'listening');
    ports.push((server.address() as AddressInfo).port);
  }
  process.send?.(ports);
}
