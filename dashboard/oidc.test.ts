import { createHash, generateKeyPairSync, sign } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { OidcRefusal, type OidcSettings, whoIs } from './oidc.ts';
import { type DashboardWorld, dashboardWorld } from './testing/dashboard-world.ts';

const settings: OidcSettings = {
  issuer: 'https://login.example.com',
  clientId: 'skerry',
  clientSecret: 'client-secret',
  usernameClaim: 'email',
  groupsClaim: 'groups',
  groupsPrefix: 'oidc:',
  groups: ['operators', 'viewers'],
  scopes: ['openid'],
};
const email = 'ann@example.com';

describe('somebody of an OIDC provider', () => {
  it('is who the claims say, in the groups that count and no others', () => {
    const claims = { email, groups: ['everybody', 'operators', 'system:masters', 7] };
    expect(whoIs(claims, settings)).toEqual({ user: email, groups: ['oidc:operators'] });
  });

  it.each([
    [{ groups: ['operators'] }],
    [{ email, groups: ['everybody'] }],
    [{ email, groups: 'operators' }],
    [{ email }],
    [{ email, email_verified: false, groups: ['operators'] }],
    [{ email: 'a\r\nimpersonate-group: system:masters', groups: ['operators'] }],
  ])('is not let in with %j', (claims) => expect(() => whoIs(claims, settings)).toThrow(OidcRefusal));
});

describe('signing in by OIDC', () => {
  const cleanups: (() => unknown)[] = [];
  afterEach(async () => {
    for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
  });

  /** A provider that takes everybody for Ann, and checks what a provider checks. */
  async function provider(groups: string[]): Promise<{ issuer: string }> {
    const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    const asked = new Map<string, URLSearchParams>();
    let issuer = '';
    const server: Server = createServer((request, response) => {
      const url = new URL(request.url ?? '', issuer);
      const send = (status: number, body: object): void => {
        response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
      };
      if (url.pathname === '/.well-known/openid-configuration') {
        send(200, {
          issuer,
          authorization_endpoint: `${issuer}/authorize`,
          token_endpoint: `${issuer}/token`,
          jwks_uri: `${issuer}/keys`,
          response_types_supported: ['code'],
          subject_types_supported: ['public'],
          id_token_signing_alg_values_supported: ['RS256'],
        });
      } else if (url.pathname === '/authorize') {
        asked.set('code-1', url.searchParams);
        const back = new URL(url.searchParams.get('redirect_uri') ?? '');
        back.search = String(
          new URLSearchParams({ code: 'code-1', state: url.searchParams.get('state') ?? '' }),
        );
        response.writeHead(303, { location: back.href }).end();
      } else if (url.pathname === '/token') {
        let text = '';
        request.on('data', (chunk) => {
          text += chunk;
        });
        request.on('end', () => {
          const form = new URLSearchParams(text);
          const first = asked.get(form.get('code') ?? '');
          asked.delete(form.get('code') ?? '');
          const challenge = createHash('sha256')
            .update(form.get('code_verifier') ?? '')
            .digest('base64url');
          if (first?.get('code_challenge') !== challenge || form.get('client_secret') !== 'client-secret')
            return send(400, { error: 'invalid_grant' });
          const now = Math.floor(Date.now() / 1_000);
          const claims = { iss: issuer, aud: 'skerry', sub: '1', iat: now, exp: now + 60, email, groups };
          const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
          const signed = `${part({ alg: 'RS256', kid: '1' })}.${part({ ...claims, nonce: first.get('nonce') })}`;
          const signature = sign('sha256', Buffer.from(signed), privateKey).toString('base64url');
          send(200, { access_token: 'x', token_type: 'Bearer', id_token: `${signed}.${signature}` });
        });
      } else
        send(200, { keys: [{ ...publicKey.export({ format: 'jwk' }), kid: '1', alg: 'RS256', use: 'sig' }] });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    cleanups.push(() => {
      server.closeAllConnections();
      server.close();
    });
    issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    return { issuer };
  }

  async function start(groups: string[]): Promise<{ world: DashboardWorld; url: string }> {
    const url = 'http://localhost:4711/';
    const world = await dashboardWorld({ url, oidc: { ...settings, ...(await provider(groups)) } });
    cleanups.push(world.close);
    return { world, url };
  }

  /** The way of a browser, up to where the provider sends it back. */
  async function goAndReturn(
    world: DashboardWorld,
  ): Promise<{ browser: ReturnType<DashboardWorld['browser']>; back: string }> {
    const browser = world.browser();
    expect((await browser.request('GET', '/sign-in/oidc')).status).toBe(303);
    const away = new URL(browser.headers.get('location') ?? '');
    expect(away.searchParams.get('code_challenge_method')).toBe('S256');
    const answer = await fetch(away, { redirect: 'manual' });
    const back = new URL(answer.headers.get('location') ?? '');
    expect(back.href).toMatch(/^http:\/\/localhost:4711\/sign-in\/oidc\/callback\?/);
    return { browser, back: `${back.pathname}${back.search}` };
  }

  it('lets in who is in a group that counts, and asks the super cluster as that group', async () => {
    const { world } = await start(['operators', 'system:masters']);
    const { browser, back } = await goAndReturn(world);
    expect((await browser.request('GET', back)).status).toBe(200);
    expect((await browser.get('/api/session')).body).toMatchObject({ user: email, oidc: true });
    await browser.get('/api/tenants/a/blue/events');
    const asked = world.superCluster.asked.filter(({ path }) => path.includes('/events'));
    expect(asked.length).toBeGreaterThan(0);
    for (const { headers } of asked)
      expect(headers).toMatchObject({
        'impersonate-user': 'skerry:dashboard',
        'impersonate-group': 'oidc:operators',
        'impersonate-extra-skerry.dev%2foidc-user': email,
      });
  });

  it('does not let in who is in no such group', async () => {
    const { world } = await start(['everybody']);
    const { browser, back } = await goAndReturn(world);
    const { status, body } = await browser.request('GET', back);
    expect([status, body]).toEqual([
      403,
      expect.stringContaining('is in no group that may use this dashboard'),
    ]);
    expect((await browser.get('/api/tenants')).status).toBe(401);
  });

  it('ends in the browser in which it began, and with an answer of the provider', async () => {
    const { world } = await start(['operators']);
    const { browser, back } = await goAndReturn(world);
    expect((await world.browser().request('GET', back)).status).toBe(400);
    expect((await browser.request('GET', back.replace(/state=[^&]+/, 'state=guessed'))).status).toBe(400);
    expect((await browser.request('GET', back.replace(/code=[^&]+/, 'code=guessed'))).status).toBe(403);
    expect((await browser.get('/api/tenants')).status).toBe(401);
  });
});
