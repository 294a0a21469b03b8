import { createServer, type Server } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { freePort as unusedPort } from '../../kube/testing/free-port.ts';
import { freePort } from './free-port.ts';

const host = '127.0.0.1';
const servers: Server[] = [];

/** Listens on a port whose neighbour above is free, so that the tests have a small range of their own. */
async function listenWithFreeNeighbour(): Promise<number> {
  for (;;) {
    const port = await listen(await unusedPort());
    const neighbour = createServer();
    const free = await new Promise<boolean>((resolve) => {
      neighbour.once('error', () => resolve(false));
      neighbour.listen(port + 1, host, () => neighbour.close(() => resolve(true)));
    });
    if (free) return port;
  }
}

async function listen(port: number): Promise<number> {
  const server = createServer();
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(port, host, resolve));
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : 0;
}

afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => new Promise((resolve) => server.close(resolve))));
});

describe('freePort', () => {
  it('passes over a port that somebody listens on', async () => {
    const port = await listenWithFreeNeighbour();
    expect(await freePort({ host, range: [port, port + 1] })).toBe(port + 1);
  });

  it('passes over a port that is promised, and says so when none is left', async () => {
    const port = await listenWithFreeNeighbour();
    await expect(freePort({ host, range: [port, port + 1], taken: [port + 1] })).rejects.toMatchObject({
      code: 'no-free-port',
      retryable: true,
    });
  });

  it('leaves the port free', async () => {
    const port = await listenWithFreeNeighbour();
    const found = await freePort({ host, range: [port, port + 1] });
    expect(await listen(found)).toBe(found);
  });

  it('tells an address of another machine from a port in use', async () => {
    await expect(freePort({ host: '203.0.113.1', range: [20_000, 20_001] })).rejects.toMatchObject({
      code: 'cannot-listen',
      subject: '203.0.113.1',
    });
  });

  it.each([
    [0, 10],
    [10, 9],
    [1, 65_536],
    [1.5, 3],
  ] as const)('refuses the range %d-%d', async (first, last) => {
    await expect(freePort({ host, range: [first, last] })).rejects.toMatchObject({
      code: 'invalid-port-range',
    });
  });
});
