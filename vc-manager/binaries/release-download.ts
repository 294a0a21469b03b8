import { createWriteStream } from 'node:fs';
import { rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { execa } from 'execa';
import { type Dispatcher, EnvHttpProxyAgent, interceptors } from 'undici';
import type { Clock } from '../../kube/index.ts';
import { megabytes, parseVersion, type Report } from './binary.ts';
import { BinaryError } from './errors.ts';
import { checksumFor, type ReleaseFile, releaseDigestFor, sha256OfFile } from './release.ts';

interface ReleaseHttpOptions {
  /** Read for HTTPS_PROXY, HTTP_PROXY and NO_PROXY, in either case. */
  env: Readonly<Record<string, string | undefined>>;
  connectTimeoutMs?: number;
  /** How long a server may be silent, before its answer and in the middle of it. */
  idleTimeoutMs?: number;
}

interface ReleaseSession {
  /**
   * One GET, redirects followed. The caller reads or destroys the body.
   * @throws BinaryError Unreachable when no answer begins
   */
  get(url: string, headers: Record<string, string>, signal: AbortSignal): Promise<Dispatcher.ResponseData>;
}

/**
 * Talks to release servers. A server that gave no answer is not asked again by the same object: on a machine
 * without network six binaries would otherwise each wait for the same silence.
 */
export class ReleaseHttp {
  readonly #env: ReleaseHttpOptions['env'];
  readonly #connectTimeoutMs: number;
  readonly #idleTimeoutMs: number;
  /** Origin → why it could not be reached. */
  readonly #unreachable = new Map<string, string>();

  constructor({ env, connectTimeoutMs = 5_000, idleTimeoutMs = 30_000 }: ReleaseHttpOptions) {
    this.#env = env;
    this.#connectTimeoutMs = connectTimeoutMs;
    this.#idleTimeoutMs = idleTimeoutMs;
  }

  /** Connections live as long as `work` and are gone when it ends. */
  async session<T>(work: (session: ReleaseSession) => Promise<T>): Promise<T> {
    const agent = this.#agent();
    const dispatcher = agent.compose(interceptors.redirect({ maxRedirections: 5 }));
    try {
      return await work({ get: (url, headers, signal) => this.#get(dispatcher, url, headers, signal) });
    } finally {
      await agent.destroy();
    }
  }

  #agent(): EnvHttpProxyAgent {
    const setting = (name: string) => this.#env[name.toLowerCase()] ?? this.#env[name] ?? '';
    try {
      return new EnvHttpProxyAgent({
        httpProxy: setting('HTTP_PROXY'),
        httpsProxy: setting('HTTPS_PROXY'),
        noProxy: setting('NO_PROXY'),
        connect: { timeout: this.#connectTimeoutMs },
        headersTimeout: this.#idleTimeoutMs,
        bodyTimeout: this.#idleTimeoutMs,
      });
    } catch (error) {
      throw new BinaryError('Unreachable', `the proxy settings are not usable: ${(error as Error).message}`, {
        cause: error,
      });
    }
  }

  async #get(
    dispatcher: Dispatcher,
    url: string,
    headers: Record<string, string>,
    signal: AbortSignal,
  ): Promise<Dispatcher.ResponseData> {
    const { origin, pathname, search } = parsedUrl(url);
    const known = this.#unreachable.get(origin);
    if (known !== undefined) throw new BinaryError('Unreachable', known);
    try {
      return await dispatcher.request({
        origin,
        path: pathname + search,
        method: 'GET',
        headers: { 'user-agent': 'skerry', ...headers },
        signal,
      });
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      const reason = this.#reason(error);
      this.#unreachable.set(origin, reason);
      throw new BinaryError('Unreachable', reason, { cause: error });
    }
  }

  #reason(error: unknown): string {
    const { code, message } = error as NodeJS.ErrnoException;
    switch (code ?? '') {
      case 'UND_ERR_CONNECT_TIMEOUT':
        return `no connection within ${this.#connectTimeoutMs / 1000} s`;
      case 'UND_ERR_HEADERS_TIMEOUT':
        return `connected, but no answer within ${this.#idleTimeoutMs / 1000} s`;
      case 'ENOTFOUND':
      case 'EAI_AGAIN':
        return 'its name does not resolve';
      case 'ECONNREFUSED':
        return 'connection refused';
      default:
        return message === '' ? String(code ?? error) : message;
    }
  }
}

function parsedUrl(url: string): URL {
  const parsed = URL.parse(url);
  if (parsed === null || (parsed.protocol !== 'https:' && parsed.protocol !== 'http:')) {
    throw new BinaryError(
      'Unreachable',
      `${url} is no web address; SKERRY_DOWNLOAD_BASE must look like https://mirror.example.com/path`,
    );
  }
  return parsed;
}

interface DownloadOptions {
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
async function download(options: DownloadOptions): Promise<{ resumed: boolean }> {
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

/** The newest patch of a minor version, as `stable-1.36.txt` names it; undefined when the server does not say. */
export async function newestPatch(
  http: ReleaseHttp,
  url: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  try {
    return await http.session(async (session) => {
      const { statusCode, body } = await session.get(url, {}, signal);
      if (statusCode === 200) return parseVersion(await body.text())?.text;
      await body.dump();
      return undefined;
    });
  } catch {
    signal.throwIfAborted();
    return undefined;
  }
}

interface ReleaseDownloadOptions {
  http: ReleaseHttp;
  release: ReleaseFile;
  /** Where the unfinished download is kept between runs. */
  partial: string;
  /** Where the program is put once its hash is right. Must not exist; same file system as `partial`. */
  target: string;
  env: Readonly<Record<string, string | undefined>>;
  clock: Clock;
  report: Report;
  signal: AbortSignal;
}

/** Release descriptions on GitHub run to a few hundred kilobytes. */
const checksumSizeLimitBytes = 8_000_000;

/**
 * Puts the officially published program at `target`, after its SHA-256 was found to be the published one.
 * @throws BinaryError NotPublished, Unreachable, HttpStatus, Interrupted, ChecksumMismatch, ArchiveUnreadable
 */
export async function downloadRelease(options: ReleaseDownloadOptions): Promise<void> {
  await options.http.session(async (session) => {
    // The hash first: it is small, and without it the file would be of no use.
    const expected = await publishedChecksum(session, options);
    await downloadVerified(session, options, expected);
  });
  if (options.release.member === undefined) await rename(options.partial, options.target);
  else await unpack(options, options.release.member);
}

async function publishedChecksum(session: ReleaseSession, options: ReleaseDownloadOptions): Promise<string> {
  const { release, signal, report } = options;
  report('downloading', `asking for the SHA-256 of ${release.file}`);
  const { statusCode, body } = await session.get(release.checksum.url, {}, signal);
  if (statusCode !== 200) {
    await body.dump();
    throw new BinaryError(
      'HttpStatus',
      `the server answered ${statusCode} when asked for the checksum (${release.checksum.url})`,
    );
  }
  let text = '';
  try {
    for await (const chunk of body.setEncoding('utf8') as AsyncIterable<string>) {
      text += chunk;
      if (text.length > checksumSizeLimitBytes) break;
    }
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    throw new BinaryError('Interrupted', `the checksum did not arrive: ${(error as Error).message}`, {
      cause: error,
    });
  }
  const read = release.checksum.format === 'sums' ? checksumFor : releaseDigestFor;
  const expected = read(text, release.file);
  if (expected === undefined) {
    throw new BinaryError('NotPublished', `${release.checksum.url} names no SHA-256 for ${release.file}`);
  }
  return expected;
}

async function downloadVerified(
  session: ReleaseSession,
  { release, partial, clock, report, signal }: ReleaseDownloadOptions,
  expected: string,
): Promise<void> {
  for (let round = 1; ; round += 1) {
    let reportedPercent = -1;
    const { resumed } = await download({
      session,
      url: release.url,
      file: partial,
      clock,
      signal,
      onBytes: (received, total) => {
        const percent = total === undefined ? undefined : Math.floor((100 * received) / total);
        const mark = percent ?? Math.floor(received / 1_000_000);
        if (mark === reportedPercent) return;
        reportedPercent = mark;
        report(
          'downloading',
          `${megabytes(received)} of ${total === undefined ? '?' : megabytes(total)} MB`,
          percent,
        );
      },
    });
    report('verifying', 'comparing the SHA-256');
    const actual = await sha256OfFile(partial, signal);
    if (actual === expected) return;
    await rm(partial, { force: true });
    // Pieces from different runs may not belong together; one whole answer that is wrong will stay wrong.
    if (resumed && round === 1) {
      report('note', 'the resumed download did not have the published SHA-256; starting it over');
      continue;
    }
    throw new BinaryError(
      'ChecksumMismatch',
      `what arrived has the SHA-256 ${actual}, published is ${expected}; it was deleted (is a proxy or mirror altering downloads?)`,
    );
  }
}

/** `tar` of macOS reads zip too, so one command serves both kinds of archive. */
async function unpack(
  { partial, target, env, signal }: ReleaseDownloadOptions,
  member: string,
): Promise<void> {
  const result = await execa('tar', ['-xf', partial, '-C', dirname(target), '--strip-components=1', member], {
    env: { ...env },
    extendEnv: false,
    cancelSignal: signal,
    reject: false,
    stdin: 'ignore',
  });
  if (signal.aborted) throw signal.reason;
  if (result.failed) {
    const said = result.exitCode === undefined ? result.originalMessage : result.stderr;
    throw new BinaryError('ArchiveUnreadable', `tar could not unpack ${member} from ${partial}: ${said}`);
  }
  const unpacked = join(dirname(target), member.split('/').at(-1) ?? member);
  if (unpacked !== target) await rename(unpacked, target);
  await rm(partial, { force: true });
}
