import { type Dispatcher, EnvHttpProxyAgent, interceptors } from 'undici';
import { BinaryError } from './errors.ts';

export interface ReleaseHttpOptions {
  /** Read for HTTPS_PROXY, HTTP_PROXY and NO_PROXY, in either case. */
  env: Readonly<Record<string, string | undefined>>;
  connectTimeoutMs?: number;
  /** How long a server may be silent, before its answer and in the middle of it. */
  idleTimeoutMs?: number;
}

export interface ReleaseSession {
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
