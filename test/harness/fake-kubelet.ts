import { hash } from 'node:crypto';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import {
  ConnectionError,
  isNotFound,
  type KubeObject,
  Reflector,
  resources,
  Store,
} from '../../kube/index.ts';
import { machineAddress } from '../../vc-manager/os/network.ts';
import { issue } from '../../vc-manager/pki/index.ts';
import type { Cluster } from './cluster.ts';

/** Keeps pods away that do not ask for this node. Tenants need it in `policy.tolerations`. */
export const taint = { key: 'test.skerry.dev/fake-kubelet', effect: 'NoSchedule' };
const websocketGuid = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
/** An API server refuses to pass anything on to a node on loopback. */
const address = machineAddress() ?? '127.0.0.1';

/** What brings a pod to this node and no other. */
export function onFakeNode(name: string): { nodeSelector: object; tolerations: object[] } {
  return {
    nodeSelector: { [taint.key]: name },
    tolerations: [{ key: taint.key, operator: 'Exists' }],
  };
}

/**
 * A node of the super cluster that is none: no container runs, but its pods count as running, and a small server
 * answers for their logs, for commands over web sockets (what comes in goes out in capitals) and with figures.
 */
export class FakeKubelet {
  readonly name: string;
  /** Method and path with query of all that was asked, but for figures: the syncer itself asks for these now and then. */
  readonly asked: string[] = [];
  /** Logs that are being followed: each line that is written goes to all of them. */
  readonly followers = new Set<ServerResponse>();
  readonly #cluster: Cluster;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #pods = new Store<KubeObject>();
  readonly #stop = new AbortController();
  /** What could not be done for want of a connection. */
  readonly #missed = new Set<KubeObject>();
  readonly #reflector: Reflector<KubeObject>;
  #running: Promise<void> = Promise.resolve();

