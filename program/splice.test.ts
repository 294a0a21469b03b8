import { once } from 'node:events';
import type { AddressInfo, Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import { connect, createServer, type TLSSocket } from 'node:tls';
import { describe, expect, it } from 'vitest';
import { sharedTestCertificates } from '../kube/testing/index.ts';
import { splice } from './splice.ts';

/** A socket whose other end is the test: what it says is pushed, what it is told goes where the test lets it. */
class TestSocket extends Duplex {
  told = '';
  /** Lets the next piece through; undefined: all goes through. */
  gate: (() => void) | undefined;
  isGated = false;
  /** Its other end has closed: writes fail. */
  isDeaf = false;

  constructor() {
    super({ allowHalfOpen: true });
  }

  override _read(): void {}

  override _write(chunk: Buffer, _encoding: string, done: (error?: Error) => void): void {
    if (this.isDeaf) {
      done(new Error('EPIPE'));
      return;
    }
    this.told += chunk;
    if (this.isGated) this.gate = done;
    else done();
  }

  setNoDelay(): void {}
  setKeepAlive(): void {}
  setTimeout(_ms: number, onTimeout?: () => void): void {
    if (onTimeout !== undefined) this.once('timeout', onTimeout);
  }
}

const asSocket = (socket: TestSocket): Socket => socket as unknown as Socket;

function pair(options?: Parameters<typeof splice>[2]): {
  left: TestSocket;
  right: TestSocket;
  closed: Promise<void>;
} {
  const left = new TestSocket();
  const right = new TestSocket();
  return { left, right, closed: splice(asSocket(left), asSocket(right), options) };
}

/** Lets one piece after the other through until the socket has none left. */
async function letThrough(socket: TestSocket): Promise<void> {
  socket.isGated = false;
  for (;;) {
    await setImmediate();
    const { gate } = socket;
    if (gate === undefined) return;
    socket.gate = undefined;
    gate();
  }
}

/** More than a side that is held up takes from the other, and less than that one reads ahead besides. */
const backlog = ['a', 'b', 'c', 'd'].map((letter) => letter.repeat(30_000));

describe('two sockets', () => {
  it('carry to each other what they say, and end when both have ended', async () => {
    const { left, right, closed } = pair();
    left.push('question');
    left.push(null);
    await setImmediate();
    expect([right.told, right.writableFinished]).toEqual(['question', true]);
    right.push('answer');
    right.push(null);
    await closed;
    expect(left.told).toBe('answer');
  });

  it('deliver what one has said before it broke off, be the reader ever so slow', async () => {
    const { left, right, closed } = pair();
    right.isGated = true;
    for (const word of ['all ', 'of ', 'it', ...backlog]) {
      left.push(word);
      await setImmediate();
    }
    left.destroy(new Error('reset'));
    await setImmediate();
    expect(right.destroyed).toBe(false);
    await letThrough(right);
    expect([right.told, right.writableFinished]).toEqual([`all of it${backlog.join('')}`, true]);
    right.push(null);
    await closed;
  });

  it('deliver what one has said that has closed, though the slow reader tells it something', async () => {
    const { left, right, closed } = pair();
    left.isGated = true;
    for (const piece of backlog) {
      right.push(piece);
      await setImmediate();
    }
    right.isDeaf = true;
    for (let count = 0; count < 3; count++) {
      left.push('ping');
      await setImmediate();
    }
    right.push('the last');
    right.push(null);
    await letThrough(left);
    expect([left.told, left.writableFinished]).toEqual([`${backlog.join('')}the last`, true]);
    // The one that nobody hears any more is not kept for the other's sake.
    expect(right.destroyed).toBe(true);
    left.push(null);
    await closed;
  });

  it.each([
    ['closed', (peer: Socket) => peer.destroy()],
    ['broken off', (peer: Socket) => peer.resetAndDestroy()],
  ])(
    'deliver what has come over TLS from one that has %s, though the slow reader tells it something',
    async (_, goAway) => {
      const { ca, server } = await sharedTestCertificates();
      const listening = createServer({ ...server, allowHalfOpen: true });
      listening.listen(0, '127.0.0.1');
      await once(listening, 'listening');
      const { port } = listening.address() as AddressInfo;
      const connected = once(listening, 'connection') as Promise<[Socket]>;
      const accepted = once(listening, 'secureConnection') as Promise<[TLSSocket]>;
      const right = connect({ port, host: '127.0.0.1', ca, ...({ allowHalfOpen: true } as object) });
      const [[peer], [connection]] = await Promise.all([accepted, connected]);
      const left = new TestSocket();
      left.isGated = true;
      const closed = splice(asSocket(left), right);
      let taken = 0;
      right.on('data', (chunk: Buffer) => (taken += chunk.length));
      peer.resume();
      peer.write(backlog.join(''));
      while (taken + right.readableLength < backlog.join('').length) await setImmediate();
      expect(right.readableLength).toBeGreaterThan(0);
      goAway(connection);
      await once(peer, 'close');
      // The first is answered with a reset, so that a later one fails.
      for (let count = 0; count < 20; count++) {
        left.push('ping');
        await setImmediate();
      }
      while (!left.writableFinished) await letThrough(left);
      expect(left.told).toBe(backlog.join(''));
      left.push(null);
      await closed;
      listening.close();
    },
  );

  it('are read to their end when the other is gone, as unread bytes would reset what is on its way', async () => {
    const { left, right, closed } = pair();
    left.destroy();
    await setImmediate();
    right.push('nobody hears this');
    right.push(null);
    await closed;
    expect(right.readableEnded).toBe(true);
  });

  it('end at once when one was gone before', async () => {
    const left = new TestSocket();
    const right = new TestSocket();
    left.destroy();
    await setImmediate();
    const closed = splice(asSocket(left), asSocket(right));
    right.push(null);
    await closed;
    expect(right.destroyed).toBe(true);
  });

  it('do not wait for ever for a reader that takes nothing when the other is gone', async () => {
    const { left, right, closed } = pair();
    right.isGated = true;
    left.push('unread');
    await setImmediate();
    left.destroy();
    await setImmediate();
    right.emit('timeout');
    await closed;
  });

  it('stay half open as long as something is said, and no longer where that is limited', async () => {
    for (const halfOpenMs of [undefined, 1_000]) {
      const { left, right, closed } = pair(halfOpenMs === undefined ? {} : { halfOpenMs });
      left.push(null);
      await setImmediate();
      right.emit('timeout');
      await setImmediate();
      expect(right.destroyed).toBe(halfOpenMs !== undefined);
      right.destroy();
      await closed;
    }
  });
});
