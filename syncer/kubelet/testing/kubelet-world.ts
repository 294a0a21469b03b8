import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { Agent, type RequestOptions, request } from 'node:https';
import type { Socket } from 'node:net';
import type { Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { expect } from 'vitest';
import { annotationKeys, labelKeys } from '../../../api/labels.ts';
import { type Clock, type KubeObject, systemClock } from '../../../kube/index.ts';
import { sharedTestCertificates } from '../../../kube/testing/index.ts';
import type { TenantInfo } from '../../context.ts';
import { allKinds } from '../../kinds/registry.ts';
import { testContext, testTenant } from '../../kinds/testing.ts';
import { superNamespaceName } from '../../mapping/names.ts';
import type { KubeletTenant } from '../find-pod.ts';
import { KubeletServer, type KubeletServerOptions } from '../kubelet-server.ts';
import { KubeletTenants } from '../kubelet-tenants.ts';
import { PodStreams } from '../pod-streams.ts';
import { StreamBandwidth } from '../stream-bandwidth.ts';
import { SuperCalls } from '../super-calls.ts';
import { TestAuthority, type TestPair } from './certificates.ts';
import { FakeSuper } from './fake-super.ts';

/** A tenant with the pod `shop/web-1`, container `main`, on the node `node-1`. */
export interface TestTenant extends KubeletTenant {
  readonly info: TenantInfo;
  readonly superNamespaceName: string;
  readonly kubelet: TestAuthority;
  readonly proxy: TestAuthority;
  /** What its API server shows to kubelets, and to aggregated APIs. */
  readonly kubeletClient: TestPair;
  readonly frontProxyClient: TestPair;
  isComplete: boolean;
  complete?: Promise<void>;
  tenantObjects: KubeObject[];
  superObjects: KubeObject[];
}

interface Answer {
  readonly status: number | undefined;
  readonly body: string;
  readonly headers: IncomingMessage['headers'];
}

/** An upgraded connection, and what the server said with the upgrade. */
interface Stream {
  readonly response: IncomingMessage;
  readonly socket: Socket;
  readonly head: Buffer;
}

export async function testKubeletTenant(name: string, uid: string): Promise<TestTenant> {
  const id = `${name}0000000000`.slice(0, 10);
  const info = testTenant({ id, uid, name });
  const kubelet = await TestAuthority.create(`skerry ${id} kubelet-client CA`);
  const proxy = await TestAuthority.create(`skerry ${id} front-proxy CA`);
  const there = superNamespaceName(info, 'shop');
  const tenantPod = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { namespace: 'shop', name: 'web-1', uid: `${name}-pod`, labels: { app: 'web' } },
    spec: { nodeName: 'node-1', containers: [{ name: 'main' }], initContainers: [{ name: 'first' }] },
  };
  const superPod = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      namespace: there,
      name: 'web-1',
      uid: `${name}-super-pod`,
      labels: { [labelKeys.tenant]: uid, [labelKeys.namespace]: 'shop' },
      annotations: { [annotationKeys.uid]: `${name}-pod`, [annotationKeys.containers]: 'main,first' },
    },
    spec: { nodeName: 'node-1', containers: [{ name: 'main' }, { name: 'injected' }] },
  };
  const node = { apiVersion: 'v1', kind: 'Node', metadata: { name: 'node-1' } };
  const tenant: TestTenant = {
    info,
    superNamespaceName: there,
    kubelet,
    proxy,
    kubeletClient: await kubelet.issue(`CN=tenant-${id}`),
    frontProxyClient: await proxy.issue('CN=front-proxy-client'),
    isComplete: true,
    tenantObjects: [tenantPod, node],
    superObjects: [superPod, node],
    context() {
      const { tenantObjects, superObjects } = tenant;
      return testContext({ tenant: info, tenantObjects, superObjects, kinds: allKinds });
    },
    superNamespace: (namespace) => superNamespaceName(info, namespace),
  };
  return tenant;
}

/** What a socket says until it ends its half; it stays open. */
export async function readToEnd(socket: Socket): Promise<string> {
  const chunks: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => chunks.push(chunk));
  await untilEnded(socket);
  return Buffer.concat(chunks).toString('utf8');
}

/** Resolves when the other side has ended or broken off. */
export async function untilEnded(socket: Socket): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  for (const event of ['end', 'close']) socket.once(event, () => resolve());
  socket.resume();
  await promise;
}

/**
 * Writes mebibytes until the other side reads no more, at most so many; returns how many. It reads no more when nothing
 * drains while 20 other calls are made and answered.
 */
export async function writeUntilStalled(
  to: Writable,
  most: number,
  otherCall: () => Promise<unknown>,
): Promise<number> {
  const chunk = Buffer.alloc(1 << 20, 'x');
  for (let written = 1; written <= most; written++) {
    if (to.write(chunk)) continue;
    let hasDrained = false;
    const drained = once(to, 'drain').then(() => {
      hasDrained = true;
    });
    for (let call = 0; call < 20 && !hasDrained; call++) await Promise.race([drained, otherCall()]);
    if (to.destroyed) throw new Error('the stream was cut off');
    if (!hasDrained) return written;
  }
  return most;
}

/** Of each tenant, and the clock by which they are counted. */
interface Limits {
  readonly socketsPerTenant: number;
  readonly bytesPerSecond: number;
  readonly clock: Clock;
}

