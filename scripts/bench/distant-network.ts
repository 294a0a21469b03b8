import { connect, type Socket } from 'node:net';
import { Duplex } from 'node:stream';
import tls from 'node:tls';

/**
 * Loaded into the syncer by `node --import`, with `?ms=N` behind its address: whatever it sends over TLS, and whatever
 * comes back, is under way for so long. The kernel's own means for that (netem) are not on every machine. Connecting
 * takes no longer, and bandwidth is not limited.
 */
class DistantSocket extends Duplex {
  readonly #socket: Socket;
  readonly #delayMs: number;

  constructor(socket: Socket, delayMs: number) {
    super();
    this.#socket = socket;
    this.#delayMs = delayMs;
    // Timers of one length end in the order in which they were set.
    socket.on('data', (chunk) => this.#later(() => this.push(chunk)));
    socket.on('end', () => this.#later(() => this.push(null)));
    socket.on('error', (error) => this.destroy(error));
    socket.on('close', () => this.#later(() => this.destroy()));
  }

  override _read(): void {
    // Everything is pushed as it comes.
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, callback: () => void): void {
    this.#later(() => this.#socket.write(chunk));
    callback();
  }

  override _final(callback: () => void): void {
    this.#later(() => this.#socket.end());
    callback();
  }

  override _destroy(error: Error | null, callback: (error: Error | null) => void): void {
    this.#socket.destroy();
    callback(error);
  }

  #later(act: () => void): void {
    setTimeout(() => {
      if (!this.destroyed) act();
    }, this.#delayMs);
  }
}

const delayMs = Number(new URL(import.meta.url).searchParams.get('ms'));
if (!(delayMs > 0)) throw new Error('say how far away servers are: --import=.../distant-network.ts?ms=5');

const near = tls.connect as (options: tls.ConnectionOptions, ready?: () => void) => tls.TLSSocket;
const distant: typeof near = (options, ready) => {
  if (options.socket !== undefined || options.port === undefined) return near(options, ready);
  const socket = connect({ host: options.host ?? 'localhost', port: options.port, noDelay: true });
  return near({ ...options, socket: new DistantSocket(socket, delayMs) }, ready);
};
// Through the module itself, which HTTP clients hold.
Object.assign(tls, { connect: distant });