  private constructor(name: string, cluster: Cluster, server: Server) {
    this.name = name;
    this.#cluster = cluster;
    this.#server = server;
    this.#reflector = new Reflector({
      client: cluster.client,
      resource: resources.pods,
      store: this.#pods,
      fieldSelector: `spec.nodeName=${name}`,
      // It outlives API servers that are stopped.
      onProblem: () => undefined,
      onResourceVersion: (_, source) => {
        if (source === 'list') this.#makeGood();
      },
    });
    server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket);
      socket.once('close', () => this.#sockets.delete(socket));
    });
    server.on('request', (request, response) => this.#answer(request, response));
    server.on('upgrade', (request, socket) => this.#upgrade(request, socket));
  }

  static async start(name: string, superCluster: Cluster, stateDir: string): Promise<FakeKubelet> {
    const pki = join(stateDir, 'super-cluster', 'pki');
    const authority = {
      certPem: await readFile(join(pki, 'serving-ca.crt'), 'utf8'),
      keyPem: await readFile(join(pki, 'serving-ca.key'), 'utf8'),
    };
    const request = { commonName: `system:node:${name}`, ipAddresses: [address], usage: ['server'] } as const;
    const { certPem: cert, keyPem: key } = await issue(authority, request);
    const server = createServer({ cert, key });
    server.listen(0, address);
    await once(server, 'listening');
    const kubelet = new FakeKubelet(name, superCluster, server);
    await kubelet.#join((server.address() as AddressInfo).port);
    return kubelet;
  }

  write(line: string): void {
    for (const follower of this.followers) follower.write(`${line}\n`);
  }

  async stop(): Promise<void> {
    this.#stop.abort(new Error('the test is over'));
    await this.#running;
    for (const { metadata } of this.#pods.list()) await this.#remove(metadata);
    await this.#cluster.client.delete(resources.nodes, { name: this.name });
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #join(port: number): Promise<void> {
    const { client } = this.#cluster;
    const size = { cpu: '8', memory: '16Gi', pods: '100' };
    const now = new Date().toISOString();
    const ready = { type: 'Ready', status: 'True', reason: 'KubeletReady', message: 'it says so' };
    await client.create(resources.nodes, {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: {
        name: this.name,
        labels: { [taint.key]: this.name, 'kubernetes.io/hostname': this.name, 'kubernetes.io/os': 'linux' },
      },
      spec: { taints: [taint] },
      status: {
        addresses: [{ type: 'InternalIP', address }],
        daemonEndpoints: { kubeletEndpoint: { Port: port } },
        capacity: size,
        allocatable: size,
        conditions: [{ ...ready, lastHeartbeatTime: now, lastTransitionTime: now }],
        nodeInfo: { architecture: 'amd64', operatingSystem: 'linux', kubeletVersion: 'v1.36.3' },
      },
    } as KubeObject);
    this.#pods.subscribe(({ type, object }) => {
      if (type !== 'deleted') void this.#careOrMiss(object);
    });
    this.#running = this.#reflector.run(this.#stop.signal);
  }

  /** No further event tells of what was missed: a list does, once the server answers again. */
  async #careOrMiss(pod: KubeObject): Promise<void> {
    try {
      await this.#care(pod);
    } catch (error) {
      if (!(error instanceof ConnectionError)) return;
      this.#missed.add(pod);
      this.#reflector.relist();
    }
  }

  #makeGood(): void {
    const missed = [...this.#missed];
    this.#missed.clear();
    for (const pod of missed) void this.#careOrMiss(pod);
  }

  async #care({ metadata, spec, status }: KubeObject): Promise<void> {
    if (metadata.deletionTimestamp !== undefined) return this.#remove(metadata);
    if ((status as { phase?: string })?.phase === 'Running') return;
    const names = (spec as { containers: { name: string; image: string }[] }).containers;
    const patch = {
      status: {
        phase: 'Running',
        conditions: ['Initialized', 'ContainersReady', 'Ready'].map((type) => ({ type, status: 'True' })),
        containerStatuses: names.map(({ name, image }) => ({
          name,
          image,
          imageID: image,
          ready: true,
          restartCount: 0,
          state: { running: { startedAt: new Date().toISOString() } },
        })),
      },
    };
    const ref = { namespace: metadata.namespace, name: metadata.name ?? '' };
    await this.#cluster.client.patch(resources.pods, ref, patch, {
      type: 'strategic',
      subresource: 'status',
    });
  }

  async #remove({ namespace, name = '', uid }: KubeObject['metadata']): Promise<void> {
    const options = { gracePeriodSeconds: 0, ...(uid === undefined ? {} : { uid }) };
    await this.#cluster.client
      .delete(resources.pods, { namespace, name }, options)
      .catch((error: unknown) => {
        if (!isNotFound(error)) throw error;
      });
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const { method = '', url = '' } = request;
    const { pathname, searchParams } = new URL(url, 'https://kubelet');
    if (pathname !== '/stats/summary') this.asked.push(`${method} ${url}`);
    if (pathname.startsWith('/containerLogs/')) {
      response.writeHead(200, { 'content-type': 'text/plain' });
      response.write(`logs of ${pathname.split('/').slice(3).join('/')} with ${searchParams}\n`);
      if (searchParams.get('follow') !== 'true') response.end();
      else {
        this.followers.add(response);
        response.once('close', () => this.followers.delete(response));
      }
    } else if (pathname === '/stats/summary') {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify(this.#summary()));
    } else response.end(`everything about ${this.name}`);
  }

  #summary(): object {
    const time = new Date().toISOString();
    const figures = {
      cpu: { time, usageNanoCores: 250_000_000 },
      memory: { time, workingSetBytes: 64 << 20 },
    };
    const pods = [...this.#pods.list()].map(({ metadata: { namespace, name, uid } }) => ({
      podRef: { namespace, name, uid },
      containers: [{ name: 'main', ...figures }],
    }));
    return { node: { nodeName: this.name, ...figures }, pods };
  }

  #upgrade(request: IncomingMessage, socket: Duplex): void {
    const { url = '', method = '', headers } = request;
    this.asked.push(`${method} ${url}`);
    socket.on('error', () => undefined);
    if (headers.upgrade?.toLowerCase() !== 'websocket') {
      const words = 'the fake kubelet speaks web sockets only';
      socket.end(`HTTP/1.1 501 Not Implemented\r\nContent-Length: ${words.length}\r\n\r\n${words}`);
      return;
    }
    const accept = hash('sha1', `${headers['sec-websocket-key']}${websocketGuid}`, 'base64');
    socket.write(
      'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n' +
        `Sec-WebSocket-Accept: ${accept}\r\nSec-WebSocket-Protocol: v4.channel.k8s.io\r\n\r\n`,
    );
    say(socket, 1, `running ${new URL(url, 'https://kubelet').searchParams}`);
    listen(socket, (text) => {
      if (text !== 'exit') return say(socket, 1, text.toUpperCase());
      say(socket, 3, JSON.stringify({ kind: 'Status', status: 'Success' }));
      socket.end(Buffer.from([0x88, 2, 0x03, 0xe8]));
    });
  }
}

/** One short message on a channel. */
function say(socket: Duplex, channel: number, text: string): void {
  const content = Buffer.from(text);
  const length = content.length + 1;
  const head = length < 126 ? [0x82, length] : [0x82, 126, length >> 8, length & 0xff];
  socket.write(Buffer.concat([Buffer.from([...head, channel]), content]));
}

/** Short masked messages on channel 0. */
function listen(socket: Duplex, heard: (text: string) => void): void {
  let left = Buffer.alloc(0);
  socket.on('data', (chunk: Buffer) => {
    left = Buffer.concat([left, chunk]);
    while (left.length >= 6) {
      const length = (left[1] ?? 0) & 0x7f;
      if (left.length < 6 + length) return;
      const mask = left.subarray(2, 6);
      const message = left.subarray(6, 6 + length).map((byte, index) => byte ^ (mask[index % 4] ?? 0));
      if ((left[0] ?? 0) % 16 === 2 && message[0] === 0) heard(Buffer.from(message.subarray(1)).toString());
      left = left.subarray(6 + length);
    }
  });
}
