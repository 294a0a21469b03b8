import { describe, expect, it } from 'vitest';
import { serverVersion } from './client.ts';
import { ApiError, isAlreadyExists, isConflict, isForbidden, isGone, isNotFound } from './errors.ts';
import { resources } from './resources.ts';
import { type FakeApiServer, startFakeCluster } from './testing/index.ts';
import type { KubeObject } from './types.ts';

const ref = { namespace: 'ns', name: 'a' };

describe('KubeClient', () => {
  it('creates, reads, replaces and deletes', async () => {
    await using cluster = await startFakeCluster();
    const { client, server } = cluster;
    const created = await client.create(resources.configMaps, { metadata: ref, data: { a: '1' } });
    expect(created).toMatchObject({ apiVersion: 'v1', kind: 'ConfigMap', metadata: ref });
    await client.update(resources.configMaps, { ...created, data: { a: '2' } });
    expect(await client.get(resources.configMaps, ref)).toMatchObject({ data: { a: '2' } });
    await client.delete(resources.configMaps, ref);
    expect(server.list(resources.configMaps)).toEqual([]);
  });

  it('keeps fields that it does not know, through every verb', async () => {
    await using cluster = await startFakeCluster();
    const { client } = cluster;
    const object = {
      metadata: { ...ref, fresh: { a: [1] } },
      spec: { fromTheFuture: { deep: true } },
      extra: 1,
    };
    await client.create(resources.pods, object);
    const read = await client.get(resources.pods, ref);
    expect(read).toMatchObject(object);
    await client.update(resources.pods, { ...read, spec: { ...(read['spec'] as object), more: 1 } });
    await client.patch(resources.pods, ref, { metadata: { labels: { l: 'x' } } }, { type: 'merge' });
    const { items } = await client.list(resources.pods);
    expect(items[0]).toMatchObject({ ...object, spec: { fromTheFuture: { deep: true }, more: 1 } });
  });

  it('refuses to send what no server takes, before it is text: a part that stands in it many times needs little memory', async () => {
    await using cluster = await startFakeCluster();
    const { client, server } = cluster;
    const part = { text: 'x'.repeat(1_000) };
    // Longer than the longest string there can be.
    const spec = Array.from({ length: 1_000 }, () => Array.from({ length: 1_000 }, () => part));
    for (const attempt of [
      () => client.create(resources.pods, { metadata: ref, spec }),
      () => client.patch(resources.pods, ref, { spec }, { type: 'merge' }),
      () => client.createSubresource(resources.pods, ref, 'binding', { spec }),
    ]) {
      const error = await attempt().catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ code: 413, message: expect.stringContaining('larger than the 3 MiB') });
    }
    expect(server.requests).toEqual([]);
    await client.create(resources.pods, { metadata: ref, spec: [part] });
  });

  it('takes no answer to a write with a name, a UID or a version of megabytes', async () => {
    await using cluster = await startFakeCluster();
    const { client, server } = cluster;
    const created = await client.create(resources.configMaps, { metadata: ref });
    const writes = [
      () => client.create(resources.configMaps, { metadata: { ...ref, name: 'b' } }),
      () => client.update(resources.configMaps, created),
      () => client.patch(resources.configMaps, ref, { data: { a: '1' } }, { type: 'merge' }),
    ];
    for (const field of ['name', 'uid', 'resourceVersion']) {
      const text = JSON.stringify({ metadata: { ...ref, [field]: 'x'.repeat(1_000_000) } });
      for (const write of writes) {
        server.inject({ times: 1, fault: { kind: 'status', code: 200, text } });
        await expect(write()).rejects.toMatchObject({ code: 'ERR_INVALID_OBJECT' });
      }
    }
    expect(await client.get(resources.configMaps, ref)).toEqual(created);
  });

  it('turns a Status into an error that can be told apart', async () => {
    await using cluster = await startFakeCluster();
    const { client, server } = cluster;
    const missing = await client.get(resources.pods, ref).catch((error: unknown) => error);
    expect(isNotFound(missing)).toBe(true);
    await client.create(resources.pods, { metadata: ref });
    const again = await client.create(resources.pods, { metadata: ref }).catch((error: unknown) => error);
    expect([isAlreadyExists(again), isConflict(again)]).toEqual([true, false]);
    server.inject({
      fault: { kind: 'status', code: 403, reason: 'Forbidden', causes: [{ reason: 'NamespaceTerminating' }] },
    });
    const forbidden = await client.create(resources.pods, { metadata: ref }).catch((error: unknown) => error);
    expect(isForbidden(forbidden) && forbidden.hasCause('NamespaceTerminating')).toBe(true);
    expect(forbidden).toMatchObject({ retryable: false, message: expect.stringContaining('POST /api/v1') });
  });

  it('tells how long a busy server wants to be left alone', async () => {
    await using cluster = await startFakeCluster();
    cluster.server.inject({
      fault: { kind: 'status', code: 429, reason: 'TooManyRequests', retryAfterSeconds: 7 },
    });
    await expect(cluster.client.list(resources.pods)).rejects.toMatchObject({
      code: 429,
      retryAfterMs: 7_000,
      retryable: true,
    });
  });

  it('understands an error that is no Status', async () => {
    await using cluster = await startFakeCluster();
    cluster.server.inject({ fault: { kind: 'status', code: 502, text: '<html>bad gateway</html>' } });
    const error = await cluster.client.get(resources.pods, ref).catch((each: unknown) => each);
    expect(error).toBeInstanceOf(ApiError);
    expect(error).toMatchObject({ code: 502, reason: '', retryable: true });
    expect(String(error)).toContain('bad gateway');
  });

  it('knows an expired version by its code or its reason', async () => {
    await using cluster = await startFakeCluster();
    cluster.server.inject({ fault: { kind: 'status', code: 410, text: 'gone' } });
    cluster.server.inject({ fault: { kind: 'status', code: 400, reason: 'Expired' } });
    for (let i = 0; i < 2; i++) {
      expect(isGone(await cluster.client.list(resources.pods).catch((each: unknown) => each))).toBe(true);
    }
  });

  it('deletes only the object that is meant', async () => {
    await using cluster = await startFakeCluster();
    const { client, server } = cluster;
    const { metadata } = await client.create<KubeObject>(resources.pods, { metadata: ref });
    for (const precondition of [{ uid: 'another' }, { resourceVersion: '1' }]) {
      const error = await client.delete(resources.pods, ref, precondition).catch((each: unknown) => each);
      expect(isConflict(error)).toBe(true);
    }
    expect(server.list(resources.pods)).toHaveLength(1);
    const { uid = '', resourceVersion = '' } = metadata;
    await client.delete(resources.pods, ref, { uid, resourceVersion, gracePeriodSeconds: 0 });
    expect(server.list(resources.pods)).toEqual([]);
  });

  it('replaces only the version that was read', async () => {
    await using cluster = await startFakeCluster();
    const { client } = cluster;
    const read = await client.create(resources.pods, { metadata: ref });
    await client.patch(resources.pods, ref, { spec: { a: 1 } }, { type: 'merge' });
    const error = await client.update(resources.pods, read).catch((each: unknown) => each);
    expect(isConflict(error)).toBe(true);
    expect(error).toMatchObject({ retryable: true });
  });

  it('leaves managedFields out of the answers of writes, where it is asked to', async () => {
    await using cluster = await startFakeCluster();
    const { client, server } = cluster;
    const managed = { ...ref, managedFields: [{ manager: 'test', operation: 'Update' }] };
    const cut = { cutManagedFields: true };
    const merge = { type: 'merge' } as const;
    const labels = { metadata: { labels: { l: 'x' } } };
    const created = await client.create(resources.pods, { metadata: managed, spec: { a: 1 } }, cut);
    const answers = [
      created,
      await client.update(resources.pods, { ...created, metadata: managed }, cut),
      await client.patch(resources.pods, ref, labels, { ...merge, ...cut }),
    ];
    for (const { metadata } of answers) {
      expect(metadata).toMatchObject({
        ...ref,
        uid: expect.any(String),
        resourceVersion: expect.any(String),
      });
      expect(metadata).not.toHaveProperty('managedFields');
    }
    expect(server.get(resources.pods, ref)?.metadata).toHaveProperty('managedFields');
    expect((await client.patch(resources.pods, ref, labels, merge)).metadata).toHaveProperty('managedFields');
  });

  it('sends each kind of patch as what it is', async () => {
    await using cluster = await startFakeCluster();
    const { client } = cluster;
    await client.create(resources.configMaps, { metadata: ref, data: { a: '1', b: '2' } });
    const merged = await client.patch(resources.configMaps, ref, { data: { a: null } }, { type: 'merge' });
    expect(merged['data']).toEqual({ b: '2' });
    const operations = [{ op: 'add', path: '/data/c~1d', value: '3' }];
    const patched = await client.patch(resources.configMaps, ref, operations, { type: 'json' });
    expect(patched['data']).toEqual({ b: '2', 'c/d': '3' });
    const applied = { metadata: { name: 'new' }, data: { x: 'y' } };
    const options = { type: 'apply', fieldManager: 'test', force: true } as const;
    await client.patch(resources.configMaps, { namespace: 'ns', name: 'new' }, applied, options);
    const { query } = cluster.server.requests.at(-1) ?? {};
    expect([query?.get('fieldManager'), query?.get('force')]).toEqual(['test', 'true']);
    await expect(client.patch(resources.configMaps, ref, {}, { type: 'apply' })).rejects.toThrow(
      'fieldManager',
    );
  });

  it('writes status and spec apart', async () => {
    await using cluster = await startFakeCluster();
    const { client } = cluster;
    const pod = await client.create(resources.pods, { metadata: ref, spec: { a: 1 } });
    const changed = { ...pod, spec: { a: 2 }, status: { phase: 'Running' } };
    await client.update(resources.pods, changed, { subresource: 'status' });
    expect(await client.get(resources.pods, ref)).toMatchObject({
      spec: { a: 1 },
      status: { phase: 'Running' },
    });
  });

  it('posts to subresources', async () => {
    await using cluster = await startFakeCluster();
    const { client } = cluster;
    await client.create(resources.pods, { metadata: ref });
    await client.createSubresource(resources.pods, ref, 'binding', { target: { name: 'node-1' } });
    expect(await client.get(resources.pods, ref)).toMatchObject({ spec: { nodeName: 'node-1' } });
  });

  it('asks without doing in a dry run', async () => {
    await using cluster = await startFakeCluster();
    await cluster.client.create(resources.pods, { metadata: ref }, { dryRun: true });
    expect(cluster.server.list(resources.pods)).toEqual([]);
  });

  it('never lets a name become another path', async () => {
    await using cluster = await startFakeCluster();
    const { client, server } = cluster;
    await expect(client.get(resources.pods, { namespace: 'ns', name: '..' })).rejects.toThrow('no object');
    await expect(client.get(resources.pods, { namespace: 'ns', name: '' })).rejects.toThrow('no object');
    await expect(client.get(resources.pods, { name: 'a' })).rejects.toThrow('without its namespace');
    await expect(client.create(resources.pods, { metadata: { name: 'a' } })).rejects.toThrow('namespace');
    await client.get(resources.pods, { namespace: 'ns', name: 'x/../y?z' }).catch(() => {});
    expect(server.requests).toHaveLength(1);
    expect(server.requests[0]).toMatchObject({ name: 'x/../y?z', namespace: 'ns' });
  });

  it('reads what is not JSON', async () => {
    await using cluster = await startFakeCluster();
    expect(await cluster.client.raw('GET', '/readyz')).toBe('ok');
    expect(await cluster.client.raw('GET', '/version')).toMatchObject({ major: '1' });
  });
});

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

  it('has no more than the limit, of several pages', async () => {
    await using cluster = await startFakeCluster();
    fill(cluster.server, 5);
    const list = await cluster.client.list(resources.pods, { limit: 3, pageSize: 2 });
    expect(list.items).toHaveLength(3);
    expect(cluster.server.requests.map(({ query }) => query.get('limit'))).toEqual(['2', '1']);
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

describe('the version of a server', () => {
  const said = (answer: unknown) => serverVersion({ raw: async () => answer }, {});

  it('is read as it is, and an empty one is an error', async () => {
    expect(await said({ gitVersion: 'v1.36.3' })).toBe('1.36.3');
    await expect(said({ gitVersion: '' })).rejects.toThrow(/no gitVersion/);
    await expect(said({})).rejects.toThrow(/no gitVersion/);
  });
});
