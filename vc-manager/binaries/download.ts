import { createWriteStream } from 'node:fs';
import { rm, stat } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import type { Clock } from '../../kube/index.ts';
import { BinaryError } from './errors.ts';
import type { ReleaseSession } from './release-http.ts';

export interface DownloadOptions {
  session: ReleaseSession;
  url: string;
  /** Grows in place. What a broken transfer left here is continued by the next call. */
  file: string;
  clock: Clock;
  signal: AbortSignal;
  onBytes?: (received: number, total: number | undefined) => void;
}

/** Answers that another try may turn into the file. */
const passingStatus: ReadonlySet<number> = new Set([429, 500, 502, 503, 504]);
const attemptsWithoutProgress = 3;

/**
 * Fetches an address into a file, asking only for what is still missing. A transfer that breaks off is taken up
 * again as long as it makes progress. Says nothing about the content: the caller compares its hash.
 * @returns whether the file was put together from more than one answer
 * @throws BinaryError HttpStatus, Interrupted, Unreachable
 */
export async function download(options: DownloadOptions): Promise<{ resumed: boolean }> {
  const { file, clock, signal } = options;
  let idle = 0;
  for (;;) {
    const before = await sizeOf(file);
    try {
      const start = await transfer(options, before);
      if (start !== undefined) return { resumed: start > 0 };
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      if (error instanceof BinaryError && !error.retryable) throw error;
      if (error instanceof BinaryError && error.code === 'Unreachable') throw error;
      if (isLocal(error)) throw error;
      idle = (await sizeOf(file)) > before ? 0 : idle + 1;
      if (idle >= attemptsWithoutProgress) {
        if (error instanceof BinaryError) throw error;
        throw new BinaryError('Interrupted', `the transfer broke off: ${(error as Error).message}`, {
          cause: error,
        });
      }
      await clock.sleep(500 * (idle + 1), signal);
    }
  }
}

/**
 * One answer's worth.
 * @returns how much of the file was there before; undefined when that did not fit the server's file and is gone
 */
async function transfer(
  { session, url, file, signal, onBytes }: DownloadOptions,
  offset: number,
): Promise<number | undefined> {
  const response = await session.get(url, offset > 0 ? { range: `bytes=${offset}-` } : {}, signal);
  const { statusCode, headers, body } = response;
  const range = /^bytes (?:(\d+)-\d+|\*)\/(\d+|\*)$/.exec(String(headers['content-range'] ?? ''));
  const fits = statusCode === 206 && range !== null && Number(range[1]) === offset;
  if (statusCode === 200 || fits) {
    const start = fits ? offset : 0;
    const length = Number(headers['content-length'] ?? Number.NaN);
    const total = Number.isNaN(length) ? undefined : start + length;
    let received = start;
    await pipeline(
      body,
      async function* count(chunks: AsyncIterable<Buffer>) {
        for await (const chunk of chunks) {
          received += chunk.length;
          onBytes?.(received, total);
          yield chunk;
        }
      },
      createWriteStream(file, { flags: fits ? 'a' : 'w' }),
      { signal },
    );
    return start;
  }
  await body.dump();
  if (statusCode === 206 || statusCode === 416) {
    if (range !== null && Number(range[2]) === offset) return offset;
    await rm(file, { force: true });
    if (offset > 0) return undefined;
  }
  const error = `the server answered ${statusCode}`;
  throw new BinaryError(passingStatus.has(statusCode) ? 'Interrupted' : 'HttpStatus', error);
}

/** A full disk or a lost directory: no server will mend it. */
function isLocal(error: unknown): boolean {
  const { syscall } = error as NodeJS.ErrnoException;
  return syscall === 'open' || syscall === 'write' || syscall === 'close';
}

async function sizeOf(file: string): Promise<number> {
  return (await stat(file).catch(() => undefined))?.size ?? 0;
}
