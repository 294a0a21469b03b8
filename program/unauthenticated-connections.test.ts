import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import { beforeEach, describe, expect, it } from 'vitest';
import { UnauthenticatedConnections } from './unauthenticated-connections.ts';

class FakeSocket extends EventEmitter {
  readonly remoteAddress = '10.0.0.1';
  readonly remotePort: number;
  isDestroyed = false;

  constructor(remotePort: number) {
    super();
    this.remotePort = remotePort;
  }

  destroy(): void {
    this.isDestroyed = true;
    this.emit('close');
  }
}

describe('of two connections of which it is not known whose they are', () => {
  let connections: UnauthenticatedConnections;
  beforeEach(() => {
    connections = new UnauthenticatedConnections(2);
  });

  const socketOf = (socket: FakeSocket): Socket => socket as unknown as Socket;

  function arrive(port: number): FakeSocket {
    const socket = new FakeSocket(port);
    connections.arrive(socketOf(socket));
    return socket;
  }

  const destroyed = (...sockets: FakeSocket[]): boolean[] => sockets.map(({ isDestroyed }) => isDestroyed);

  it('the one that has been here longest makes room for a third', () => {
    expect(destroyed(arrive(1), arrive(2), arrive(3))).toEqual([true, false, false]);
  });

  it('one whose user is known takes no place, until it is not known any more', () => {
    const [first, second] = [arrive(1), arrive(2)];
    // The TLS connection over it.
    connections.known(socketOf(new FakeSocket(1)));
    const third = arrive(3);
    expect(destroyed(first, second, third)).toEqual([false, false, false]);
    connections.unknown(socketOf(first));
    expect(destroyed(first, second, third)).toEqual([false, true, false]);
    arrive(4);
    expect(destroyed(first, second, third)).toEqual([false, true, true]);
  });

  it('one that has ended takes no place, nor takes one up again', () => {
    const [first, second] = [arrive(1), arrive(2)];
    second.emit('close');
    connections.unknown(socketOf(second));
    expect(destroyed(first, arrive(3))).toEqual([false, false]);
  });

  it('one counts although an earlier one from its port is told to have ended later', () => {
    const earlier = arrive(1);
    const first = arrive(1);
    earlier.emit('close');
    const second = arrive(2);
    arrive(3);
    expect(destroyed(first, second)).toEqual([true, false]);
  });
});
