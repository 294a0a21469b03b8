import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { connect } from 'node:tls';
import { beforeAll, describe, expect, it } from 'vitest';
import { type KubeObject, resources } from '../../kube/index.ts';
import { freePort } from '../../kube/testing/free-port.ts';
import {
  createTestCertificates,
  FakeClock,
  type FakeCluster,
  startFakeCluster,
  type TestCertificates,
} from '../../kube/testing/index.ts';
import { KubeletProxy } from './kubelet-proxy.ts';
import { type TestTenant, testKubeletTenant } from './testing/kubelet-world.ts';

const base64 = (text: string): string => Buffer.from(text).toString('base64');
const secretOf = ({ ca, server }: TestCertificates): KubeObject => ({
  metadata: { namespace: 'skerry-system', name: 'skerry-kubelet-proxy' },
  data: { 'tls.crt': base64(server.cert), 'tls.key': base64(server.key), 'ca.crt': base64(ca) },
});

let certificates: TestCertificates;
let blue: TestTenant;
beforeAll(async () => {
  certificates = await createTestCertificates();
  blue = await testKubeletTenant('blue', '11111111-0000-4000-8000-00000000000b');
});

interface Running extends AsyncDisposable {
  readonly proxy: KubeletProxy;
  readonly cluster: FakeCluster;
  readonly told: string[];
  readonly port: Promise<number>;
  readonly stop: AbortController;
}

async function running(ports: { port: number; fallbackPort?: number } = { port: 0 }): Promise<Running> {
  const cluster = await startFakeCluster();
  const told: string[] = [];
  const tell = (_fields: object, message: string): void => {
    told.push(message);
  };
  const proxy = new KubeletProxy({
    superClient: cluster.client,
    superConnection: cluster.server.connectionOptions,
    superObjects: blue.context().superObjects,
    nodes: () => [],
    host: '127.0.0.1',
    ...ports,
    advertise: '127.0.0.1',
    namespace: 'skerry-system',
    streamBytesPerSecond: 1 << 20,
    clock: new FakeClock({ autoAdvance: true, now: Date.now() }),
    logger: { info: tell, warn: tell },
  });
  const stop = new AbortController();
  const port = proxy.listen(stop.signal);
  port.catch(() => undefined);
  const dispose = async (): Promise<void> => {
    stop.abort(new Error('the test is over'));
    await proxy.close();
    await cluster[Symbol.asyncDispose]();
  };
  return { proxy, cluster, told, port, stop, [Symbol.asyncDispose]: dispose };
}

/** What the server says to `/healthz`, and the serial number of its certificate. */
async function knock(port: number, ca: string): Promise<{ answer: string; serial: string }> {
  const socket = connect({
    host: '127.0.0.1',
    port,
    ca,
    cert: blue.kubeletClient.cert,
    key: blue.kubeletClient.key,
  });
  await once(socket, 'secureConnect');
  const serial = socket.getPeerCertificate().fingerprint256;
  socket.write('GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
  let text = '';
  for await (const chunk of socket.setEncoding('utf8')) text += chunk;
  return { answer: text.split('\r\n')[0] ?? '', serial };
}

const authorities = () => ({ kubeletClient: blue.kubelet.cert, frontProxy: blue.proxy.cert });
const served = (cluster: FakeCluster) => ({ ...blue, client: cluster.client });

describe('the kubelet proxy', () => {
  it('listens when there is a certificate, and shows each that follows', async () => {
    await using there = await running();
    await there.cluster.server.until(() => there.told.length > 0);
    expect(there.told).toEqual(['waiting for the serving certificate that vc-manager makes']);
    there.cluster.server.put(resources.secrets, secretOf(certificates));
    const port = await there.port;
    const first = await knock(port, certificates.ca);
    const renewed = await createTestCertificates();
    there.cluster.server.put(resources.secrets, secretOf(renewed));
    await expect.poll(() => there.told).toContain('the serving certificate was renewed');
    const second = await knock(port, renewed.ca);
    expect(second.serial).not.toBe(first.serial);
  });

  it('takes its other port when the first is taken', async () => {
    const holder = createServer().listen(0, '127.0.0.1');
    await once(holder, 'listening');
    const { port: taken } = holder.address() as AddressInfo;
    const fallbackPort = await freePort();
    await using there = await running({ port: taken, fallbackPort });
    there.cluster.server.put(resources.secrets, secretOf(certificates));
    expect(await there.port).toBe(fallbackPort);
    expect((await knock(fallbackPort, certificates.ca)).answer).toContain('401');
    holder.close();
  });

  it('registers no metrics API where no Service would lead to it, and says so', async () => {
    await using there = await running();
    there.cluster.server.put(resources.secrets, secretOf(certificates));
    await there.port;
    there.proxy.serve(served(there.cluster), authorities());
    expect(there.told).toEqual(['tenants get no metrics API: no Service leads to an address on loopback']);
    expect(there.cluster.server.requests.map(({ plural }) => plural)).not.toContain('apiservices');
  });

  it('ends while it waits', async () => {
    await using there = await running();
    there.stop.abort(new Error('enough'));
    await expect(there.port).rejects.toThrow('enough');
  });

  it('knows the tenants that are served, and no others', async () => {
    await using there = await running();
    there.cluster.server.put(resources.secrets, secretOf(certificates));
    const port = await there.port;
    const answer = async (): Promise<string> => (await knock(port, certificates.ca)).answer;
    expect(await answer()).toBe('HTTP/1.1 401 Unauthorized');
    there.proxy.serve(served(there.cluster), authorities());
    expect(await answer()).toBe('HTTP/1.1 200 OK');
    there.proxy.leave(blue.info.uid);
    expect(await answer()).toBe('HTTP/1.1 401 Unauthorized');
  });

  it('does not serve on with the old authorities where new ones are missing or not its own', async () => {
    await using there = await running();
    there.cluster.server.put(resources.secrets, secretOf(certificates));
    const port = await there.port;
    const other = await testKubeletTenant('green', '11111111-0000-4000-8000-00000000000c');
    const wrong = { kubeletClient: other.kubelet.cert, frontProxy: other.proxy.cert };
    for (const [given, message] of [
      [undefined, /has no authorities/],
      [wrong, /not those of this tenant/],
    ] as const) {
      there.proxy.serve(served(there.cluster), authorities());
      expect((await knock(port, certificates.ca)).answer).toContain('200');
      there.proxy.serve(served(there.cluster), given);
      expect(there.told.at(-1)).toMatch(message);
      expect((await knock(port, certificates.ca)).answer).toContain('401');
    }
  });
});
