import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { pipeline } from 'node:stream/promises';
import { scrub } from '../mapping/scrub.ts';
import { findPod, type KubeletTenant } from './find-pod.ts';
import { notAllowedThere, type Refusal, unreachable } from './refusal.ts';
import type { PodRequest } from './request-path.ts';
import { splice } from './splice.ts';
import { subresourcePath } from './subresource.ts';
import type { SuperAnswer, SuperCalls } from './super-calls.ts';
import { fromSuper, readText } from './super-refusal.ts';

/**
 * What of an upgrade belongs to the two that talk. All else stays behind: who the client is, whom it would
 * like to be taken for, where it comes from.
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
/** The client went away, or this server ends: nobody is there to be told. */
const gone = new Error('the connection is closed');

/** Logs, and the streams into containers, of a tenant's pods: from its API server to the super cluster's. */
export class PodStreams {
  readonly #calls: SuperCalls;

  constructor(calls: SuperCalls) {
    this.#calls = calls;
  }

  /** Resolves when the last byte is written or the client is gone. Throws Refusal before the first byte. */
  async logs(response: ServerResponse, tenant: KubeletTenant, pod: PodRequest): Promise<void> {
    const ref = findPod(tenant, pod);
    const ending = new AbortController();
    response.once('close', () => ending.abort(gone));
    const answer = await this.#calls.open({
      method: 'GET',
      path: subresourcePath(pod, ref),
      headers: { accept: '*/*' },
      signal: ending.signal,
    });
    if (answer.upgraded || answer.response.statusCode !== 200) throw await refusal(answer, tenant, pod);
    const type = answer.response.headers['content-type'] ?? 'text/plain';
    response.writeHead(200, { 'content-type': type });
    // Whoever follows a silent container should know that it is followed.
    response.flushHeaders();
    try {
      await pipeline(answer.response, response);
    } catch {
      // One of the two is gone; pipeline has closed the other, in a way that tells it from an end.
    }
  }

  /** Resolves when both connections are closed. Throws Refusal before anything is written to `socket`. */
  async upgrade(
    request: IncomingMessage,
    socket: Socket,
    head: Buffer,
    tenant: KubeletTenant,
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

async function refusal(answer: SuperAnswer, tenant: KubeletTenant, pod: PodRequest): Promise<Refusal> {
  if (answer.upgraded) {
    answer.socket.destroy();
    return notAllowedThere(pod.verb);
  }
  const { statusCode = 0 } = answer.response;
  const text = await readText(answer.response);
  if (statusCode < 400) return unreachable(undefined);
  return fromSuper(statusCode, text, pod.verb, (words) => scrub(words, tenant.context()));
}
