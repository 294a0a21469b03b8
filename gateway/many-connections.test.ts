import { type ChildProcess, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { resources } from '../kube/index.ts';
import { isBroad } from '../kube/testing/broad.ts';
import { freePort } from '../kube/testing/free-port.ts';
import { createTestCertificates, FakeApiServer } from '../kube/testing/index.ts';
import { openFileLimits } from '../program/open-files.ts';
import type { ServersRequest } from './testing/api-servers.ts';
import type { ClientsReply, ClientsRequest } from './testing/many-clients.ts';

const domain = 'tenants.example.com';
const tenants = 400;
const apiServers = 8;
/** As many as leave the last tenant its share. */
const mostConnections = 9_970;
/** What a process has open beside connections. */
const others = 100;

const endings: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

/** Half of what a process may have open, as the gateway has two of each. */
async function howMany(): Promise<number> {
  if (!isBroad) return 400;
  const { soft } = (await openFileLimits()) ?? { soft: Number.POSITIVE_INFINITY };
  return Math.min(mostConnections, Math.floor((soft - others) / 2));
}

it.skipIf(process.platform !== 'linux')(
  `passes thousands of connections on, by name, and each goes on being answered (only on Linux)${isBroad ? '' : ' (400; more by npm run test:all)'}`,
  async () => {
    const certificates = await createTestCertificates([`*.${domain}`]);
    const { ca, server } = certificates;
    const ports = await childOf<ServersRequest, number[]>('api-servers.ts', {
      ...server,
      count: apiServers,
    });
    const superCluster = await FakeApiServer.start();
    endings.push(() => superCluster.stop());
    const known = Array.from({ length: tenants }, (_, index) => {
      const id = `tenant${index}`;
      const serverPort = ports[index % ports.length] ?? 0;
      superCluster.put(resources.virtualClusters, {
        metadata: { namespace: 'acme', name: id, creationTimestamp: '2026-01-01T00:00:00Z' },
        status: { id, phase: 'Ready', endpoint: `https://127.0.0.1:${serverPort}` },
      });
      return { name: `${id}.${domain}`, serverPort };
    });
    const gateway = await startGateway(superCluster.url);
    const count = await howMany();
    const since = performance.now();
    const reply = await childOf<ClientsRequest, ClientsReply>('many-clients.ts', {
      ...{ port: gateway.port, ca, tenants: known, count },
    });
    const seconds = (performance.now() - since) / 1_000;
    const open = [...(await gateway.metrics()).matchAll(/^skerry_gateway_connections\{.*\} (\d+)$/gm)];
    const total = open.reduce((sum, [, value]) => sum + Number(value), 0);
    console.log(
      `${total} connections of ${open.length} tenants, opened and answered in ${seconds.toFixed(1)} s: ${gateway.files()} files, ` +
        `${Math.round(gateway.bytes() / 1e6)} MB; ${Math.round(gateway.bytesBefore / 1e6)} MB before`,
    );
    expect(reply).toEqual({ opened: count, answered: count, problems: {} });
    expect([total, open.length]).toEqual([count, Math.min(count, tenants)]);
  },
  isBroad ? 600_000 : 180_000,
);

/** Its first answer to the request; it lives on until the test ends. */
async function childOf<Request extends object, Reply>(program: string, request: Request): Promise<Reply> {
  const child = fork(join(import.meta.dirname, 'testing', program), {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  endings.push(() => ended(child, () => child.disconnect()));
  child.send(request);
  const early = once(child, 'exit').then(() => Promise.reject(new Error(`${program} has ended`)));
  early.catch(() => undefined);
  const [reply] = await Promise.race([once(child, 'message'), early]);
  return reply as Reply;
}

async function startGateway(superCluster: string) {
  const directory = mkdtempSync(join(tmpdir(), 'skerry-gateway-'));
  endings.push(() => rmSync(directory, { recursive: true, force: true }));
  const kubeconfig = join(directory, 'kubeconfig');
  const text = stringify({
    'current-context': 'c',
    clusters: [{ name: 'c', cluster: { server: superCluster } }],
    users: [{ name: 'u', user: {} }],
    contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
  });
  writeFileSync(kubeconfig, text);
  const [port, metricsPort] = [await freePort(), await freePort()];
  const child = spawn(
    process.execPath,
    [
      join(import.meta.dirname, '..', 'bin', 'vc-gateway.js'),
      ...[`--kubeconfig=${kubeconfig}`, `--domain=${domain}`, '--drain-seconds=1'],
      ...[`--listen=127.0.0.1:${port}`, `--metrics-address=127.0.0.1:${metricsPort}`, '--log-level=error'],
    ],
    { stdio: ['ignore', 'inherit', 'inherit'] },
  );
  endings.push(() => ended(child, () => child.kill()));
  const ask = (path: string): Promise<Response> => fetch(`http://127.0.0.1:${metricsPort}${path}`);
  const isReady = (): Promise<boolean> =>
    ask('/readyz').then(
      ({ ok }) => ok,
      () => false,
    );
  await expect.poll(isReady, { timeout: 60_000 }).toBe(true);
  const bytes = (): number =>
    Number(/^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1]) * 1_024;
  return {
    port,
    bytes,
    bytesBefore: bytes(),
    files: (): number => readdirSync(`/proc/${child.pid}/fd`).length,
    metrics: async (): Promise<string> => (await ask('/metrics')).text(),
  };
}

async function ended(child: ChildProcess, end: () => unknown): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  end();
  await exited;
}
