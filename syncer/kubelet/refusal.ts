import type { IncomingMessage } from 'node:http';
import type { Status } from '../../kube/index.ts';

/**
 * Why a request of a tenant is not carried out. The message is for the person at kubectl: it says what can
 * be done and names nothing of the super cluster.
 */
export class Refusal extends Error {
  readonly status: number;

  constructor(status: number, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'Refusal';
    this.status = status;
  }
}

export function notReady(): Refusal {
  return new Refusal(503, 'the pods of this cluster are not known yet; try again in a moment');
}

export function podNotFound(name: string): Refusal {
  return new Refusal(404, `pod "${name}" does not exist on this node`);
}

export function nodeWide(path: string): Refusal {
  return new Refusal(
    403,
    `${path} is not available: the node is shared, and this would show more than your own pods; ` +
      'use /pods, /stats/summary, and logs, exec, attach, port-forward and top on pods',
  );
}

export function unknownPath(path: string): Refusal {
  return new Refusal(404, `${path} is not available on this node`);
}

export function wrongUpgrade(): Refusal {
  return new Refusal(400, 'a stream is an upgrade to websocket or SPDY/3.1');
}

export function wrongMethod(method: string, path: string): Refusal {
  return new Refusal(405, `${method} is not a method of ${path}`);
}

export function tooMany(what: string, most: number): Refusal {
  return new Refusal(400, `the request has more ${what} than are accepted: at most ${most}`);
}

export function unreachable(cause: unknown): Refusal {
  const code: unknown = cause instanceof Error && 'code' in cause ? cause.code : undefined;
  const why = typeof code === 'string' ? ` (${code})` : '';
  return new Refusal(500, `the cluster that runs this pod does not answer${why}; try again`, { cause });
}

export function notAllowedThere(what: string): Refusal {
  return new Refusal(
    500,
    `the cluster that runs this pod does not let Skerry carry out ${what}: ask its operator`,
  );
}

/** What an API server keeps of an answer that it did not expect is no longer than this either. */
const longestBytes = 50_000;
const causeOfUnexpected = 'UnexpectedServerResponse';
const internalPrefix = 'Internal error occurred: ';

/** Reads the beginning of an answer that is a refusal; never throws. */
export async function readText(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      chunks.push(chunk);
      length += chunk.length;
      if (length >= longestBytes) break;
    }
  } catch {
    // What has come is what there is to say.
  }
  response.destroy();
  return Buffer.concat(chunks).toString('utf8').slice(0, longestBytes);
}

/**
 * The super cluster's refusal in the words of the kubelet behind it: the API server wraps them in a Status,
 * and the tenant's own will do so again. `scrub` takes away the names of the super cluster.
 */
export function superRefusal(
  status: number,
  text: string,
  what: string,
  scrub: (text: string) => string,
): Refusal {
  // The super cluster refused the syncer, not the client.
  if (status === 401 || status === 403) return notAllowedThere(what);
  const message = scrub(wordsOf(text)).trim();
  return new Refusal(status, message === '' ? `${what} failed with status ${status}` : message);
}

function wordsOf(text: string): string {
  const status = parse(text);
  if (status === undefined) return text;
  const cause = status.details?.causes?.find(({ reason }) => reason === causeOfUnexpected)?.message;
  const message = cause ?? status.message ?? '';
  return message.startsWith(internalPrefix) ? message.slice(internalPrefix.length) : message;
}

function parse(text: string): Status | undefined {
  try {
    const parsed = JSON.parse(text) as Status;
    return parsed?.kind === 'Status' ? parsed : undefined;
  } catch {
    return undefined;
  }
}
