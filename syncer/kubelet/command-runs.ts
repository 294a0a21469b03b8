import type { ServerResponse } from 'node:http';
import { Agent, WebSocket } from 'undici';
import type { ConnectionOptions, Status } from '../../kube/index.ts';
import { scrub } from '../mapping/scrub.ts';
import { findPod } from './find-pod.ts';
import type { Client } from './kubelet-tenants.ts';
import { Refusal, unreachable } from './refusal.ts';
import type { PodRequest } from './request-path.ts';
import { subresourcePath } from './subresource.ts';

const protocol = 'v4.channel.k8s.io';
const channels = { stdout: 1, stderr: 2, status: 3 };
/** As much as a runtime keeps of what a command prints when nobody reads along. */
const mostBytes = 16 << 20;
const timeoutMs = 120_000;

interface Outcome {
  readonly output: Buffer;
  readonly status: Status | undefined;
}

/** A kubelet's `/run`: a command of few words in a container of the tenant, answered with what it printed. */
export class CommandRuns {
  readonly #options: ConnectionOptions;
  readonly #agent: Agent;

  constructor(options: ConnectionOptions) {
    this.#options = options;
    const { ca, cert, key, tlsServerName, insecureSkipTlsVerify } = options;
    this.#agent = new Agent({
      allowH2: false,
      connect: {
        ...(ca === undefined ? {} : { ca }),
        ...(cert === undefined ? {} : { cert }),
        ...(key === undefined ? {} : { key }),
        ...(tlsServerName === undefined ? {} : { servername: tlsServerName }),
        ...(insecureSkipTlsVerify ? { rejectUnauthorized: false } : {}),
      },
    });
  }

  /** Throws Refusal before the first byte. */
  async run({ tenant }: Client, pod: PodRequest, response: ServerResponse): Promise<void> {
    const ref = findPod(tenant, pod);
    const ending = new AbortController();
    response.once('close', () => ending.abort(new Error('the client is gone')));
    const expired = AbortSignal.timeout(timeoutMs);
    const { output, status } = await this.#outcome(
      subresourcePath(pod, ref),
      AbortSignal.any([ending.signal, expired]),
    );
    if (status?.status === 'Failure') {
      const words = scrub(status.message ?? 'the command failed', tenant.context());
      throw new Refusal(500, output.length === 0 ? words : `${words}\n${output.toString('utf8')}`);
    }
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(output);
  }

  async close(): Promise<void> {
    await this.#agent.destroy();
  }

  async #outcome(path: string, signal: AbortSignal): Promise<Outcome> {
    const { token, authorization, server } = this.#options;
    const given = (await authorization?.()) ?? (token === undefined ? undefined : `Bearer ${token}`);
    signal.throwIfAborted();
    const url = new URL(server);
    const socket = new WebSocket(`wss://${url.host}${url.pathname.replace(/\/+$/, '')}${path}`, {
      protocols: [protocol],
      dispatcher: this.#agent,
      headers: given === undefined ? {} : { authorization: given },
    });
    socket.binaryType = 'arraybuffer';
    const { promise, resolve, reject } = Promise.withResolvers<Outcome>();
    const printed: Buffer[] = [];
    let length = 0;
    let status: Status | undefined;
    const end = (): void => {
      reject(signal.reason);
      socket.close();
    };
    signal.addEventListener('abort', end, { once: true });
    socket.addEventListener('message', ({ data }) => {
      const message = Buffer.from(data as ArrayBuffer);
      const [channel] = message;
      const content = message.subarray(1);
      if (channel === channels.status) status = parse(content);
      else if (channel === channels.stdout || channel === channels.stderr) {
        if (length < mostBytes) printed.push(content.subarray(0, mostBytes - length));
        length += content.length;
      }
    });
    socket.addEventListener('error', ({ error }: { error?: unknown }) => reject(unreachable(error)));
    socket.addEventListener('close', () => resolve({ output: Buffer.concat(printed), status }));
    try {
      return await promise;
    } finally {
      signal.removeEventListener('abort', end);
    }
  }
}

function parse(content: Buffer): Status | undefined {
  try {
    return JSON.parse(content.toString('utf8')) as Status;
  } catch {
    return undefined;
  }
}
