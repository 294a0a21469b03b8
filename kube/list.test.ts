import { describe, expect, it } from 'vitest';
import { resources } from './resources.ts';
import { type FakeApiServer, startFakeCluster } from './testing/index.ts';

function fill(server: FakeApiServer, count: number): void {
  for (let i = 0; i < count; i++) {
    const name = `pod-${String(i).padStart(4, '0')}`;
    server.put(resources.pods, {
      metadata: { name, namespace: i % 2 ? 'odd' : 'even', labels: { i: `${i % 3}` } },
    });
  }
}

describe('list', () => {
  it('joins pages of 500 into one snapshot', async () => {
    await using cluster = await startFakeCluster();
    const { client, server } = cluster;
    fill(server, 1_201);
    const version = server.resourceVersion;
    const list = await client.list(resources.pods);
    expect(list.items).toHaveLength(1_201);
    expect(list.metadata).toEqual({ resourceVersion: version });
    expect(server.requests.map(({ query }) => query.get('limit'))).toEqual(['500', '500', '500']);
  });

  it('lists again in one piece when the server has forgotten the snapshot', async () => {
    await using cluster = await startFakeCluster();
    const { client, server } = cluster;
    fill(server, 25);
    const expired = { kind: 'status', code: 410, reason: 'Expired' } as const;
    server.inject({ verb: 'list', continued: true, fault: expired });
    const list = await client.list(resources.pods, { pageSize: 10, resourceVersion: '5' });
    expect(new Set(list.items.map(({ metadata }) => metadata.name)).size).toBe(25);
    expect(list.items).toHaveLength(25);
    const last = server.requests.at(-1)?.query;
    expect([last?.get('limit'), last?.get('continue'), last?.get('resourceVersion')]).toEqual([
      null,
      null,
      null,
    ]);
  });

  it('gives the version of the later list when it had to list again', async () => {
    await using cluster = await startFakeCluster();
    const { client, server } = cluster;
    fill(server, 25);
    const listing = client.list(resources.pods, { pageSize: 10 });
    await server.until(() => server.requests.length === 1);
    server.put(resources.pods, { metadata: { name: 'late', namespace: 'ns' } });
    server.compact();
    const list = await listing;
    expect(list.items).toHaveLength(26);
    expect(list.metadata.resourceVersion).toBe(server.resourceVersion);
  });

  it('does not ask for a version and a page at once', async () => {
    await using cluster = await startFakeCluster();
    fill(cluster.server, 5);
    await cluster.client.list(resources.pods, { pageSize: 2, resourceVersion: '1' });
    const asked = cluster.server.requests.map(({ query }) => [
      query.get('resourceVersion'),
      query.has('continue'),
    ]);
    expect(asked).toEqual([
      ['1', false],
      [null, true],
      [null, true],
    ]);
  });

  it('stops at the limit', async () => {
    await using cluster = await startFakeCluster();
    fill(cluster.server, 5);
    const list = await cluster.client.list(resources.pods, { limit: 2 });
    expect(list.items).toHaveLength(2);
    expect(list.metadata.continue).toBeDefined();
    expect(cluster.server.requests).toHaveLength(1);
  });

  it('gives items the apiVersion and kind that servers leave out', async () => {
    await using cluster = await startFakeCluster();
    cluster.server.put(resources.endpointSlices, { metadata: { name: 'a', namespace: 'ns' } });
    const { items } = await cluster.client.list(resources.endpointSlices);
    expect(items[0]).toMatchObject({ apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice' });
  });

  it('narrows by namespace, labels and fields', async () => {
    await using cluster = await startFakeCluster();
    const { client, server } = cluster;
    fill(server, 12);
    const count = async (options: Parameters<typeof client.list>[1]): Promise<number> =>
      (await client.list(resources.pods, options)).items.length;
    expect(await count({ namespace: 'odd' })).toBe(6);
    expect(await count({ labelSelector: 'i in (0,1)' })).toBe(8);
    expect(await count({ labelSelector: 'i!=0', namespace: 'odd' })).toBe(4);
    expect(await count({ fieldSelector: 'metadata.name=pod-0003' })).toBe(1);
  });

  it('takes a missing list of items as an empty one', async () => {
    await using cluster = await startFakeCluster();
    cluster.server.inject({
      fault: { kind: 'status', code: 200, text: '{"metadata":{"resourceVersion":"7"},"items":null}' },
    });
    expect(await cluster.client.list(resources.pods)).toMatchObject({
      items: [],
      metadata: { resourceVersion: '7' },
    });
  });
});
