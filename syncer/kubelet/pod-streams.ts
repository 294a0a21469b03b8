import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { pipeline } from 'node:stream/promises';
import { Agent, WebSocket } from 'undici';
import {
  authorizationOf,
  type ConnectionOptions,
  onAbort,
  type Status,
  tlsOptions,
  withoutUndefined,
} from '../../kube/index.ts';
import { splice } from '../../program/splice.ts';
import { scrub } from '../mapping/scrub.ts';
import { findPod, type KubeletTenant } from './find-pod.ts';
import type { Client } from './kubelet-tenants.ts';
import { notAllowedThere, Refusal, readText, superRefusal, unreachable } from './refusal.ts';
import { type PodRequest, subresourcePath } from './request-path.ts';
import { type StreamBandwidth, throttle } from './stream-bandwidth.ts';
import type { SuperCalls, SuperResponse } from './super-calls.ts';

const protocol = 'v4.channel.k8s.io';
const channels = { stdout: 1, stderr: 2, status: 3 };
/** As much as a runtime keeps of what a command prints when no client reads it. */
const maxBytes = 16 << 20;
/** Output is held in pieces of so many bytes; of what one has printed that fails the first is shown. */
const pieceBytes = 64 << 10;
const timeoutMs = 120_000;
const printedTooMuch = 'the command was ended: it printed more than is read of one run by "/run"; use exec';
const heldTooMuch =
  'the command was ended: what is held of commands run by "/run" is full, and this cluster has most of it; use exec';
/** How long a client may take to read the answer. */
const readWithinMs = 30_000;
const runsAtOnce = 2;
/** What commands print is held until they have ended: of all tenants together so much. */
const maxBytesOfAll = 8 * maxBytes;
/** What a command prints may come as fast as it can, up to here; the next one waits until that is made up for. */
const maxPrinted = 4 * maxBytes;
/** Each piece of it counts as so much at least. It is charged as one of 4 KiB, so that what all tenants bear is limited, too. */
const fewestBytes = 256;

/** The beginning of what a command prints. Bytes that come one by one take no more memory than others. */
export class Output {
  #pieces: Buffer[] = [];
  #bytes = 0;
  #isDropped = false;

  /** What is beyond `maxBytes`, or comes after `drop`, is left out. */
  add(content: Buffer): void {
    let from = 0;
    while (from < content.length && this.#bytes < maxBytes && !this.#isDropped) {
      const at = this.#bytes % pieceBytes;
      if (at === 0) this.#pieces.push(Buffer.alloc(pieceBytes));
      const copied = content.copy(this.#pieces.at(-1) as Buffer, at, from);
      from += copied;
      this.#bytes += copied;
    }
  }

  /** Parts of memory that `heldBytes` counts already. */
  pieces(): Buffer[] {
    return this.#pieces.map((piece, index) => piece.subarray(0, this.#bytes - index * pieceBytes));
  }

  get heldBytes(): number {
    return this.#pieces.length * pieceBytes;
  }

  drop(): void {
    this.#isDropped = true;
    this.#pieces = [];
  }
}

/** The client went away, or this server ends: no answer can be sent. */
const gone = new Error('the connection is closed');

interface Run {
  /** Of the tenant. */
  readonly uid: string;
  readonly output: Output;
  /** Lets go of the output, and tells the client so where it has no answer yet. */
  readonly end: (why: Refusal) => void;
}

/**
 * A kubelet's `/run`: a command of few words in a container of the tenant, answered with what it printed. However many
 * tenants have commands, another one gets its own: where all print more than is held, the tenant that has most held loses
 * a command.
 */
export class CommandRuns {
  readonly #options: ConnectionOptions;
  readonly #bandwidth: StreamBandwidth;
  readonly #agent: Agent;
  readonly #limits: { bytes: number; printed: number };
  readonly #running = new Set<Run>();

  constructor(
    options: ConnectionOptions,
    bandwidth: StreamBandwidth,
    limits: { bytes?: number; printed?: number } = {},
  ) {
    this.#options = options;
    this.#bandwidth = bandwidth;
    this.#limits = { bytes: maxBytesOfAll, printed: maxPrinted, ...limits };
    this.#agent = new Agent({ allowH2: false, connect: tlsOptions(options) });
  }

