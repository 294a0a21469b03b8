import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import { heard, KubeletWorld, over } from './testing/kubelet-world.ts';

const logs = '/containerLogs/shop/web-1/main';
const exec = '/exec/shop/web-1/main?command=sh&input=1&output=1';

function answering(status: number, body: string, type = 'text/plain') {
  return (_request: IncomingMessage, response: ServerResponse): void => {
    response.writeHead(status, { 'content-type': type });
    response.end(body);
  };
}

async function untilIdle(world: KubeletWorld): Promise<void> {
  await expect.poll(() => [world.super.sockets.size, world.tenants.sockets.size]).toEqual([0, 0]);
}

describe('logs', () => {
  it('come from the pod in the super cluster', async () => {
    await using world = await KubeletWorld.start();
    world.super.onRequest = answering(200, 'one\ntwo\n');
    const { status, body } = await world.ask(`${logs}?tailLines=2`, world.blue.kubeletClient);
    expect([status, body]).toEqual([200, 'one\ntwo\n']);
    const path = `/api/v1/namespaces/${world.blue.superNamespaceName}/pods/web-1/log`;
    expect(world.super.asked[0]).toMatchObject({
      method: 'GET',
      url: `${path}?container=main&tailLines=2`,
    });
  });

  it('that are followed arrive as they are written, and end when the reader goes', async () => {
    await using world = await KubeletWorld.start();
    const opened = Promise.withResolvers<ServerResponse>();
    world.super.onRequest = (_request, response) => {
      response.flushHeaders();
      opened.resolve(response);
    };
    const response = await world.begin(`${logs}?follow=true`, world.blue.kubeletClient);
    const writer = await opened.promise;
    for (const line of ['one\n', 'two\n']) {
      writer.write(line);
      const [chunk] = await once(response, 'data');
      expect(String(chunk)).toBe(line);
    }
    const ended = once(writer, 'close');
    response.destroy();
    await ended;
    await untilIdle(world);
  });

  it('that break off do not look as if they had ended', async () => {
    await using world = await KubeletWorld.start();
    world.super.onRequest = (_request, response) => {
      response.write('one\n');
      response.once('finish', () => undefined);
      setImmediate(() => response.destroy());
    };
    const response = await world.begin(logs, world.blue.kubeletClient);
    await expect(text(response)).rejects.toThrow('aborted');
    await untilIdle(world);
  });

  it('that nobody reads are not collected', async () => {
    await using world = await KubeletWorld.start();
    const chunk = Buffer.alloc(1 << 20, 'x');
    let written = 0;
    const full = Promise.withResolvers<void>();
    world.super.onRequest = (_request, response) => {
      const write = (): void => {
        // More than all buffers on the way can hold.
        while (written < 512) {
          written += 1;
          if (!response.write(chunk)) {
            const waits = setTimeout(() => full.resolve(), 300);
            response.once('drain', () => {
              clearTimeout(waits);
              write();
            });
            return;
          }
        }
        full.resolve();
      };
      write();
    };
    const response = await world.begin(logs, world.blue.kubeletClient);
    await full.promise;
    expect(written).toBeLessThan(256);
    response.destroy();
    await untilIdle(world);
  });
});

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
    await untilIdle(world);
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

  it('not before they are known', async () => {
    await using world = await KubeletWorld.start();
    world.blue.tenantObjects = [];
    world.blue.isComplete = false;
    expect(await world.ask(logs, world.blue.kubeletClient)).toMatchObject({ status: 503 });
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

describe('a stream into a container', () => {
  it('carries bytes both ways, those that come with the upgrade included', async () => {
    await using world = await KubeletWorld.start();
    const { socket, head, response } = await world.stream(exec, world.blue.kubeletClient);
    expect(response.headers).toMatchObject({
      upgrade: 'SPDY/3.1',
      'x-stream-protocol-version': 'v4.channel.k8s.io',
    });
    expect(response.headers).not.toHaveProperty('x-secret');
    const all = heard(socket);
    socket.end('and back');
    expect(head.toString() + (await all)).toBe('hello and back');
    await untilIdle(world);
  });

  it('asks in our name, with nothing of the client but the protocols', async () => {
    await using world = await KubeletWorld.start();
    const headers = {
      'x-stream-protocol-version': ['v5.channel.k8s.io', 'v4.channel.k8s.io'],
      'impersonate-user': 'system:admin',
      'x-remote-user': 'system:admin',
      authorization: 'Bearer stolen',
      cookie: 'a=b',
      'user-agent': 'kubectl',
    };
    const found = await world.upgrade(exec, world.blue.kubeletClient, headers);
    if ('socket' in found) found.socket.destroy();
    const [asked] = world.super.asked;
    expect(asked?.url).toBe(
      `/api/v1/namespaces/${world.blue.superNamespaceName}/pods/web-1/exec?container=main&command=sh&stdin=true&stdout=true&stderr=false&tty=false`,
    );
    expect(Object.keys(asked?.headers ?? {}).sort()).toEqual([
      'connection',
      'content-length',
      'host',
      'upgrade',
      'user-agent',
      'x-stream-protocol-version',
    ]);
    expect(asked?.headers['user-agent']).toBe('skerry');
    // Each on a line of its own, as it came.
    expect(asked?.raw.filter((part) => part.toLowerCase() === 'x-stream-protocol-version')).toHaveLength(2);
  });

  it('works for web sockets as for SPDY', async () => {
    await using world = await KubeletWorld.start();
    const headers = {
      upgrade: 'websocket',
      'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
      'sec-websocket-version': '13',
      'sec-websocket-protocol': 'v5.channel.k8s.io,v4.channel.k8s.io',
      origin: 'https://elsewhere.example',
    };
    const found = await world.upgrade(exec, world.blue.kubeletClient, headers);
    if ('socket' in found) found.socket.destroy();
    const { origin: _origin, ...passed } = headers;
    expect(world.super.asked[0]?.headers).toMatchObject(passed);
    expect(world.super.asked[0]?.headers).not.toHaveProperty('origin');
  });

  it('delivers the rest to one who has said all', async () => {
    await using world = await KubeletWorld.start();
    const far = Promise.withResolvers<Socket>();
    world.super.onUpgrade = (request, socket) => {
      socket.write(
        `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${request.headers.upgrade}\r\n\r\n`,
      );
      far.resolve(socket);
    };
    const { socket } = await world.stream(exec, world.blue.kubeletClient);
    const answer = heard(socket);
    const there = await far.promise;
    socket.end('all of it');
    expect(await heard(there)).toBe('all of it');
    there.end('the answer');
    expect(await answer).toBe('the answer');
    await untilIdle(world);
  });

  it.each(['client', 'super cluster'] as const)('ends when the %s breaks off', async (side) => {
    await using world = await KubeletWorld.start();
    const { socket } = await world.stream(exec, world.blue.kubeletClient);
    const gone = over(socket);
    if (side === 'client') socket.destroy();
    else for (const each of world.super.sockets) each.resetAndDestroy();
    await gone;
    socket.destroy();
    await untilIdle(world);
    expect(world.faults).toEqual([]);
  });

  it('waits for the reader', async () => {
    await using world = await KubeletWorld.start();
    world.super.onUpgrade = (request, socket) => {
      socket.write(
        `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${request.headers.upgrade}\r\n\r\n`,
      );
      far.resolve(socket);
    };
    const far = Promise.withResolvers<Socket>();
    const { socket } = await world.stream(exec, world.blue.kubeletClient);
    const there = await far.promise;
    const chunk = Buffer.alloc(1 << 20, 'x');
    let sent = 0;
    for (; sent < 512; sent++) {
      if (there.write(chunk)) continue;
      const drained = await Promise.race([
        once(there, 'drain').then(() => true),
        new Promise<false>((resolve) => setTimeout(() => resolve(false), 300)),
      ]);
      if (!drained) break;
    }
    expect(sent).toBeLessThan(256);
    there.once('end', () => there.destroy()).resume();
    socket.destroy();
    await untilIdle(world);
  });

  it('is cut when the tenant leaves', async () => {
    await using world = await KubeletWorld.start();
    const mine = await world.stream(exec, world.blue.kubeletClient);
    const others = await world.stream(exec, world.green.kubeletClient);
    const cut = over(mine.socket);
    world.tenants.leave(world.blue.info.uid);
    await cut;
    mine.socket.destroy();
    await expect.poll(() => world.super.sockets.size).toBe(1);
    others.socket.end('still here');
    expect(others.head.toString() + (await heard(others.socket))).toBe('hello still here');
  });
});
