import { expect, it } from 'vitest';
import { Connection, KubeClient, resources } from '../../kube/index.ts';
import { FakeApiServer, FakeClock } from '../../kube/testing/index.ts';
import { Caches } from './caches.ts';

it('a manager that may not watch VirtualClusters says so', async () => {
  const server = await FakeApiServer.start();
  server.inject({
    ...{ plural: resources.virtualClusters.plural, times: 1_000 },
    fault: { kind: 'status', code: 403, reason: 'Forbidden', message: 'you may not list' },
  });
  const client = new KubeClient(new Connection(server.connectionOptions));
  const warned = Promise.withResolvers<unknown>();
  const caches = new Caches({
    ...{ client, clock: new FakeClock(), namespace: 'skerry-system' },
    logger: { warn: (what: unknown) => warned.resolve(what) },
  });
  const ending = new AbortController();
  const running = caches.run(ending.signal);
  await expect(warned.promise).resolves.toMatchObject({
    ...{ resource: 'virtualclusters', phase: 'list' },
    err: { message: expect.stringContaining('you may not list') },
  });
  ending.abort();
  await running;
  await client.connection.close();
  await server.stop();
});
