import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { splice } from './splice.ts';

/** A socket whose other end is the test: what it says is pushed, what it is told goes where the test lets it. */
class TestSocket extends Duplex {
  told = '';
  /** Lets the next piece through; undefined: all goes through. */
  gate: (() => void) | undefined;
  isGated = false;

  constructor() {
    super({ allowHalfOpen: true });
  }

  override _read(): void {}

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.told += chunk;
    if (this.isGated) this.gate = done;
    else done();
  }

  setNoDelay(): void {}
  setKeepAlive(): void {}
  setTimeout(): void {}
}

function pair(): { left: TestSocket; right: TestSocket; closed: Promise<void> } {
  const left = new TestSocket();
  const right = new TestSocket();
  return { left, right, closed: splice(left as unknown as Socket, right as unknown as Socket) };
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
    for (const word of ['all ', 'of ', 'it']) {
      left.push(word);
      await setImmediate();
    }
    left.destroy(new Error('reset'));
    await setImmediate();
    expect(right.destroyed).toBe(false);
    await letThrough(right);
    expect([right.told, right.writableFinished]).toEqual(['all of it', true]);
    right.push(null);
    await closed;
  });

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
    const closed = splice(left as unknown as Socket, right as unknown as Socket);
    right.push(null);
    await closed;
    expect(right.destroyed).toBe(true);
  });
});
