import * as client from 'openid-client';
import { isLoopback } from '../program/addresses.ts';
import type { PendingSignIn } from './sessions.ts';

export interface OidcSettings {
  readonly issuer: string;
  readonly clientId: string;
  /** Absent: a public client, which PKCE alone protects. */
  readonly clientSecret?: string;
  /** Claims of the ID token. */
  readonly usernameClaim: string;
  readonly groupsClaim: string;
  /** Put before each group, for RBAC. */
  readonly groupsPrefix: string;
  /** Without the prefix: only these count, and who is in none of them is not let in. */
  readonly groups: readonly string[];
  readonly scopes: readonly string[];
}

/** The provider has refused the sign-in, or the user is in none of the groups that may sign in. */
export class OidcRefusal extends Error {
  override readonly name = 'OidcRefusal';
}

/** Whether the provider has sent the browser back without a code, as when the user has cancelled. It was asked for nothing then. */
export function isCancelled(error: unknown): boolean {
  return error instanceof client.AuthorizationResponseError;
}

/** A provider that could not be asked is not asked again for so long. */
const failedMs = 5_000;

/** Authorization code flow with PKCE. */
export class Oidc {
  readonly #settings: OidcSettings;
  readonly #redirect: string;
  #configuration: Promise<client.Configuration> | undefined;

  /** `url`: where people reach the dashboard. */
  constructor(settings: OidcSettings, url: string) {
    this.#settings = settings;
    this.#redirect = new URL('/sign-in/oidc/callback', url).href;
  }

  async begin(): Promise<{ url: URL; pending: PendingSignIn }> {
    const verifier = client.randomPKCECodeVerifier();
    const pending = { state: client.randomState(), nonce: client.randomNonce(), verifier };
    const url = client.buildAuthorizationUrl(await this.#discovered(), {
      redirect_uri: this.#redirect,
      scope: this.#settings.scopes.join(' '),
      code_challenge: await client.calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
      state: pending.state,
      nonce: pending.nonce,
    });
    return { url, pending };
  }

  /** `query`: as the provider sent the browser back. Throws OidcRefusal, or what the library says of a wrong answer. */
  async finish(
    query: string,
    { state, nonce, verifier }: PendingSignIn,
  ): Promise<{ user: string; groups: string[] }> {
    const url = new URL(this.#redirect);
    url.search = query;
    const tokens = await client.authorizationCodeGrant(await this.#discovered(), url, {
      expectedState: state,
      expectedNonce: nonce,
      pkceCodeVerifier: verifier,
      idTokenExpected: true,
    });
    return userFromClaims(tokens.claims() ?? {}, this.#settings);
  }

  #discovered(): Promise<client.Configuration> {
    if (this.#configuration === undefined) {
      const { issuer, clientId, clientSecret } = this.#settings;
      const url = new URL(issuer);
      // Without TLS only on this machine, for tests.
      const execute =
        url.protocol === 'http:' && isLoopback(url.hostname) ? [client.allowInsecureRequests] : [];
      const authentication =
        clientSecret === undefined ? client.None() : client.ClientSecretPost(clientSecret);
      this.#configuration = client.discovery(url, clientId, undefined, authentication, { execute });
      // Kept for a while: whoever comes may begin to sign in, and each would have the provider asked again.
      this.#configuration.catch(() => {
        setTimeout(() => {
          this.#configuration = undefined;
        }, failedMs).unref();
      });
    }
    return this.#configuration;
  }
}

/** Throws OidcRefusal for a user without a name or without a group that counts. */
export function userFromClaims(
  claims: Readonly<Record<string, unknown>>,
  { usernameClaim, groupsClaim, groupsPrefix, groups: allowed }: OidcSettings,
): { user: string; groups: string[] } {
  const user = claims[usernameClaim];
  if (typeof user !== 'string' || !/^[\x21-\x7e]{1,200}$/.test(user))
    throw new OidcRefusal(`the ID token has no claim "${usernameClaim}" with a name`);
  if (usernameClaim === 'email' && claims['email_verified'] === false)
    throw new OidcRefusal('the provider has not verified this e-mail address');
  const claimed: unknown = claims[groupsClaim];
  const own = Array.isArray(claimed) ? claimed.filter((each) => typeof each === 'string') : [];
  const groups = allowed.filter((group) => own.includes(group)).map((group) => `${groupsPrefix}${group}`);
  if (groups.length === 0) throw new OidcRefusal(`${user} is in no group that may use this dashboard`);
  return { user, groups };
}
