import type { Socket } from 'node:net';

type Done = (error?: Error | null) => void;

interface SpliceOptions {
  /** How long one direction may be silent when the other one has ended. Without: for ever. */
  halfOpenMs?: number;
}

/**
 * When one side is gone, the other may take so long without reading anything, and so long to close when all is written: what
 * the systems on the way hold is read first.
 */
const closeMs = 60_000;
const keepAliveMs = 30_000;

/**
 * Carries bytes between two sockets, both ways, until both have ended; resolves when both are closed. Each
 * waits for the other's reader. One that ends its half is answered as long as there is something to answer.
 * However one of them goes, what it has said before is delivered, be the reader ever so slow.
 */
export async function splice(left: Socket, right: Socket, { halfOpenMs }: SpliceOptions = {}): Promise<void> {
  for (const socket of [left, right]) {
    socket.setNoDelay(true);
    // A peer that vanished without a word is found, and an idle shell stays open.
    socket.setKeepAlive(true, keepAliveMs);
    socket.setTimeout(0);
    outlastFailedWrites(socket);
  }
  const closed = Promise.all([follow(left, right), follow(right, left)]);
  left.pipe(right);
  right.pipe(left);
  if (halfOpenMs !== undefined) {
    left.once('end', () => right.setTimeout(halfOpenMs, () => right.destroy()));
    right.once('end', () => left.setTimeout(halfOpenMs, () => left.destroy()));
  }
  await closed;
}

/**
 * Has the socket read to its end when a write to it fails, where it would be destroyed at once: the peer has closed, and of
 * what it has said before much may be unread, as long as the other side is slow to take it. A client that keeps pinging such
 * a peer would cut off its own answer. What is written from then on is dropped.
 */
function outlastFailedWrites(socket: Socket): void {
  const { _write: write, _writev: writev } = socket;
  let isBroken = false;
  const outlasting =
    (done: Done): Done =>
    (error) => {
      if (error == null || socket.readableEnded) {
        done(error);
        return;
      }
      isBroken = true;
      socket.once('end', () => socket.destroy());
      done();
    };
  socket._write = (chunk, encoding, done) => {
    if (isBroken) done();
    else write.call(socket, chunk, encoding, outlasting(done));
  };
  if (writev)
    socket._writev = (chunks, done) => {
      if (isBroken) done();
      else writev.call(socket, chunks, outlasting(done));
    };
}

/** Resolves when `from` is closed, and sees to it then that `to` will be. */
function follow(from: Socket, to: Socket): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const gone = (): void => {
    resolve();
    if (!to.writableEnded)
      for (let rest = from.read(); rest !== null; rest = from.read()) to.write(rest as Buffer);
    finish(to);
  };
  // Its end is news enough; both kinds come with `close`.
  from.on('error', () => undefined);
  if (from.destroyed) gone();
  else from.once('close', gone);
  return promise;
}

/**
 * Delivers what is on its way and closes. What the socket still has to say is read and dropped: a connection
 * that is closed with something unread is reset, and the reset overtakes what is on its way.
 */
function finish(socket: Socket): void {
  if (socket.destroyed) return;
  const close = (): void => {
    const timer = setTimeout(() => socket.destroy(), closeMs);
    socket.once('close', () => clearTimeout(timer));
  };
  if (socket.writableFinished) close();
  else socket.once('finish', close);
  socket.setTimeout(closeMs, () => socket.destroy());
  socket.end();
  socket.unpipe();
  socket.resume();
}
