import { createServer } from 'node:net';
import { NetworkError } from './errors.ts';

export interface FreePortOptions {
  /** Address to listen on later, for example 127.0.0.1. */
  readonly host: string;
  /** First and last port to try. */
  readonly range: readonly [first: number, last: number];
  /** Ports that are promised to somebody who may not be listening yet. */
  readonly taken?: Iterable<number>;
}

/**
 * The lowest port of the range that is not promised and on which one can listen right now. Nothing holds it afterwards:
 * whoever asks twice at the same time has to put the first answer into `taken`.
 * Throws NetworkError `invalid-port-range`, `no-free-port`, or `cannot-listen` when the host is not this machine's.
 */
export async function freePort(options: FreePortOptions): Promise<number> {
  const [first, last] = options.range;
  const isPort = (port: number) => Number.isInteger(port) && port >= 1 && port <= 65_535;
  if (!isPort(first) || !isPort(last) || first > last) {
    throw new NetworkError(
      'invalid-port-range',
      `${first}-${last}`,
      `${first}-${last} is not a range of ports: use two whole numbers from 1 to 65535, the smaller one first.`,
    );
  }
  const taken = new Set(options.taken ?? []);
  for (let port = first; port <= last; port++) {
    if (!taken.has(port) && (await canListen(options.host, port))) return port;
  }
  throw new NetworkError(
    'no-free-port',
    `${first}-${last}`,
    `No port from ${first} to ${last} is free on ${options.host}. Stop what uses them, delete tenants, or choose a larger range.`,
  );
}

async function canListen(host: string, port: number): Promise<boolean> {
  const server = createServer();
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen({ host, port, exclusive: true }, resolve);
    });
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code === 'EADDRINUSE' || code === 'EACCES') return false;
    throw new NetworkError(
      'cannot-listen',
      host,
      `Cannot listen on ${host} (${error instanceof Error ? error.message : String(error)}). Use an address of this machine, for example 127.0.0.1.`,
      { cause: error },
    );
  }
  await new Promise((resolve) => server.close(resolve));
  return true;
}
