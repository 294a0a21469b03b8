import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { FramingLimit } from './framing-limit.ts';

class FakeSocket extends EventEmitter {
  bytesRead = 0;
  destroyed: Error | undefined;

  destroy(error: Error): void {
    this.destroyed ??= error;
    this.emit('close');
  }

  get asSocket(): Socket {
    return this as unknown as Socket;
  }
}

describe('what comes over HTTP/1.1 beside answers', () => {
  /** How many pieces of this size may come, each with so much of an answer. */
  function piecesUntilClosed(size: number, ofAnswer: number, most: number): number {
    const limit = new FramingLimit({ mostBytes: 4_000_000 });
    const socket = new FakeSocket();
    limit.observe(socket.asSocket, { isHttp2: false });
    for (let pieces = 0; pieces < most; pieces++) {
      if (socket.destroyed !== undefined) return pieces;
      socket.bytesRead += size;
      socket.emit('readable');
      if (ofAnswer > 0) limit.received(ofAnswer);
    }
    return most;
  }

  it('counts as a KiB for each piece, such as a record of TLS with one byte', () => {
    expect(piecesUntilClosed(1, 0, 100_000)).toBeLessThan(4_000);
    expect(piecesUntilClosed(20, 10, 10_000)).toBe(10_000);
  });
});

describe('what comes over HTTP/2 and is not read', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  const mostBytes = 4_000_000;
  const bytesPerStream = 1_000_000;

  function connected(): { limit: FramingLimit; socket: FakeSocket } {
    const limit = new FramingLimit({ mostBytes, bytesPerStream });
    const socket = new FakeSocket();
    limit.observe(socket.asSocket, { isHttp2: true });
    return { limit, socket };
  }

  function come(socket: FakeSocket, bytes: number): void {
    socket.bytesRead += bytes;
    vi.advanceTimersByTime(1_000);
  }

  it('may be as much for each open stream as its window allows', () => {
    const { limit, socket } = connected();
    const closed = limit.opened();
    limit.opened();
    come(socket, mostBytes + 2 * bytesPerStream);
    expect(socket.destroyed).toBeUndefined();
    closed();
    come(socket, 0);
    expect(socket.destroyed?.message).toContain('beside the answer');
  });

  it('counts no more once it is read', () => {
    const { limit, socket } = connected();
    for (let n = 0; n < 10; n++) {
      come(socket, mostBytes);
      limit.received(mostBytes);
    }
    expect(socket.destroyed).toBeUndefined();
    come(socket, mostBytes + 1);
    expect(socket.destroyed).toBeDefined();
  });

  it('is no more for a chunk of one byte than the frame around it', () => {
    const { limit, socket } = connected();
    const chunks = (frames: number): void => {
      for (let n = 0; n < 10_000; n++) {
        socket.bytesRead += 10 + 9 * frames;
        limit.received(1);
      }
      come(socket, 0);
    };
    chunks(2);
    expect(socket.destroyed).toBeUndefined();
    chunks(220);
    expect(socket.destroyed).toBeDefined();
  });

  it('is forgotten but for some when the connection ends', () => {
    const { limit, socket } = connected();
    come(socket, mostBytes);
    socket.emit('close');
    const next = new FakeSocket();
    limit.observe(next.asSocket, { isHttp2: true });
    come(next, 1_000_000);
    expect(next.destroyed).toBeUndefined();
  });

  it('does not count what was read before it was looked at', () => {
    const { limit, socket } = connected();
    for (let n = 0; n < 100; n++) {
      socket.bytesRead += 100_000;
      limit.received(100_000);
    }
    come(socket, mostBytes);
    expect(socket.destroyed).toBeUndefined();
    come(socket, 1);
    expect(socket.destroyed).toBeDefined();
  });

  it('counts for the next connection, which has some room again', () => {
    const { limit, socket } = connected();
    come(socket, 100 * mostBytes);
    expect(socket.destroyed).toBeDefined();
    const next = new FakeSocket();
    limit.observe(next.asSocket, { isHttp2: true });
    come(next, 1_000_000);
    expect(next.destroyed).toBeUndefined();
    come(next, 100_000);
    expect(next.destroyed).toBeDefined();
    expect(vi.getTimerCount()).toBe(0);
  });
});
