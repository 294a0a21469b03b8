import { EtcdError } from './errors.ts';
import type { EtcdGateway } from './gateway.ts';

const rootUser = 'root';

/** How often a call is repeated that lost against a change of users or roles; each loss means that another change won. */
const attempts = 8;

/**
 * Calls as the user `root`. The gateway does not look at the client certificate's name, so a token stands for the user;
 * etcd forgets tokens when it restarts or when they are not used for five minutes, and a new one is fetched then.
 */
export class EtcdSession {
  readonly #gateway: EtcdGateway;
  readonly #password: string;
  /** The token or the one request for it that is under way; undefined when the next call has to ask. */
  #token: Promise<string> | undefined;

  constructor(gateway: EtcdGateway, password: string) {
    this.#gateway = gateway;
    this.#password = password;
  }

  /** Throws EtcdError; `auth-disabled` when etcd would let anybody do anything. */
  async call(path: string, body: object, signal?: AbortSignal): Promise<unknown> {
    for (let attempt = 1; ; attempt++) {
      signal?.throwIfAborted();
      const request = this.#currentToken();
      const token = await request;
      try {
        return await this.#gateway.post(path, body, { token, signal });
      } catch (error) {
        if (!(error instanceof EtcdError) || attempt >= attempts) throw error;
        if (error.code === 'token-refused' || error.code === 'timeout') this.#forget(request);
        if (error.code !== 'token-refused' && error.code !== 'auth-store-moved') throw error;
      }
    }
  }

  /**
   * Has the next call ask for a token. A token names the state of the data at which it was given, and etcd waits for that
   * state before it answers: a datastore that lost its data would wait for ever, which is also why a timeout ends a token.
   */
  signOut(): void {
    this.#token = undefined;
  }

  #currentToken(): Promise<string> {
    if (this.#token === undefined) {
      const request = this.#authenticate();
      this.#token = request;
      request.catch(() => this.#forget(request));
    }
    return this.#token;
  }

  /** Only the token that was refused: another call may have fetched a new one meanwhile. */
  #forget(request: Promise<string>): void {
    if (this.#token === request) this.#token = undefined;
  }

  async #authenticate(): Promise<string> {
    for (let attempt = 1; ; attempt++) {
      try {
        const body = { name: rootUser, password: this.#password };
        const answer = (await this.#gateway.post('/v3/auth/authenticate', body)) as { token?: string };
        return answer.token ?? '';
      } catch (error) {
        if (!(error instanceof EtcdError && error.code === 'auth-store-moved') || attempt >= attempts)
          throw error;
      }
    }
  }
}
