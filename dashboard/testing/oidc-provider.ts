import { createHash, generateKeyPairSync, sign } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import type { OidcSettings } from '../oidc.ts';

export const email = 'ann@example.com';

export const oidcSettings: OidcSettings = {
  issuer: 'https://login.example.com',
  clientId: 'skerry',
  clientSecret: 'client-secret',
  usernameClaim: 'email',
  groupsClaim: 'groups',
  groupsPrefix: 'oidc:',
  groups: ['operators', 'viewers'],
  scopes: ['openid'],
};

/** A provider that takes everybody for Ann, and checks what a provider checks. */
export class OidcProvider {
  readonly #groups: readonly string[];
  readonly #keys = generateKeyPairSync('rsa', { modulusLength: 2048 });
  /** By code: what the browser asked with. */
  readonly #asked = new Map<string, URLSearchParams>();
  readonly #server: Server;

  private constructor(groups: readonly string[]) {
    this.#groups = groups;
    this.#server = createServer((request, response) => void this.#answer(request, response));
  }

  /** `groups`: of Ann. */
  static async start(groups: readonly string[]): Promise<OidcProvider> {
    const provider = new OidcProvider(groups);
    await new Promise<void>((resolve) => provider.#server.listen(0, '127.0.0.1', resolve));
    return provider;
  }

  get settings(): OidcSettings {
    return { ...oidcSettings, issuer: `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}` };
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { issuer } = this.settings;
    const url = new URL(request.url ?? '', issuer);
    const send = (status: number, body: object): void => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    };
    switch (url.pathname) {
      case '/.well-known/openid-configuration':
        return send(200, {
          issuer,
          authorization_endpoint: `${issuer}/authorize`,
          token_endpoint: `${issuer}/token`,
          jwks_uri: `${issuer}/keys`,
          response_types_supported: ['code'],
          subject_types_supported: ['public'],
          id_token_signing_alg_values_supported: ['RS256'],
        });
      case '/authorize': {
        this.#asked.set('code-1', url.searchParams);
        const back = new URL(url.searchParams.get('redirect_uri') ?? '');
        const state = url.searchParams.get('state') ?? '';
        back.search = String(new URLSearchParams({ code: 'code-1', state }));
        response.writeHead(303, { location: back.href }).end();
        return;
      }
      case '/token': {
        const idToken = this.#redeem(new URLSearchParams(await text(request)));
        if (idToken === undefined) return send(400, { error: 'invalid_grant' });
        return send(200, { access_token: 'x', token_type: 'Bearer', id_token: idToken });
      }
    }
    const key = this.#keys.publicKey.export({ format: 'jwk' });
    send(200, { keys: [{ ...key, kid: '1', alg: 'RS256', use: 'sig' }] });
  }

  /** A code serves once, and whoever began. */
  #redeem(form: URLSearchParams): string | undefined {
    const first = this.#asked.get(form.get('code') ?? '');
    this.#asked.delete(form.get('code') ?? '');
    const verifier = form.get('code_verifier') ?? '';
    const challenge = createHash('sha256').update(verifier).digest('base64url');
    if (first?.get('code_challenge') !== challenge || form.get('client_secret') !== 'client-secret')
      return undefined;
    const now = Math.floor(Date.now() / 1_000);
    const claims = {
      ...{ iss: this.settings.issuer, aud: 'skerry', sub: '1', iat: now, exp: now + 60 },
      ...{ email, groups: this.#groups, nonce: first.get('nonce') },
    };
    const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
    const signed = `${part({ alg: 'RS256', kid: '1' })}.${part(claims)}`;
    return `${signed}.${sign('sha256', Buffer.from(signed), this.#keys.privateKey).toString('base64url')}`;
  }
}
