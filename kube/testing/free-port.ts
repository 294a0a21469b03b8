import { createServer } from 'node:net';

// Below the range from which systems take the ports of outgoing connections and of servers that name none.
const firstPort = 11_000;
const portsPerWorker = 500;
const workers = 16;

let next = Math.floor(Math.random() * portsPerWorker);

/**
 * A port without a listener, of loopback unless said otherwise, which stays free until it is listened on: none
 * of the first sixteen workers of one vitest is given those of another, and another vitest begins somewhere else.
 */
export async function freePort(host = '127.0.0.1'): Promise<number> {
  const first = firstPort + (Number(process.env['VITEST_POOL_ID'] ?? 0) % workers) * portsPerWorker;
  for (let tries = 0; tries < portsPerWorker; tries++) {
    const port = first + (next++ % portsPerWorker);
    if (await canListen(port, host)) return port;
  }
  throw new Error(`no port from ${first} to ${first + portsPerWorker - 1} is free`);
}

async function canListen(port: number, host: string): Promise<boolean> {
  const server = createServer();
  const listens = await new Promise<boolean>((resolve) => {
    server.once('error', () => resolve(false));
    server.listen({ port, host, exclusive: true }, () => resolve(true));
  });
  if (listens) await new Promise((resolve) => server.close(resolve));
  return listens;
}
