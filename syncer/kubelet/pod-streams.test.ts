import { once } from 'node:events';
import type { Socket } from 'node:net';
import { connect } from 'node:tls';
import { describe, expect, it } from 'vitest';
import { heard, KubeletWorld, over } from './testing/kubelet-world.ts';

const exec = '/exec/shop/web-1/main?command=sh&input=1&output=1';

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
    await world.untilIdle();
  });

  it('carries on what the client has said before it was answered', async () => {
    await using world = await KubeletWorld.start();
    const { kubeletClient } = world.blue;
    const socket = connect({ host: '127.0.0.1', port: world.port, ca: world.ca, ...kubeletClient });
    await once(socket, 'secureConnect');
    const head = `POST ${exec} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n`;
    socket.write(`${head}early `);
    // Not before the answer: two pieces would not be what is to be shown.
    const [answer] = await once(socket, 'data');
    socket.end('late');
    expect(String(answer) + (await heard(socket))).toContain('early late');
    await world.untilIdle();
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
    await world.untilIdle();
  });

  it.each(['client', 'super cluster'] as const)('ends when the %s breaks off', async (side) => {
    await using world = await KubeletWorld.start();
    const { socket } = await world.stream(exec, world.blue.kubeletClient);
    const gone = over(socket);
    if (side === 'client') socket.destroy();
    else for (const each of world.super.sockets) each.resetAndDestroy();
    await gone;
    socket.destroy();
    await world.untilIdle();
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
    await world.untilIdle();
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
