import { readFile } from 'node:fs/promises';
import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { join } from 'node:path';
import type { PlanProbe } from '../control-plane/index.ts';

const attemptTimeoutMs = 5000;

/**
 * Asks once. Resolves to undefined when the answer was a success, else to why not, in a few words.
 * Never rejects, except when aborted.
 */
export async function probeOnce(
  probe: PlanProbe,
  filesDirectory: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  try {
    const read = (name: string | undefined) =>
      name === undefined ? undefined : readFile(join(filesDirectory, name), 'utf8');
    const [ca, cert, key] = await Promise.all([
      read(probe.caFile),
      read(probe.certFile),
      read(probe.keyFile),
    ]);
    const status = await get(probe, { ca, cert, key }, signal);
    return status >= 200 && status < 300 ? undefined : `${probe.path} answered ${status}`;
  } catch (error) {
    signal.throwIfAborted();
    const { code, message } = error as NodeJS.ErrnoException;
    return code === 'ECONNREFUSED' ? 'it does not listen yet' : message || (code ?? 'no answer');
  }
}

function get(
  probe: PlanProbe,
  tls: { ca: string | undefined; cert: string | undefined; key: string | undefined },
  signal: AbortSignal,
): Promise<number> {
  return new Promise((resolve, reject) => {
    const target = {
      host: probe.host,
      port: probe.port,
      path: probe.path,
      signal,
      timeout: attemptTimeoutMs,
    };
    const request =
      probe.scheme === 'https'
        ? httpsRequest({ ...target, ...tls, agent: false })
        : httpRequest({ ...target, agent: false });
    request.on('timeout', () => request.destroy(new Error(`no answer within ${attemptTimeoutMs / 1000} s`)));
    request.on('error', reject);
    request.on('response', (response) => {
      response.resume();
      response.on('error', reject);
      response.on('end', () => resolve(response.statusCode ?? 0));
    });
    request.end();
  });
}
