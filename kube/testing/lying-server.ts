import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { KubeClient } from '../client.ts';
import { Connection, type ConnectionOptions } from '../connection.ts';

export type LyingHandler = (request: IncomingMessage, response: ServerResponse) => void;

export interface LyingServer extends AsyncDisposable {
  readonly client: KubeClient;
}

/** A server that answers whatever the test needs, with a client; `await using` closes both. */
export async function startLyingServer(
  handler: LyingHandler,
  options: Partial<ConnectionOptions> = {},
): Promise<LyingServer> {
  const server = createServer(handler).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const connection = new Connection({ server: `http://127.0.0.1:${port}`, ...options });
  return {
    client: new KubeClient(connection),
    async [Symbol.asyncDispose]() {
      await connection.close();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
