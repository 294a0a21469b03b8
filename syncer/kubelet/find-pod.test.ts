import { describe, expect, it } from 'vitest';
import type { KubeletServerOptions } from './kubelet-server.ts';
import { KubeletWorld } from './testing/kubelet-world.ts';

const logs = '/containerLogs/shop/web-1/main';
const exec = '/exec/shop/web-1/main?command=sh&input=1&output=1';

describe('which pods a tenant reaches', () => {
  it('those of its own API server only: a name that another has is not found', async () => {
    await using world = await KubeletWorld.start();
    world.blue.tenantObjects = world.blue.tenantObjects.filter(({ kind }) => kind !== 'Pod');
    for (const found of [
      await world.ask(logs, world.blue.kubeletClient),
      await world.upgrade(exec, world.blue.kubeletClient),
    ]) {
      expect(found).toMatchObject({ status: 404, body: 'pod "web-1" does not exist on this node' });
    }
    expect(await world.ask(logs, world.green.kubeletClient)).toMatchObject({ status: 200 });
    expect(world.super.asked.map(({ url }) => url.includes(world.green.superNamespaceName))).toEqual([true]);
  });

  it('those that are marked as made from just that pod', async () => {
    await using world = await KubeletWorld.start();
    const [pod, ...others] = world.blue.superObjects;
    const { metadata } = pod ?? { metadata: {} };
    const changes = [
      { labels: { ...metadata.labels, 'skerry.dev/tenant': world.green.info.uid } },
      { labels: { ...metadata.labels, 'skerry.dev/namespace': 'other' } },
      { labels: {} },
      { annotations: { 'skerry.dev/uid': 'of-an-earlier-pod' } },
      { annotations: {} },
    ];
    for (const change of changes) {
      world.blue.superObjects = [{ ...pod, metadata: { ...metadata, ...change } }, ...others];
      expect(await world.ask(logs, world.blue.kubeletClient)).toMatchObject({ status: 404 });
    }
    expect(world.super.asked).toEqual([]);
  });

  it('with the UID that is asked for', async () => {
    await using world = await KubeletWorld.start();
    const other = '/exec/shop/web-1/another-uid/main?command=sh&output=1';
    expect(await world.upgrade(other, world.blue.kubeletClient)).toMatchObject({ status: 404 });
    const same = await world.stream(
      '/exec/shop/web-1/blue-pod/main?command=sh&output=1',
      world.blue.kubeletClient,
    );
    same.socket.destroy();
  });

  it('and of their containers those that it has put there', async () => {
    await using world = await KubeletWorld.start();
    expect(await world.ask('/containerLogs/shop/web-1/injected', world.blue.kubeletClient)).toMatchObject({
      status: 404,
      body: 'container "injected" not found in pod "web-1"',
    });
    expect(await world.ask('/containerLogs/shop/web-1/first', world.blue.kubeletClient)).toMatchObject({
      status: 200,
    });
  });

  it('of the containers those that the super object has from the tenant, whatever its API server says now', async () => {
    await using world = await KubeletWorld.start();
    const [superPod, ...others] = world.blue.superObjects;
    const mark = { 'skerry.dev/containers': 'main,first,debug' };
    const annotations = { ...superPod?.metadata.annotations, ...mark };
    world.blue.superObjects = [
      {
        ...superPod,
        metadata: { ...superPod?.metadata, annotations },
        spec: {
          ...(superPod?.['spec'] as object),
          containers: [{ name: 'main' }, { name: 'first' }, { name: 'injected' }],
          ephemeralContainers: [{ name: 'debug' }, { name: 'operators' }],
        },
      },
      ...others,
    ];
    for (const pod of world.blue.tenantObjects.filter(({ kind }) => kind === 'Pod'))
      pod['spec'] = {
        containers: [{ name: 'main' }, { name: 'first' }, { name: 'injected' }],
        ephemeralContainers: [{ name: 'debug' }, { name: 'late' }, { name: 'operators' }],
      };
    const statusOf = async (container: string) => {
      const answer = await world.ask(`/containerLogs/shop/web-1/${container}`, world.blue.kubeletClient);
      return answer.status;
    };
    expect(await statusOf('injected')).toBe(404);
    expect(await statusOf('late')).toBe(404);
    expect(await statusOf('operators')).toBe(404);
    expect(await statusOf('main')).toBe(200);
    expect(await statusOf('first')).toBe(200);
    expect(await statusOf('debug')).toBe(200);
  });

  it('not before they are known', async () => {
    await using world = await KubeletWorld.start();
    world.blue.tenantObjects = [];
    world.blue.isComplete = false;
    expect(await world.ask(logs, world.blue.kubeletClient)).toMatchObject({ status: 503 });
  });

  it('as soon as they are known, where that is about to be', async () => {
    await using world = await KubeletWorld.start();
    const known = Promise.withResolvers<void>();
    const { tenantObjects } = world.blue;
    Object.assign(world.blue, { tenantObjects: [], isComplete: false, complete: known.promise });
    const answer = world.ask(logs, world.blue.kubeletClient);
    await world.ask(logs, world.green.kubeletClient);
    Object.assign(world.blue, { tenantObjects, isComplete: true });
    known.resolve();
    expect(await answer).toMatchObject({ status: 200 });
  });

  it('and has nothing done for a client that has gone before', async () => {
    const done: string[] = [];
    const run: KubeletServerOptions['run'] = async (_, pod, response) => {
      done.push(pod.pod);
      response.end();
    };
    await using world = await KubeletWorld.start({ run });
    const known = Promise.withResolvers<void>();
    Object.assign(world.blue, { isComplete: false, complete: known.promise });
    const gone = new AbortController();
    const options = { method: 'POST', signal: gone.signal };
    const answer = world.ask('/run/shop/web-1/main?cmd=id', world.blue.kubeletClient, options);
    await expect.poll(() => world.tenants.sockets.size).toBe(1);
    gone.abort();
    await expect(answer).rejects.toThrow();
    await world.untilIdle();
    Object.assign(world.blue, { isComplete: true });
    known.resolve();
    await world.ask('/run/shop/web-2/main?cmd=id', world.blue.kubeletClient, { method: 'POST' });
    expect(done).toEqual(['web-2']);
    expect(world.faults).toEqual([]);
  });

  it('and on simulated nodes hears that nothing runs there', async () => {
    await using world = await KubeletWorld.start();
    const node = world.blue.superObjects.find(({ kind }) => kind === 'Node');
    if (node !== undefined) node.metadata.labels = { 'skerry.dev/simulated': 'true' };
    expect(await world.ask(logs, world.blue.kubeletClient)).toMatchObject({
      status: 500,
      body: 'logs is not available for pod web-1: its node is simulated and runs no containers',
    });
    expect(await world.upgrade(exec, world.blue.kubeletClient)).toMatchObject({
      body: 'exec is not available for pod web-1: its node is simulated and runs no containers',
    });
  });
});
