import { createHash, hash, randomFillSync } from 'node:crypto';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import { connect } from 'node:tls';
import { describe, expect, it } from 'vitest';
import { FakeClock } from '../../kube/testing/index.ts';
import { CommandRuns, Output } from './pod-streams.ts';
import { answering } from './testing/fake-super.ts';
import { KubeletWorld, readToEnd, untilEnded, writeUntilStalled } from './testing/kubelet-world.ts';

const exec = '/exec/shop/web-1/main?command=sh&input=1&output=1';

/** Upgrades, and leaves the connection to the test. */
async function openStream(there: KubeletWorld, upgrade = 'SPDY/3.1'): Promise<{ near: Socket; far: Socket }> {
  const far = Promise.withResolvers<Socket>();
  there.super.onUpgrade = (request, socket) => {
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${request.headers.upgrade}\r\n\r\n`,
    );
    far.resolve(socket);
  };
  const found = await there.upgrade(exec, there.blue.kubeletClient, { upgrade });
  if (!('socket' in found)) throw new Error(`no upgrade: ${found.status}`);
  return { near: found.socket, far: await far.promise };
}

describe('a stream into a container', () => {
  it('carries bytes both ways, those that come with the upgrade included', async () => {
    await using world = await KubeletWorld.start();
    const { socket, head, response } = await world.stream(exec, world.blue.kubeletClient);
    expect(response.headers).toMatchObject({
      upgrade: 'SPDY/3.1',
      'x-stream-protocol-version': 'v4.channel.k8s.io',
    });
    expect(response.headers).not.toHaveProperty('x-secret');
    const all = readToEnd(socket);
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
    expect(String(answer) + (await readToEnd(socket))).toContain('early late');
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

  it('carries no more than its tenant may, and all of it in the end, either way', async () => {
    const clock = new FakeClock();
    await using world = await KubeletWorld.start({ bytesPerSecond: 64 << 10, clock });
    const sent = randomFillSync(Buffer.alloc(2 << 20));
    const { near, far } = await openStream(world);
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      await clock.advance(60_000);
      const heardBytes = createHash('sha256');
      let bytes = 0;
      const all = new Promise<void>((resolve) => {
        to.on('data', (chunk: Buffer) => {
          heardBytes.update(chunk);
          bytes += chunk.length;
          if (bytes === sent.length) resolve();
        });
      });
      from.write(sent);
      // One second's worth, and then what waits in one piece.
      await clock.untilSleeping();
      expect(bytes).toBeLessThan(300_000);
      let isOver = false;
      void all.then(() => {
        isOver = true;
      });
      const fromMs = clock.monotonic();
      for (let step = 0; !isOver && step < 10_000; step++) {
        await clock.advance(20);
        await setImmediate();
      }
      expect(heardBytes.digest('hex')).toBe(hash('sha256', sent));
      expect(clock.monotonic() - fromMs).toBeGreaterThan(20_000);
      to.removeAllListeners('data');
    }
    near.destroy();
    far.destroy();
    await world.untilIdle();
  });

  it('that waits for its turn ends with its client', async () => {
    const clock = new FakeClock();
    await using world = await KubeletWorld.start({ bytesPerSecond: 64 << 10, clock });
    const { near, far } = await openStream(world);
    near.resume();
    far.write(Buffer.alloc(1 << 20));
    await clock.untilSleeping();
    const ended = untilEnded(far);
    near.destroy();
    await ended;
    far.destroy();
    await world.untilIdle();
    await clock.advance(100);
    expect(clock.sleeping).toBe(0);
  });

  it('delivers the rest to one who has said all', async () => {
    await using world = await KubeletWorld.start();
    const { near, far } = await openStream(world);
    const answer = readToEnd(near);
    near.end('all of it');
    expect(await readToEnd(far)).toBe('all of it');
    far.end('the answer');
    expect(await answer).toBe('the answer');
    await world.untilIdle();
  });

  it.each(['client', 'super cluster'] as const)('ends when the %s breaks off', async (side) => {
    await using world = await KubeletWorld.start();
    const { socket } = await world.stream(exec, world.blue.kubeletClient);
    const gone = untilEnded(socket);
    if (side === 'client') socket.destroy();
    else for (const each of world.super.sockets) each.resetAndDestroy();
    await gone;
    socket.destroy();
    await world.untilIdle();
    expect(world.faults).toEqual([]);
  });

  it('waits for the reader', async () => {
    await using world = await KubeletWorld.start();
    const { near, far } = await openStream(world);
    world.super.onRequest = answering(200, 'short');
    const others = () => world.ask('/containerLogs/shop/web-1/main', world.green.kubeletClient);
    // More than all buffers on the way can hold.
    const most = 512;
    expect(await writeUntilStalled(far, most, others)).toBeLessThan(most / 2);
    far.once('end', () => far.destroy()).resume();
    near.destroy();
    await world.untilIdle();
  });

  it('is cut when the tenant leaves', async () => {
    await using world = await KubeletWorld.start();
    const mine = await world.stream(exec, world.blue.kubeletClient);
    const others = await world.stream(exec, world.green.kubeletClient);
    const cut = untilEnded(mine.socket);
    world.tenants.leave(world.blue.info.uid);
    await cut;
    mine.socket.destroy();
    await expect.poll(() => world.super.sockets.size).toBe(1);
    others.socket.end('still here');
    expect(others.head.toString() + (await readToEnd(others.socket))).toBe('hello still here');
  });
});

const manyBytes = 50_000_000;
const random = randomFillSync(Buffer.alloc(1 << 17));

/** Says very much in pieces from one byte to a hundred thousand; returns its hash. */
async function sayMuch(socket: Socket): Promise<string> {
  const said = createHash('sha256');
  for (let left = manyBytes, turn = 0; left > 0; turn++) {
    const size = Math.min(left, turn % 8 === 0 ? 100_000 : 1 + ((turn * 7_919) % 4_096));
    const piece = random.subarray(turn % 1_024, (turn % 1_024) + size);
    said.update(piece);
    left -= size;
    if (!socket.write(piece)) await once(socket, 'drain');
  }
  return said.digest('hex');
}

/** The hash of what a socket says until it ends its half, read by one who does other things in between. */
async function heardSlowly(socket: Socket): Promise<string> {
  const all = createHash('sha256');
  socket.on('data', (chunk: Buffer) => {
    all.update(chunk);
    socket.pause();
    void setImmediate().then(() => socket.resume());
  });
  await untilEnded(socket);
  return all.digest('hex');
}

describe('much', () => {
  it('goes both ways at once and arrives whole, be the readers ever so slow', async () => {
    await using world = await KubeletWorld.start();
    const { near, far } = await openStream(world, 'websocket');
    const hearing = Promise.all([heardSlowly(far), heardSlowly(near)]);
    const saying = [near, far].map(async (socket) => {
      const said = await sayMuch(socket);
      socket.end();
      return said;
    });
    expect(await hearing).toEqual(await Promise.all(saying));
    await world.untilIdle();
  });
});

const path = '/run/shop/web-1/main?cmd=ls+-l';

type Message = [channel: number, text: string];

const success: Message = [3, '{"kind":"Status","status":"Success"}'];

/** Accepts a web socket and says these messages before it closes. */
function saying(...messages: Message[]): KubeletWorld['super']['onUpgrade'] {
  return (request, socket: Socket) => {
    acceptWebSocket(request, socket);
    for (const message of messages) say(socket, message);
    close(socket);
    socket.resume();
  };
}

function acceptWebSocket(request: IncomingMessage, socket: Socket): void {
  const key = `${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`;
  socket.write(
    'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n' +
      `Sec-WebSocket-Accept: ${hash('sha1', key, 'base64')}\r\nSec-WebSocket-Protocol: v4.channel.k8s.io\r\n\r\n`,
  );
}

function say(socket: Socket, [channel, text]: Message): void {
  const content = Buffer.concat([Buffer.from([channel]), Buffer.from(text)]);
  const { length } = content;
  socket.write(Buffer.concat([Buffer.from([0x82, 126, length >> 8, length & 0xff]), content]));
}

function close(socket: Socket): void {
  socket.end(Buffer.from([0x88, 2, 0x03, 0xe8]));
}

/** `uidOf`: whose the next command is; else the client's. `limits`: as of `CommandRuns`. */
async function world(
  limits?: { bytes?: number; printed?: number },
  uidOf?: () => string,
  options: Parameters<typeof KubeletWorld.start>[0] = {},
): Promise<KubeletWorld> {
  let runs: CommandRuns | undefined;
  const started = await KubeletWorld.start({
    ...options,
    run: async ({ uid, tenant }, pod, response) =>
      await runs?.run({ uid: uidOf?.() ?? uid, tenant }, pod, response),
  });
  runs = new CommandRuns(started.super.connectionOptions, started.bandwidth, limits);
  const dispose = started[Symbol.asyncDispose].bind(started);
  started[Symbol.asyncDispose] = async () => {
    await runs?.close();
    await dispose();
  };
  return started;
}

const ask = (there: KubeletWorld, asked = path) =>
  there.ask(asked, there.blue.kubeletClient, { method: 'POST' });

describe('a command without a terminal', () => {
  it('is answered with what it printed', async () => {
    await using there = await world();
    there.super.onUpgrade = saying([1, 'one\n'], [2, 'two\n'], success);
    expect(await ask(there)).toMatchObject({ status: 200, body: 'one\ntwo\n' });
    const asked = there.super.asked[0];
    expect(asked?.url).toBe(
      `/api/v1/namespaces/${there.blue.superNamespaceName}/pods/web-1/exec?container=main&command=ls&command=-l&stdin=false&stdout=true&stderr=true&tty=false`,
    );
    expect(asked?.headers['sec-websocket-protocol']).toBe('v4.channel.k8s.io');
  });

  it('is answered with all of it where that is much', async () => {
    await using there = await world();
    const parts = ['a', 'b', 'c'].map((letter) => letter.repeat(50_000));
    there.super.onUpgrade = saying(...parts.map((part): [number, string] => [1, part]));
    expect(await ask(there)).toMatchObject({ status: 200, body: parts.join('') });
  });

  it('that fails is answered with the reason and what it printed', async () => {
    await using there = await world();
    const message = `exit code 1 in ${there.blue.superNamespaceName}`;
    const status = JSON.stringify({ kind: 'Status', status: 'Failure', message });
    there.super.onUpgrade = saying([2, 'no such file'], [3, status]);
    expect(await ask(there)).toMatchObject({ status: 500, body: 'exit code 1 in shop\nno such file' });
  });

  it('is not run in a pod that is not the tenant’s, nor by other methods', async () => {
    await using there = await world();
    expect(await ask(there, '/run/shop/other/main?cmd=ls')).toMatchObject({ status: 404 });
    expect(await there.ask(path, there.blue.kubeletClient)).toMatchObject({ status: 405 });
    expect(there.super.asked).toEqual([]);
  });

  it('is one of two of a tenant, as what they print is held meanwhile', async () => {
    await using there = await world();
    const begun: Socket[] = [];
    const waiters: (() => void)[] = [];
    there.super.onUpgrade = (_request, socket) => {
      begun.push(socket);
      for (const waiter of waiters.splice(0)) waiter();
    };
    const hasBegun = async (count: number): Promise<void> => {
      while (begun.length < count) await new Promise<void>((resolve) => waiters.push(resolve));
    };
    const running = [ask(there), ask(there)];
    await hasBegun(2);
    expect(await ask(there)).toMatchObject({ status: 429, body: expect.stringContaining('(2)') });
    // Those of another tenant are not held up.
    running.push(there.ask(path, there.green.kubeletClient, { method: 'POST' }));
    await hasBegun(3);
    for (const socket of begun) socket.end('HTTP/1.1 403 Forbidden\r\n\r\n');
    for (const answer of await Promise.all(running)) expect(answer.status).toBe(500);
    there.super.onUpgrade = saying([1, 'one'], success);
    expect(await ask(there)).toMatchObject({ status: 200, body: 'one' });
  });

  it('runs whatever commands of other tenants are there, however many', async () => {
    let asked = 0;
    await using there = await world(undefined, () => `tenant-${Math.floor(asked++ / 2)}`);
    const begun: Socket[] = [];
    there.super.onUpgrade = (_request, socket) => begun.push(socket);
    const running = Array.from({ length: 12 }, () => ask(there));
    await expect.poll(() => begun.length).toBe(12);
    there.super.onUpgrade = saying([1, 'one'], success);
    expect(await ask(there)).toMatchObject({ status: 200, body: 'one' });
    for (const socket of begun) socket.end('HTTP/1.1 403 Forbidden\r\n\r\n');
    await Promise.all(running);
  });

  it('ends, and says so, where more is held than may be and its tenant has most of that', async () => {
    const piece = 64 << 10;
    await using there = await world({ bytes: 4 * piece });
    const begun: Socket[] = [];
    const printing = (...texts: string[]): void => {
      there.super.onUpgrade = (request, socket) => {
        acceptWebSocket(request, socket);
        for (const text of texts) say(socket, [1, text]);
        begun.push(socket);
      };
    };
    const printed = 'x'.repeat(50_000);
    printing(printed, printed);
    const blue = [ask(there), ask(there)];
    await expect.poll(() => begun.length).toBe(2);
    printing(printed);
    const green = there.ask(path, there.green.kubeletClient, { method: 'POST' });
    expect(await Promise.race(blue)).toMatchObject({
      status: 500,
      body: expect.stringContaining('this cluster has most of it'),
    });
    for (const socket of begun) {
      say(socket, success);
      close(socket);
    }
    expect(await green).toMatchObject({ status: 200, body: printed });
    expect((await Promise.all(blue)).map(({ status }) => status).sort()).toEqual([200, 500]);
  });

  it('ends, and says so, where it prints on and on', async () => {
    await using there = await world({ printed: 1_000 });
    there.super.onUpgrade = saying([1, 'x'.repeat(600)], success);
    expect(await ask(there)).toMatchObject({ status: 200 });
    there.super.onUpgrade = saying([1, 'x'.repeat(600)], [2, 'x'.repeat(600)], success);
    expect(await ask(there)).toMatchObject({ status: 500, body: expect.stringContaining('use exec') });
    // Byte by byte.
    there.super.onUpgrade = saying([1, 'x'], [1, 'x'], [1, 'x'], [1, 'x'], success);
    expect(await ask(there)).toMatchObject({ status: 500, body: expect.stringContaining('use exec') });
  });

  it('waits until what the last one has printed is made up for', async () => {
    const clock = new FakeClock();
    await using there = await world({}, undefined, { bytesPerSecond: 4_096, clock });
    there.super.onUpgrade = saying([1, 'x'.repeat(8_192)], success);
    expect(await ask(there)).toMatchObject({ status: 200 });
    const next = ask(there);
    await clock.untilSleeping();
    expect(there.super.asked).toHaveLength(1);
    // Those of another tenant do not wait for it.
    expect(await there.ask(path, there.green.kubeletClient, { method: 'POST' })).toMatchObject({
      status: 200,
    });
    await clock.advance(2_100);
    expect(await next).toMatchObject({ status: 200 });
  });

  it('ends with its connection when another is asked for on that before it is answered', async () => {
    await using there = await world();
    const far = Promise.withResolvers<Socket>();
    there.super.onUpgrade = (_request, socket) => far.resolve(socket);
    const { kubeletClient } = there.blue;
    const socket = connect({ host: '127.0.0.1', port: there.port, ca: there.ca, ...kubeletClient });
    await once(socket, 'secureConnect');
    const asked = `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n`;
    socket.write(asked);
    const command = await far.promise;
    socket.write(asked);
    await Promise.all([untilEnded(socket), untilEnded(command)]);
    expect(there.super.asked).toHaveLength(1);
    there.super.onUpgrade = saying([1, 'one'], success);
    expect(await Promise.all([ask(there), ask(there)])).toMatchObject([{ status: 200 }, { status: 200 }]);
  });

  it('says so when the super cluster does not let it', async () => {
    await using there = await world();
    there.super.onUpgrade = (_request, socket) => socket.end('HTTP/1.1 403 Forbidden\r\n\r\n');
    expect(await ask(there)).toMatchObject({ status: 500, body: expect.stringContaining('does not answer') });
  });

  describe('has what it prints held', () => {
    const piece = 64 << 10;

    it('in no more memory when it comes byte by byte, and only once', () => {
      const output = new Output();
      for (let at = 0; at < 2_000; at++) output.add(Buffer.from('x'));
      expect(output.heldBytes).toBe(piece);
      output.add(Buffer.alloc(piece, 'y'));
      expect(output.heldBytes).toBe(2 * piece);
      const pieces = output.pieces();
      expect(new Set(pieces.map(({ buffer }) => buffer.byteLength))).toEqual(new Set([piece]));
      expect(Buffer.concat(pieces).toString()).toBe('x'.repeat(2_000) + 'y'.repeat(piece));
    });

    it('up to a limit, and not after it has ended', () => {
      const output = new Output();
      for (let at = 0; at < 20; at++) output.add(Buffer.alloc(1 << 20));
      expect(output.heldBytes).toBe(16 << 20);
      expect(output.pieces().reduce((sum, { length }) => sum + length, 0)).toBe(16 << 20);
      const ended = new Output();
      ended.add(Buffer.from('early'));
      ended.drop();
      ended.add(Buffer.from('late'));
      expect(ended.heldBytes).toBe(0);
    });
  });
});
