import { expect, it } from 'vitest';
import { resources } from '../../kube/index.ts';
import { startFakeCluster } from '../../kube/testing/index.ts';
import { DefinitionGuard } from './definition-guard.ts';

const definitions = resources.customResourceDefinitions;

it('a definition is intact while it is there, is the same, and is not on its way out', async () => {
  await using cluster = await startFakeCluster();
  const { server, client } = cluster;
  const metadata = { name: 'widgets.example.com', uid: 'first' };
  const guard = new DefinitionGuard(client, 'widgets.example.com', 'first');
  expect(await guard.isIntact()).toBe(false);
  server.put(definitions, { metadata });
  expect(await guard.isIntact()).toBe(true);
  server.put(definitions, { metadata: { ...metadata, deletionTimestamp: '2026-01-01T00:00:00Z' } });
  expect(await guard.isIntact()).toBe(false);
  server.remove(definitions, { name: 'widgets.example.com' });
  server.put(definitions, { metadata: { ...metadata, uid: 'second' } });
  expect(await guard.isIntact()).toBe(false);
});

it('who cannot tell says so, instead of that it is gone', async () => {
  await using cluster = await startFakeCluster();
  cluster.server.inject({ verb: 'get', fault: { kind: 'status', code: 500, reason: 'InternalError' } });
  const guard = new DefinitionGuard(cluster.client, 'widgets.example.com', 'first');
  await expect(guard.isIntact()).rejects.toThrow();
});
