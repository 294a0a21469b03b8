import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { FakeClock } from '../../kube/testing/index.ts';
import { answering } from './testing/fake-super.ts';
import { KubeletWorld, writeUntilStalled } from './testing/kubelet-world.ts';

const logs = '/containerLogs/shop/web-1/main';

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
    await world.untilIdle();
  });

  it('come no faster than their tenant may have them, and all of them', async () => {
    const clock = new FakeClock();
    await using world = await KubeletWorld.start({ bytesPerSecond: 64 << 10, clock });
    const sent = 'a line of it\n'.repeat(100_000);
    world.super.onRequest = answering(200, sent);
    const response = await world.begin(logs, world.blue.kubeletClient);
    let bytes = 0;
    response.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
    });
    const ended = once(response, 'end');
    await clock.untilSleeping();
    expect(bytes).toBeLessThan(200_000);
    let isOver = false;
    void ended.then(() => {
      isOver = true;
    });
    for (let step = 0; !isOver && step < 10_000; step++) {
      await clock.advance(20);
      await turn();
    }
    expect(bytes).toBe(sent.length);
    expect(clock.monotonic()).toBeGreaterThan(15_000);
  });

  it('are asked for no longer than somebody waits for them', async () => {
    await using world = await KubeletWorld.start();
    const asked = Promise.withResolvers<IncomingMessage>();
    const stop = new AbortController();
    // A container that prints nothing: the answer does not even begin.
    world.super.onRequest = (request) => asked.resolve(request);
    const waiting = world.ask(`${logs}?follow=true`, world.blue.kubeletClient, {
      signal: stop.signal,
    });
    waiting.catch(() => undefined);
    const ended = once((await asked.promise).socket, 'close');
    stop.abort();
    await ended;
    await world.untilIdle();
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
    await world.untilIdle();
  });

  it('that nobody reads are not collected', async () => {
    await using world = await KubeletWorld.start();
    const begun = Promise.withResolvers<ServerResponse>();
    world.super.onRequest = (request, response) => {
      if (request.url?.includes(world.green.superNamespaceName)) response.end('short');
      else {
        response.flushHeaders();
        begun.resolve(response);
      }
    };
    const response = await world.begin(logs, world.blue.kubeletClient);
    // More than all buffers on the way can hold.
    const most = 512;
    const others = () => world.ask(logs, world.green.kubeletClient);
    expect(await writeUntilStalled(await begun.promise, most, others)).toBeLessThan(most / 2);
    response.destroy();
    await world.untilIdle();
  });
});
