import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ignoreNotFound, type KubeObject, resources } from '../../kube/index.ts';
import { type FakeCluster, startFakeCluster } from '../../kube/testing/index.ts';
import { ensureObject } from './objects.ts';

let cluster: FakeCluster;
beforeEach(async () => {
  cluster = await startFakeCluster();
});
afterEach(() => cluster[Symbol.asyncDispose]());

const { signal } = new AbortController();
const ref = { namespace: 'acme', name: 'a' };
const wanted: KubeObject = { metadata: { ...ref, labels: { app: 'a' } }, data: { key: 'new' } };
const stored = () => cluster.server.get(resources.configMaps, ref);
const verbs = () => cluster.server.requests.splice(0).map(({ verb }) => verb);
const ensure = (options: Partial<Parameters<typeof ensureObject>[3]> = {}) =>
  ensureObject(cluster.client, resources.configMaps, wanted, { signal, ...options });

describe('an object that is to be there', () => {
  it('is made, and then costs a read and no write', async () => {
    await ensure();
    expect(verbs()).toEqual(['get', 'create']);
    await ensure();
    expect(verbs()).toEqual(['get']);
  });

  it('is made without a read where it is likely absent, and is read all the same when it is not', async () => {
    await ensure({ likely: 'absent' });
    expect(verbs()).toEqual(['create']);
    await ensure({ likely: 'absent' });
    expect(verbs()).toEqual(['create', 'get']);
  });

  it('is changed in what differs, and keeps what others have added', async () => {
    const others = { labels: { app: 'b', theirs: 'x' }, annotations: { note: 'y' } };
    cluster.server.put(resources.configMaps, {
      metadata: { ...ref, ...others },
      data: { key: 'old' },
      more: 1,
    });
    await ensure();
    expect(stored()).toMatchObject({
      metadata: { labels: { app: 'a', theirs: 'x' }, annotations: { note: 'y' } },
      data: { key: 'new' },
      more: 1,
    });
  });

  it('is tried three times where the server says that it is not there, and that it is', async () => {
    cluster.server.inject({
      verb: 'get',
      times: 100,
      fault: { kind: 'status', code: 404, reason: 'NotFound' },
    });
    cluster.server.inject({
      ...{ verb: 'create', times: 100 },
      fault: { kind: 'status', code: 409, reason: 'AlreadyExists' },
    });
    for (const likely of ['there', 'absent'] as const) {
      const error = await ensure({ likely }).catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ code: 'AnswersContradict', retryable: true });
      expect((error as Error).message).toContain('no ConfigMap acme/a');
      expect(verbs().filter((verb) => verb === 'create')).toHaveLength(3);
    }
  });

  it('is left alone where the check says so', async () => {
    cluster.server.put(resources.configMaps, { metadata: ref, data: { key: 'old' } });
    const check = () => {
      throw new Error('not ours');
    };
    await expect(ensure({ check })).rejects.toThrow('not ours');
    expect(stored()).toMatchObject({ data: { key: 'old' } });
  });
});

it('an object that is not there is found as undefined, and any other refusal is thrown', async () => {
  expect(await ignoreNotFound(cluster.client.get(resources.configMaps, ref, { signal }))).toBeUndefined();
  cluster.server.inject({ fault: { kind: 'status', code: 403 } });
  await expect(
    ignoreNotFound(cluster.client.get(resources.configMaps, ref, { signal })),
  ).rejects.toMatchObject({ code: 403 });
});