/** A kubelet server with the tenants blue and green, in front of a fake super cluster. */
export class KubeletWorld implements AsyncDisposable {
  readonly super: FakeSuper;
  readonly tenants: KubeletTenants;
  readonly server: KubeletServer;
  readonly blue: TestTenant;
  readonly green: TestTenant;
  readonly faults: unknown[] = [];
  readonly bandwidth: StreamBandwidth;
  readonly ca: string;
  readonly #calls: SuperCalls;
  port = 0;

  private constructor(
    parts: { super: FakeSuper; ca: string; blue: TestTenant; green: TestTenant } & Limits,
    options: Omit<KubeletServerOptions, 'tenants' | 'streams' | 'onFault'>,
  ) {
    this.super = parts.super;
    this.ca = parts.ca;
    this.blue = parts.blue;
    this.green = parts.green;
    this.tenants = new KubeletTenants({ clock: systemClock, socketsPerTenant: parts.socketsPerTenant });
    this.#calls = new SuperCalls(parts.super.connectionOptions);
    this.bandwidth = new StreamBandwidth({
      clock: parts.clock,
      tenantBytesPerSecond: parts.bytesPerSecond,
      totalBytesPerSecond: 4 * parts.bytesPerSecond,
    });
    this.server = new KubeletServer({
      ...options,
      tenants: this.tenants,
      streams: new PodStreams(this.#calls, this.bandwidth),
      onFault: (error) => this.faults.push(error),
    });
    for (const tenant of [this.blue, this.green]) this.serve(tenant);
  }

  static async start(options: Partial<KubeletServerOptions> & Partial<Limits> = {}): Promise<KubeletWorld> {
    const { ca, server } = await sharedTestCertificates();
    const [blue, green] = await Promise.all([
      testKubeletTenant('blue', '11111111-0000-4000-8000-00000000000b'),
      testKubeletTenant('green', '11111111-0000-4000-8000-00000000000c'),
    ]);
    const parts = { super: await FakeSuper.start(), ca, blue, green };
    const nothing = async (): Promise<void> => undefined;
    const { socketsPerTenant = 16, bytesPerSecond = 1 << 30, clock = systemClock } = options;
    const world = new KubeletWorld(
      { ...parts, socketsPerTenant, bytesPerSecond, clock },
      { certificate: server, run: nothing, nodeApi: nothing, metricsApi: nothing, ...options },
    );
    world.port = await world.server.listen('127.0.0.1', 0);
    return world;
  }

  serve(tenant: TestTenant, authorities = tenant): void {
    const { uid, id } = tenant.info;
    const { kubelet, proxy } = authorities;
    this.tenants.serve(uid, id, { kubeletClient: kubelet.cert, frontProxy: proxy.cert }, tenant);
  }

  /** Asks with this certificate, on a connection of its own unless `agent` says otherwise. */
  async ask(path: string, pair: TestPair | undefined, options: RequestOptions = {}): Promise<Answer> {
    const asked = this.#request(path, pair, options);
    asked.end();
    const [response] = (await once(asked, 'response')) as [IncomingMessage];
    const { statusCode: status, headers } = response;
    return { status, headers, body: await text(response) };
  }

  /** Asks for an answer that begins and does not end yet. */
  async begin(path: string, pair: TestPair): Promise<IncomingMessage> {
    const asked = this.#request(path, pair, {});
    asked.on('error', () => undefined).end();
    const [response] = (await once(asked, 'response')) as [IncomingMessage];
    return response;
  }

  /** Asks for an upgrade; the answer when there is none. */
  async upgrade(
    path: string,
    pair: TestPair | undefined,
    headers: Record<string, string | string[]> = { 'x-stream-protocol-version': ['v4.channel.k8s.io'] },
  ): Promise<Stream | Answer> {
    const asked = this.#request(path, pair, {
      method: 'POST',
      headers: { connection: 'Upgrade', upgrade: 'SPDY/3.1', ...headers },
    });
    const { promise, resolve, reject } = Promise.withResolvers<Stream | IncomingMessage>();
    asked.once('upgrade', (response, socket, head) => {
      socket.on('error', () => undefined);
      resolve({ response, socket: socket as Socket, head });
    });
    asked.once('response', resolve);
    asked.once('error', reject);
    asked.end();
    const found = await promise;
    if ('socket' in found && 'head' in found) return found;
    const { statusCode: status, headers: answered } = found;
    return { status, headers: answered, body: await text(found) };
  }

  async stream(path: string, pair: TestPair): Promise<Stream> {
    const found = await this.upgrade(path, pair);
    if (!('socket' in found)) throw new Error(`no upgrade: ${found.status} ${found.body}`);
    return found;
  }

  /** Resolves when nothing is open any more, on either side. */
  async untilIdle(): Promise<void> {
    await expect.poll(() => [this.super.sockets.size, this.tenants.sockets.size]).toEqual([0, 0]);
  }

  #request(path: string, pair: TestPair | undefined, options: RequestOptions) {
    return request({
      host: '127.0.0.1',
      port: this.port,
      path,
      ca: this.ca,
      ...pair,
      ...({ allowHalfOpen: true } as object),
      agent: new Agent({ maxCachedSessions: 0 }),
      ...options,
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.server.close();
    this.#calls.close();
    await this.super.stop();
  }
}
