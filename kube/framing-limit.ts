import type { Socket } from 'node:net';
import { TooLarge } from './read-limits.ts';

/** Buffers of some dozens of connections hold less of bodies that wait to be read. */
const mostBytes = 16 * 2 ** 20;
/** After a connection was closed, so much more may come before the next one is. */
const nextBytes = 2 ** 20;
/** Of the start of an answer, and of a handshake before it. */
const headBytes = 64 * 1024;

/**
 * Limits what comes over HTTP/1.1 beside the bodies of answers, for all connections to one server. Nothing else does: chunk
 * extensions may be of any length, and nobody is told of them. A connection over which more comes is closed.
 */
export class FramingLimit {
  /** Received, and not seen as part of an answer yet. */
  #bytes = 0;

  /** Of a new connection. */
  observe(socket: Socket): void {
    let seen = socket.bytesRead;
    socket.on('readable', () => {
      this.#bytes += socket.bytesRead - seen;
      seen = socket.bytesRead;
      if (this.#bytes <= mostBytes) return;
      this.#bytes -= nextBytes;
      socket.destroy(new TooLarge('what comes beside the answer', mostBytes));
    });
  }

  /** An answer has begun. */
  started(): void {
    this.#came(headBytes);
  }

  /** So much of a body has come: as much again may be chunk sizes and TLS. */
  received(bytes: number): void {
    this.#came(2 * bytes);
  }

  #came(bytes: number): void {
    this.#bytes = Math.max(0, this.#bytes - bytes);
  }
}
