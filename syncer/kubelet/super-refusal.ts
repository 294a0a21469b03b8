import type { IncomingMessage } from 'node:http';
import type { Status } from '../../kube/index.ts';
import { notAllowedThere, Refusal } from './refusal.ts';

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
export function fromSuper(
  status: number,
  text: string,
  what: string,
  scrub: (text: string) => string,
): Refusal {
  // It is the syncer that is not let in there, whoever asked.
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
