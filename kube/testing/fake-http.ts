import type { IncomingMessage } from 'node:http';
import type { Response } from './fake-watch.ts';
import type { Fault } from './faults.ts';
import { Refusal, refusals } from './refusal.ts';

/** Carries out the faults that replace the answer. */
export function refuse(fault: Fault | undefined, response: Response, cut: () => void): boolean {
  if (fault?.kind === 'hang') return true;
  if (fault?.kind === 'reset') {
    cut();
    return true;
  }
  if (fault?.kind !== 'status') return false;
  const { code, reason = '', message = `injected ${code}`, retryAfterSeconds, causes, text } = fault;
  if (retryAfterSeconds !== undefined) response.setHeader('retry-after', String(retryAfterSeconds));
  if (text !== undefined) send(response, code, text, 'text/plain');
  else
    send(response, code, JSON.stringify(new Refusal(code, reason, message, causes ? { causes } : {}).status));
  return true;
}

export function send(response: Response, code: number, text: string, type = 'application/json'): void {
  response.writeHead(code, { 'content-type': type });
  response.end(text);
}

/** Throws a Refusal when the body is not JSON. */
export async function readBody(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const text = Buffer.concat(chunks).toString();
  if (text === '') return undefined;
  try {
    return JSON.parse(text);
  } catch {
    throw refusals.badRequest('the body is not JSON');
  }
}
