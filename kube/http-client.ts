import { Client, type Dispatcher, type Pool } from 'undici';

/**
 * After a GOAWAY, an undici client with open streams (and watches are open for minutes) opens a new
 * session for the requests that it holds only if it may have more than one in flight. It takes that
 * number from its session while it has one; so it is told here, when HTTP/2 has been agreed on.
 */
export function createHttpClient(origin: URL, options: Pool.Options): Dispatcher {
  const { connect } = options;
  if (typeof connect !== 'function') return new Client(origin, options);
  const client = new Client(origin, {
    ...options,
    connect: (target, callback) =>
      connect(target, (error, socket) => {
        if (error !== null) {
          callback(error, null);
          return;
        }
        // A plain socket has agreed on nothing.
        client.pipelining = 'alpnProtocol' in socket && socket.alpnProtocol === 'h2' ? 100 : 1;
        callback(null, socket);
      }),
  });
  return client;
}
