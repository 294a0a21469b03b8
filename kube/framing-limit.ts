import type { Socket } from 'node:net';
import { TooLarge } from './read-limits.ts';
import { fewestBytes } from './round-trip.ts';

/** After a connection was closed, so much more may come before the next one is. */
const nextBytes = 2 ** 20;
/** Of the start of an answer, and of a handshake before it. */
const headBytes = 64 * 1024;
/** How often connections over HTTP/2 are looked at. */
const lookEveryMs = 250;
/** Of the frame around a chunk over HTTP/2, and of the record of TLS around that. */
const frameBytes = 64;

interface FramingOptions {
  /** Received, and not seen as part of an answer. */
  mostBytes: number;
  /** As much more for each stream. */
  bytesPerStream?: number;
}

/**
 * Limits what comes beside the bodies of answers, and what of these waits to be read, for all connections to one server.
 * Nothing else does: chunk extensions and frames of HTTP/2 without data may be of any number, and nobody is told of them; data
 * that waits may be in frames of one byte, which take a dozen times as much memory. A connection over which more comes is
 * closed.
 */
export class FramingLimit {
  readonly #mostBytes: number;
  readonly #bytesPerStream: number;
  /** Received, and not seen as part of an answer yet. */
  #bytes = 0;
  /** That are open. */
  #streams = 0;
  /** For each connection over HTTP/2, counts what it has received by now. */
  readonly #counts = new Set<() => void>();

  constructor({ mostBytes, bytesPerStream = 0 }: FramingOptions) {
    this.#mostBytes = mostBytes;
    this.#bytesPerStream = bytesPerStream;
  }

  /** Of a new connection. */
  observe(socket: Socket, { isHttp2 }: { isHttp2: boolean }): void {
    let seen = socket.bytesRead;
    const count = (): void => {
      const bytes = socket.bytesRead - seen;
      seen = socket.bytesRead;
      // Over HTTP/1.1, each record of TLS is read by itself, which may have one byte.
      this.#bytes += isHttp2 || bytes === 0 ? bytes : Math.max(bytes, fewestBytes);
    };
    const look = (): void => {
      count();
      const mostBytes = this.#mostBytes + this.#streams * this.#bytesPerStream;
      if (this.#bytes <= mostBytes) return;
      this.#bytes = this.#mostBytes - nextBytes;
      socket.destroy(new TooLarge('what comes beside the answer', mostBytes));
    };
    if (!isHttp2) {
      socket.on('readable', look);
      return;
    }
    // Its session reads from the socket's handle: the socket tells nobody.
    const timer = setInterval(look, lookEveryMs).unref();
    this.#counts.add(count);
    socket.once('close', () => {
      clearInterval(timer);
      this.#counts.delete(count);
      // What waited there to be read is never read.
      this.#bytes = Math.min(this.#bytes, this.#mostBytes - nextBytes);
    });
  }

  /** An answer has begun. */
  started(): void {
    this.#came(headBytes);
  }

  /** It is a stream, of which more may wait to be read. Returns what is to be called once when it has ended. */
  opened(): () => void {
    this.#streams += 1;
    return () => {
      this.#streams -= 1;
    };
  }

  /** A chunk of a body has come: as much again may be chunk sizes, frames and TLS. */
  received(bytes: number): void {
    this.#came(this.#counts.size > 0 ? 2 * bytes + frameBytes : 2 * Math.max(bytes, fewestBytes));
  }

  #came(bytes: number): void {
    // What has come with it is to be there already.
    for (const count of this.#counts) count();
    this.#bytes = Math.max(0, this.#bytes - bytes);
  }
}
