import { describe, expect, it } from 'vitest';
import { answering } from './testing/fake-super.ts';
import { KubeletWorld } from './testing/kubelet-world.ts';

const logs = '/containerLogs/shop/web-1/main';
const exec = '/exec/shop/web-1/main?command=sh&input=1&output=1';

describe('a refusal of the super cluster', () => {
  it("comes in the kubelet's words, without the names that are not the tenant's", async () => {
    await using world = await KubeletWorld.start();
    const { superNamespaceName } = world.blue;
    const message = `container "main" in pod "web-1" of ${superNamespaceName} is waiting to start: ContainerCreating`;
    const status = {
      kind: 'Status',
      apiVersion: 'v1',
      status: 'Failure',
      message,
      reason: 'BadRequest',
      code: 400,
    };
    world.super.onRequest = answering(400, JSON.stringify(status), 'application/json');
    const found = await world.ask(logs, world.blue.kubeletClient);
    expect(found).toMatchObject({
      status: 400,
      body: 'container "main" in pod "web-1" of shop is waiting to start: ContainerCreating',
    });
  });

  it('is unwrapped from what the API server there has made of it', async () => {
    await using world = await KubeletWorld.start();
    const causes = [{ reason: 'UnexpectedServerResponse', message: 'pod does not exist' }];
    const notFound = {
      kind: 'Status',
      message: 'the server could not find the requested resource',
      details: { causes },
      code: 404,
    };
    world.super.onRequest = answering(404, JSON.stringify(notFound), 'application/json');
    expect(await world.ask(logs, world.blue.kubeletClient)).toMatchObject({
      status: 404,
      body: 'pod does not exist',
    });
    const internal = { kind: 'Status', message: 'Internal error occurred: dial tcp: timeout', code: 500 };
    world.super.onRequest = answering(500, JSON.stringify(internal), 'application/json');
    expect(await world.ask(logs, world.blue.kubeletClient)).toMatchObject({
      status: 500,
      body: 'dial tcp: timeout',
    });
  });

  it('that is meant for the syncer is not passed on', async () => {
    await using world = await KubeletWorld.start();
    world.super.onRequest = answering(403, 'User "skerry:syncer" cannot get pods/log');
    const { status, body } = await world.ask(logs, world.blue.kubeletClient);
    expect(status).toBe(500);
    expect(body).toMatch(/does not let Skerry carry out logs: ask its operator$/);
  });

  it('to upgrade is the answer to the request to upgrade', async () => {
    await using world = await KubeletWorld.start();
    world.super.onUpgrade = (_request, socket) =>
      socket.end('HTTP/1.1 500 Internal Server Error\r\nContent-Length: 19\r\n\r\ncontainer not found');
    expect(await world.upgrade(exec, world.blue.kubeletClient)).toMatchObject({
      status: 500,
      body: 'container not found',
    });
    await world.untilIdle();
  });

  it('is no answer at all when it cannot be reached', async () => {
    await using world = await KubeletWorld.start();
    await world.super.stop();
    for (const found of [
      await world.ask(logs, world.blue.kubeletClient),
      await world.upgrade(exec, world.blue.kubeletClient),
    ]) {
      expect(found).toMatchObject({
        status: 500,
        body: expect.stringMatching(/does not answer \(ECONNREFUSED\)/),
      });
    }
  });
});
