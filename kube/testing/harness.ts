import { KubeClient } from '../client.ts';
import { Connection, type ConnectionOptions } from '../connection.ts';
import { FakeApiServer, type FakeApiServerOptions } from './fake-api-server.ts';

export interface FakeCluster extends AsyncDisposable {
  readonly server: FakeApiServer;
  readonly client: KubeClient;
}

/** A fake API server with a client; `await using` closes both. */
export async function startFakeCluster(
  options: FakeApiServerOptions & { connection?: Partial<ConnectionOptions> } = {},
): Promise<FakeCluster> {
  const server = await FakeApiServer.start(options);
  const connection = new Connection({ ...server.connectionOptions, ...options.connection });
  return {
    server,
    client: new KubeClient(connection),
    async [Symbol.asyncDispose]() {
      await connection.close();
      await server.stop();
    },
  };
}
