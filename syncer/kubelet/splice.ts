import type { Socket } from 'node:net';

/** When all is delivered to a side and the other is gone, it may take so long to close. */
const closeMs = 10_000;
const keepAliveMs = 30_000;

/**
 * Carries bytes between two sockets, both ways, until both have ended; resolves when both are closed. Each
 * waits for the other's reader. One that ends its half is answered as long as there is something to answer.
 * However one of them goes, what it has said before is delivered, be the reader ever so slow.
 */
export async function splice(left: Socket, right: Socket): Promise<void> {
  for (const socket of [left, right]) {
    socket.setNoDelay(true);
    // A peer that vanished without a word is found, and an idle shell stays open.
    socket.setKeepAlive(true, keepAliveMs);
    socket.setTimeout(0);
  }
  const closed = Promise.all([follow(left, right), follow(right, left)]);
  left.pipe(right);
  right.pipe(left);
  await closed;
}

/** Resolves when `from` is closed, and sees to it then that `to` will be. */
function follow(from: Socket, to: Socket): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const gone = (): void => {
    resolve();
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
  socket.end();
  socket.unpipe();
  socket.resume();
}
