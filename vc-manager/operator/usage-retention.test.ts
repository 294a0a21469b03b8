import { expect, it, onTestFinished } from 'vitest';
import { Connection, KubeClient, resources } from '../../kube/index.ts';
import { FakeApiServer } from '../../kube/testing/index.ts';
import { boundUsage } from './usage-retention.ts';

it('deletes the usage of more than a year ago, of tenants that are there too, and nothing else', async () => {
  const server = await FakeApiServer.start();
  const connection = new Connection(server.connectionOptions);
  onTestFinished(async () => {
    await connection.close();
    await server.stop();
  });
  const put = (name: string, labels: Record<string, string>): unknown =>
    server.put(resources.configMaps, { metadata: { name, namespace: 'skerry-system', labels } });
  put('usage-old-2025-01', { 'skerry.dev/usage': '2025-01' });
  put('usage-young-2025-02', { 'skerry.dev/usage': '2025-02' });
  put('other', {});
  await boundUsage(
    {
      client: new KubeClient(connection),
      namespace: 'skerry-system',
      month: '2026-03',
      isThere: () => true,
      onDeleted: () => undefined,
    },
    new AbortController().signal,
  );
  const left = server.list(resources.configMaps).map(({ metadata }) => metadata.name);
  expect(left.sort()).toEqual(['other', 'usage-young-2025-02']);
});