  /** Throws Refusal before the first byte. */
  async run({ uid, tenant }: Client, pod: PodRequest, response: ServerResponse): Promise<void> {
    let own = 0;
    for (const each of this.#running) if (each.uid === uid) own += 1;
    if (own >= runsAtOnce)
      throw new Refusal(
        429,
        `as many commands of this cluster run by "/run" as may at once (${runsAtOnce}): wait, or use exec`,
      );
    const output = new Output();
    const ending = new AbortController();
    const end = (why: Error): void => {
      // The connection may be slow to close, and say more meanwhile.
      output.drop();
      ending.abort(why);
      if (response.headersSent) response.destroy();
    };
    const run: Run = { uid, output, end };
    this.#running.add(run);
    let printed = 0;
    const print = (content: Buffer): void => {
      this.#bandwidth.charge(uid, content.length);
      printed += Math.max(content.length, fewestBytes);
      if (printed <= this.#limits.printed) this.#hold(output, content);
      else end(new Refusal(500, printedTooMuch));
    };
    try {
      response.once('close', () => end(gone));
      if (response.destroyed) end(gone);
      await this.#bandwidth.take(uid, 0, ending.signal);
      await this.#run(tenant, pod, response, { output, print, signal: ending.signal });
    } finally {
      output.drop();
      this.#running.delete(run);
    }
  }

  async close(): Promise<void> {
    await this.#agent.destroy();
  }

  async #run(
    tenant: KubeletTenant,
    pod: PodRequest,
    response: ServerResponse,
    { output, print, signal }: { output: Output; print: (content: Buffer) => void; signal: AbortSignal },
  ): Promise<void> {
    const ref = findPod(tenant, pod);
    const within = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
    const status = await this.#status(subresourcePath(pod, ref), print, within);
    signal.throwIfAborted();
    if (status?.status === 'Failure') {
      const words = scrub(status.message ?? 'the command failed', tenant.context());
      const [printed] = output.pieces();
      throw new Refusal(500, printed === undefined ? words : `${words}\n${printed.toString('utf8')}`);
    }
    response.writeHead(200, { 'content-type': 'application/json' });
    for (const piece of output.pieces()) response.write(piece);
    response.end();
    await taken(response);
  }

  #hold(output: Output, content: Buffer): void {
    const before = output.heldBytes;
    output.add(content);
    if (output.heldBytes === before) return;
    while (this.#heldBytes() > this.#limits.bytes) this.#largest()?.end(new Refusal(500, heldTooMuch));
  }

  #heldBytes(): number {
    let bytes = 0;
    for (const { output } of this.#running) bytes += output.heldBytes;
    return bytes;
  }

  /** Of the tenant that has most held, the command that has most of it. */
  #largest(): Run | undefined {
    const ofTenant = new Map<string, number>();
    for (const { uid, output } of this.#running)
      ofTenant.set(uid, (ofTenant.get(uid) ?? 0) + output.heldBytes);
    const most = Math.max(...ofTenant.values());
    let largest: Run | undefined;
    for (const run of this.#running)
      if (ofTenant.get(run.uid) === most && run.output.heldBytes > (largest?.output.heldBytes ?? 0))
        largest = run;
    return largest;
  }

  /** How the command ended; undefined where nothing says so. */
  async #status(
    path: string,
    print: (content: Buffer) => void,
    signal: AbortSignal,
  ): Promise<Status | undefined> {
    const authorization = await authorizationOf(this.#options);
    signal.throwIfAborted();
    const url = new URL(this.#options.server);
    const socket = new WebSocket(`wss://${url.host}${url.pathname.replace(/\/+$/, '')}${path}`, {
      protocols: [protocol],
      dispatcher: this.#agent,
      headers: withoutUndefined({ authorization }),
    });
    socket.binaryType = 'arraybuffer';
    const { promise, resolve, reject } = Promise.withResolvers<Status | undefined>();
    let status: Status | undefined;
    const release = onAbort(signal, () => {
      reject(signal.reason);
      socket.close();
    });
    socket.addEventListener('message', ({ data }) => {
      const message = Buffer.from(data as ArrayBuffer);
      const [channel] = message;
      const content = message.subarray(1);
      if (channel === channels.status) status = parse(content);
      else if (channel === channels.stdout || channel === channels.stderr) print(content);
    });
    socket.addEventListener('error', ({ error }: { error?: unknown }) => reject(unreachable(error)));
    socket.addEventListener('close', () => resolve(status));
    try {
      return await promise;
    } finally {
      release();
    }
  }
}

/** Resolves when the client has taken the answer, is gone, or has taken too long. */
function taken(response: ServerResponse): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(() => {
    response.destroy();
    // One that is closed already does not say so again.
    resolve();
  }, readWithinMs);
  response.once('close', () => {
    clearTimeout(timer);
    resolve();
  });
  return promise;
}

function parse(content: Buffer): Status | undefined {
  try {
    return JSON.parse(content.toString('utf8')) as Status;
  } catch {
    return undefined;
  }
}

/**
 * Headers of an upgrade that belong to the protocol. Those that authenticate or impersonate a client, or say where it
 * comes from, stay behind.
 */
const handedOn = [
  'upgrade',
  'x-stream-protocol-version',
  'sec-websocket-key',
  'sec-websocket-version',
  'sec-websocket-protocol',
  'sec-websocket-extensions',
] as const;
const handedBack = [
  'upgrade',
  'x-stream-protocol-version',
  'sec-websocket-accept',
  'sec-websocket-protocol',
  'sec-websocket-extensions',
] as const;

const answerTimeoutMs = 60_000;

/** Logs, and the streams into containers, of a tenant's pods: from its API server to the super cluster's. */
export class PodStreams {
  readonly #calls: SuperCalls;
  readonly #bandwidth: StreamBandwidth;

  constructor(calls: SuperCalls, bandwidth: StreamBandwidth) {
    this.#calls = calls;
    this.#bandwidth = bandwidth;
  }

  /** Resolves when the last byte is written or the client is gone. Throws Refusal before the first byte. */
  async logs(response: ServerResponse, { uid, tenant }: Client, pod: PodRequest): Promise<void> {
    const ref = findPod(tenant, pod);
    const ending = new AbortController();
    response.once('close', () => ending.abort(gone));
    if (response.destroyed) ending.abort(gone);
    const answer = await this.#calls.open({
      method: 'GET',
      path: subresourcePath(pod, ref),
      headers: { accept: '*/*' },
      signal: ending.signal,
    });
    if (answer.upgraded || answer.response.statusCode !== 200) throw await refusal(answer, tenant, pod);
    const type = answer.response.headers['content-type'] ?? 'text/plain';
    response.writeHead(200, { 'content-type': type });
    // A client that follows a silent container gets its headers at once.
    response.flushHeaders();
    const bandwidth = this.#bandwidth;
    const inTurn = async function* (pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
      for await (const piece of pieces) {
        await bandwidth.take(uid, piece.length, ending.signal);
        yield piece;
      }
    };
    try {
      await pipeline(answer.response, inTurn, response);
    } catch {
      // One of the two is gone; pipeline has closed the other, in a way that tells it from an end.
    }
  }

