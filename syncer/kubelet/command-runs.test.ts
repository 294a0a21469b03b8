import { hash } from 'node:crypto';
import type { Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { CommandRuns } from './command-runs.ts';
import { KubeletWorld } from './testing/kubelet-world.ts';

const path = '/run/shop/web-1/main?cmd=ls+-l';

/** Accepts a web socket and says these messages, each a channel and a text, before it closes. */
function saying(...messages: [channel: number, text: string][]): KubeletWorld['super']['onUpgrade'] {
  return (request, socket: Socket) => {
    const key = `${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`;
    socket.write(
      'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n' +
        `Sec-WebSocket-Accept: ${hash('sha1', key, 'base64')}\r\nSec-WebSocket-Protocol: v4.channel.k8s.io\r\n\r\n`,
    );
    for (const [channel, text] of messages) {
      const content = Buffer.concat([Buffer.from([channel]), Buffer.from(text)]);
      const { length } = content;
      socket.write(Buffer.concat([Buffer.from([0x82, 126, length >> 8, length & 0xff]), content]));
    }
    socket.end(Buffer.from([0x88, 2, 0x03, 0xe8]));
    socket.resume();
  };
}

async function world(): Promise<KubeletWorld> {
  let runs: CommandRuns | undefined;
  const started = await KubeletWorld.start({
    run: async (client, pod, response) => await runs?.run(client, pod, response),
  });
  runs = new CommandRuns(started.super.connectionOptions);
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
    there.super.onUpgrade = saying([1, 'one\n'], [2, 'two\n'], [3, '{"kind":"Status","status":"Success"}']);
    expect(await ask(there)).toMatchObject({ status: 200, body: 'one\ntwo\n' });
    const asked = there.super.asked[0];
    expect(asked?.url).toBe(
      `/api/v1/namespaces/${there.blue.superNamespaceName}/pods/web-1/exec?container=main&command=ls&command=-l&stdin=false&stdout=true&stderr=true&tty=false`,
    );
    expect(asked?.headers['sec-websocket-protocol']).toBe('v4.channel.k8s.io');
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

  it('says so when the super cluster does not let it', async () => {
    await using there = await world();
    there.super.onUpgrade = (_request, socket) => socket.end('HTTP/1.1 403 Forbidden\r\n\r\n');
    expect(await ask(there)).toMatchObject({ status: 500, body: expect.stringContaining('does not answer') });
  });
});
