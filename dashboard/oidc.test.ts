import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { Oidc, OidcRefusal, userFromClaims } from './oidc.ts';
import { type DashboardWorld, dashboardWorld } from './testing/dashboard-world.ts';
import { email, OidcProvider, oidcSettings as settings } from './testing/oidc-provider.ts';

describe('somebody of an OIDC provider', () => {
  it('is who the claims say, in the groups that count and no others', () => {
    const claims = { email, groups: ['everybody', 'operators', 'system:masters', 7] };
    expect(userFromClaims(claims, settings)).toEqual({ user: email, groups: ['oidc:operators'] });
  });

  it.each([
    [{ groups: ['operators'] }],
    [{ email, groups: ['everybody'] }],
    [{ email, groups: 'operators' }],
    [{ email }],
    [{ email, email_verified: false, groups: ['operators'] }],
    [{ email: 'a\r\nimpersonate-group: system:masters', groups: ['operators'] }],
  ])('is not let in with %j', (claims) =>
    expect(() => userFromClaims(claims, settings)).toThrow(OidcRefusal),
  );
});

describe('signing in by OIDC', () => {
  const cleanups: (() => unknown)[] = [];
  afterEach(async () => {
    for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
  });

  async function start(groups: string[]): Promise<{ world: DashboardWorld; url: string }> {
    const url = 'http://localhost:4711/';
    const provider = await OidcProvider.start(groups);
    cleanups.push(() => provider.stop());
    const world = await dashboardWorld({ url, oidc: provider.settings });
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

  it('does not ask the provider without end for who guesses', async () => {
    const { world } = await start(['operators']);
    const { browser, back } = await goAndReturn(world);
    const guess = back.replace(/code=[^&]+/, 'code=guessed');
    const statuses: number[] = [];
    for (let attempt = 0; attempt < 21; attempt++)
      statuses.push((await browser.request('GET', guess)).status);
    expect(statuses).toEqual([...Array.from({ length: 20 }, () => 403), 429]);
  });

  it('does not count a sign-in that was cancelled at the provider, whoever else comes from that address', async () => {
    const { world } = await start(['operators']);
    const { browser, back } = await goAndReturn(world);
    const cancelled = back.replace(/code=[^&]+/, 'error=access_denied');
    for (let attempt = 0; attempt < 21; attempt++)
      expect((await browser.request('GET', cancelled)).status).toBe(403);
    expect((await browser.request('GET', back)).status).toBe(200);
  });

  it('does not ask a provider that fails again for each who begins', async () => {
    let calls = 0;
    const provider = createServer((_, response) => {
      calls += 1;
      response.writeHead(500).end();
    }).listen(0, '127.0.0.1');
    await once(provider, 'listening');
    cleanups.push(() => provider.close());
    const issuer = `http://127.0.0.1:${(provider.address() as AddressInfo).port}`;
    const oidc = new Oidc({ ...settings, issuer }, 'http://localhost:4711/');
    for (let each = 0; each < 3; each++) await expect(oidc.begin()).rejects.toThrow();
    expect(calls).toBe(1);
  });
});