  /** Resolves when both connections are closed. Throws Refusal before anything is written to `socket`. */
  async upgrade(
    request: IncomingMessage,
    socket: Socket,
    head: Buffer,
    { uid, tenant }: Client,
    pod: PodRequest,
  ): Promise<void> {
    const ref = findPod(tenant, pod);
    const ending = new AbortController();
    const end = (): void => ending.abort(gone);
    socket.once('close', end);
    if (socket.destroyed) end();
    const answer = await this.#calls.open({
      method: request.method ?? 'POST',
      path: subresourcePath(pod, ref),
      headers: { connection: 'Upgrade', ...headersOf(request, handedOn) },
      signal: ending.signal,
      answerTimeoutMs,
    });
    if (!answer.upgraded) throw await refusal(answer, tenant, pod);
    socket.write(switching(answer.response));
    if (answer.head.length > 0) socket.write(answer.head);
    if (head.length > 0) answer.socket.write(head);
    for (const side of [socket, answer.socket]) throttle(side, this.#bandwidth, uid);
    await splice(socket, answer.socket);
  }
}

/** Every line of a header on its own, as servers differ in what they make of joined ones. */
function headersOf(message: IncomingMessage, names: readonly string[]): Record<string, string[]> {
  const found: Record<string, string[]> = {};
  for (const name of names) {
    const values = message.headersDistinct[name];
    if (values !== undefined) found[name] = values;
  }
  return found;
}

function switching(response: IncomingMessage): string {
  const lines = Object.entries(headersOf(response, handedBack)).flatMap(([name, values]) =>
    values.map((value) => `${name}: ${value}\r\n`),
  );
  return `HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\n${lines.join('')}\r\n`;
}

async function refusal(answer: SuperResponse, tenant: KubeletTenant, pod: PodRequest): Promise<Refusal> {
  if (answer.upgraded) {
    answer.socket.destroy();
    return notAllowedThere(pod.verb);
  }
  const { statusCode = 0 } = answer.response;
  const text = await readText(answer.response);
  if (statusCode < 400) return unreachable(undefined);
  return superRefusal(statusCode, text, pod.verb, (words) => scrub(words, tenant.context()));
}
