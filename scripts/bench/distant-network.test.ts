import { execFile } from 'node:child_process';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:tls';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { createTestCertificates } from '../../kube/testing/index.ts';

const run = promisify(execFile);
const module = new URL('./distant-network.ts', import.meta.url).href;

/** Sends what it gets back to the server, twice, and prints how long the second time took and what came. */
const client = `
const tls = require('node:tls');
const { performance } = require('node:perf_hooks');
const [port, text] = [Number(process.argv[1]), 'x'.repeat(100_000)];
const socket = tls.connect({ host: '127.0.0.1', port, rejectUnauthorized: false });
const echo = () => new Promise((resolve) => {
  let got = '';
  const take = (chunk) => {
    got += chunk;
    if (got.length < text.length) return;
    socket.off('data', take);
    resolve(got === text);
  };
  socket.on('data', take);
  socket.write(text);
});
(async () => {
  await echo();
  const from = performance.now();
  const same = await echo();
  const ms = performance.now() - from;
  socket.on('end', () => console.log(JSON.stringify({ same, ms })));
  socket.end('');
})();
`;

it('brings all bytes in order, each way later by so long, and the end after them', async () => {
  const { server: leaf } = await createTestCertificates();
  const server = createServer(leaf, (socket) => socket.pipe(socket)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  try {
    const { port } = server.address() as AddressInfo;
    const args = [`--import=${module}?ms=60`, '--eval', client, String(port)];
    const { stdout } = await run(process.execPath, args);
    const { same, ms } = JSON.parse(stdout) as { same: boolean; ms: number };
    expect(same).toBe(true);
    // Timers may be a millisecond early.
    expect(ms).toBeGreaterThanOrEqual(118);
  } finally {
    server.close();
  }
});

it('refuses to be loaded without a delay', async () => {
  await expect(run(process.execPath, [`--import=${module}`, '--eval', '0'])).rejects.toThrow(
    'distant-network.ts?ms=5',
  );
});
