import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { VirtualCluster } from '../api/virtual-cluster.ts';
import { type KubeObject, resources } from '../kube/index.ts';
import { createTestCertificates } from '../kube/testing/index.ts';
import { Dashboard, UnprotectedError } from './dashboard.ts';
import { HttpError } from './http.ts';
import { type Browser, type DashboardWorld, dashboardWorld } from './testing/dashboard-world.ts';

interface Tenants {
  version: number;
  rows: { namespace: string; name: string }[];
}

describe('the dashboard', () => {
  let world: DashboardWorld;

  beforeAll(async () => {
    world = await dashboardWorld();
    const { people } = world.superCluster;
    people.set('operator', { name: 'ann', may: () => true });
    people.set('reader', {
      name: 'rob',
      may: ({ verb, subresource }) => /get|list/.test(verb) && subresource !== 'log',
    });
    people.set('of-a', { name: 'ada', may: ({ namespace, verb }) => namespace === 'a' && verb === 'list' });
    people.set('nobody', { name: 'nob', may: () => false });
    world.tenantServer.people.set('admin-of-blue', { name: 'blue-admin', may: () => true });
    world.tenantServer.people.set('viewer-of-blue', {
      name: 'blue-viewer',
      may: ({ verb, group, resource }) =>
        verb === 'get' && group === 'skerry.dev' && resource === 'virtualclusters',
    });
    world.tenantServer.people.set('app-of-blue', { name: 'blue-app', may: () => false });
    await world.dashboard.ready(AbortSignal.timeout(30_000));
  });
  afterAll(() => world.close());

  async function signedIn(token: string, tenant?: string): Promise<Browser> {
    const browser = world.browser();
    await browser.signIn({ token, ...(tenant === undefined ? {} : { tenant }) });
    return browser;
  }

  const blue = '/api/tenants/a/blue';

  describe('signing in', () => {
    it('takes a token that the super cluster knows, and no other', async () => {
      const browser = world.browser();
      expect((await browser.get('/api/session')).body).toEqual({ oidc: false });
      expect(await browser.signIn({ token: 'unheard-of' })).toBe(401);
      expect((await browser.get('/api/tenants')).status).toBe(401);
      expect(await browser.signIn({ token: 'operator' })).toBe(200);
      expect((await browser.get('/api/session')).body).toMatchObject({ user: 'ann', mayCreate: true });
    });

    it('says of a token whose user may not ask who it is that it is known, and what is missing', async () => {
      world.superCluster.people.set('bare', { name: undefined, may: () => true });
      const answer = await world.browser().post('/api/sign-in', { token: 'bare' });
      expect(answer.status).toBe(403);
      expect(answer.body['message']).toContain('system:basic-user');
    });

    it('keeps the session in a cookie that scripts do not see and other pages do not send', async () => {
      const browser = world.browser();
      await browser.post('/api/sign-in', { token: 'operator' });
      const cookie = browser.headers.get('set-cookie');
      expect(cookie).toMatch(/^skerry-\d+=[\w-]+; Path=\/; HttpOnly; SameSite=Strict; Max-Age=43200$/);
      expect(cookie).not.toContain('operator');
    });

    it('by a link works once, as this program', async () => {
      const link = /#link=(.+)$/.exec(world.dashboard.link())?.[1];
      const [first, second] = [world.browser(), world.browser()];
      expect([await first.signIn({ link }), await second.signIn({ link })]).toEqual([200, 401]);
      expect((await first.get('/api/session')).body).toMatchObject({ user: 'skerry-manager' });
    });

    it('by a link is not lost when the super cluster does not let the program in at that moment', async () => {
      const link = /#link=(.+)$/.exec(world.dashboard.link())?.[1];
      const { people } = world.superCluster;
      const program = people.get('program');
      if (program === undefined) throw new Error('it is not there');
      people.delete('program');
      const browser = world.browser();
      const status = await browser.signIn({ link }).finally(() => people.set('program', program));
      expect(status).toBeGreaterThanOrEqual(400);
      expect(await browser.signIn({ link })).toBe(200);
    });

    it('ends with signing out, also for a copy of the cookie', async () => {
      const browser = await signedIn('operator');
      const copy = [...browser.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
      expect((await browser.post('/api/sign-out', {})).status).toBe(200);
      expect(browser.cookies.size).toBe(0);
      expect(
        (await world.browser().request('GET', '/api/tenants', { headers: { cookie: copy } })).status,
      ).toBe(401);
    });

    it('to a tenant takes a token of that tenant, and says no more than no to others', async () => {
      const answers = [
        ['admin-of-blue', 'a/nowhere'],
        ['unheard-of', 'a/blue'],
        ['app-of-blue', 'a/blue'],
        ['operator', 'a/blue'],
        ['admin-of-blue', 'b/red'],
      ].map(async ([token, tenant]) => world.browser().post('/api/sign-in', { token, tenant }));
      const [one, ...others] = await Promise.all(answers);
      expect(one?.status).toBe(401);
      for (const other of others) expect(other).toEqual(one);
      expect(await world.browser().signIn({ token: 'admin-of-blue', tenant: 'a/blue' })).toBe(200);
      expect(await world.browser().signIn({ token: 'admin-of-blue' })).toBe(401);
    });

    it('to a tenant asks each time, whatever was answered about the same token before', async () => {
      let isAllowed = true;
      world.tenantServer.people.set('changing', { name: 'changing', may: () => isAllowed });
      expect(await world.browser().signIn({ token: 'changing', tenant: 'a/blue' })).toBe(200);
      isAllowed = false;
      expect(await world.browser().signIn({ token: 'changing', tenant: 'a/blue' })).toBe(401);
    });

    it('never sends the program its own credentials to a tenant', async () => {
      const before = world.tenantServer.asked.length;
      await (await signedIn('viewer-of-blue', 'a/blue')).get('/api/own/events');
      const asked = world.tenantServer.asked.slice(before);
      expect(asked.length).toBeGreaterThan(0);
      for (const { headers } of asked) expect(headers.authorization).toBe('Bearer viewer-of-blue');
    });
  });

  describe('what operators are told', () => {
    it('is all tenants, each with all that is known', async () => {
      const browser = await signedIn('operator');
      const { body } = await browser.get<Tenants>('/api/tenants');
      expect(body.rows.map(({ namespace, name }) => `${namespace}/${name}`).sort()).toEqual([
        'a/blue',
        'a/green',
        'b/red',
      ]);
      expect((await browser.get(blue)).body).toMatchObject({
        phase: 'Ready',
        conditions: expect.arrayContaining([
          expect.objectContaining({ message: 'what only operators know' }),
        ]),
        may: { change: true, delete: true, logs: true, kubeconfig: true },
      });
      expect((await browser.get(`${blue}/components`)).body).toMatchObject({ components: [{ restarts: 2 }] });
      expect((await browser.get(`${blue}/logs?component=kube-apiserver&lines=7`)).body).toEqual({
        lines: ['kube-apiserver 7'],
      });
      expect((await browser.get(`${blue}/pods/shop/web`)).body).toMatchObject({ node: 'real-node-7' });
    });

    it('is only the tenants of the namespaces in which they may list them', async () => {
      const browser = await signedIn('of-a');
      const { body } = await browser.get<Tenants>('/api/tenants');
      expect(body.rows.map(({ namespace, name }) => `${namespace}/${name}`).sort()).toEqual([
        'a/blue',
        'a/green',
      ]);
      expect((await browser.get(blue)).status).toBe(200);
      const hidden = await browser.get('/api/tenants/b/red');
      const missing = await browser.get('/api/tenants/b/blue');
      expect([hidden.status, missing.status]).toEqual([404, 404]);
      expect(String(hidden.body['message']).replace('red', 'blue')).toBe(missing.body['message']);
      expect((await browser.get('/api/system')).body).toMatchObject({ syncers: [], loads: [] });
    });

    it('of one tenant takes no questions about the namespaces of others', async () => {
      const asked: (string | undefined)[] = [];
      world.superCluster.people.set('of-a-once', {
        name: 'amy',
        may: ({ namespace }) => {
          asked.push(namespace);
          return namespace === 'a';
        },
      });
      const browser = world.browser();
      await browser.post('/api/sign-in', { token: 'of-a-once' });
      expect((await browser.get(blue)).status).toBe(200);
      expect(asked).not.toContain('b');
    });

    it('is a kubeconfig of its admins in the name of who takes it', async () => {
      const browser = await signedIn('operator');
      const { body } = await browser.post(`${blue}/kubeconfig`, {});
      expect(body['kubeconfig']).toMatch(/^# taken by ann\n/);
    });

    it('is nothing where they may nothing', async () => {
      const browser = await signedIn('nobody');
      expect((await browser.get<Tenants>('/api/tenants')).body.rows).toEqual([]);
      for (const rest of ['', '/events', '/components', '/pods', '/pods/x/y', '/logs?component=etcd'])
        expect((await browser.get(`${blue}${rest}`)).status).toBe(404);
      expect((await browser.post(`${blue}/kubeconfig`, {})).status).toBe(404);
    });

    it('are the pods that there are where no syncer has measured one or answers, if they may list them', async () => {
      const pod = { metadata: { namespace: 'shop', name: 'late' } };
      world.superCluster.api.put(resources.pods, pod);
      world.tenantServer.api.put(resources.pods, { metadata: { namespace: 'shop', name: 'own-late' } });
      const listed = async (token: string, of?: string) => {
        const path = of === undefined ? `${blue}/pods` : '/api/own/pods';
        const { status, body } = await (await signedIn(token, of)).request('GET', path);
        return { status, body };
      };
      const names = ({ body }: { body: string }) =>
        (JSON.parse(body) as { listed?: { name: string }[] }).listed?.map(({ name }) => name);
      const problem = ({ body }: { body: string }) => (JSON.parse(body) as { problem?: string }).problem;
      const measured = world.measured.pods;
      try {
        expect(names(await listed('operator'))).toBeUndefined();
        expect(problem(await listed('operator'))).toBeUndefined();
        world.measured.pods = [];
        const before = world.superCluster.asked.length;
        expect(names(await listed('operator'))).toEqual(['late']);
        const asked = world.superCluster.asked.slice(before).filter(({ path }) => path.includes('/pods'));
        expect(asked.map(({ headers }) => headers.authorization)).toEqual(['Bearer operator']);
        expect(problem(await listed('operator'))).toBeUndefined();
        world.failing.with = new Error('no syncer serves it');
        const unasked = await listed('operator');
        expect([names(unasked), problem(unasked)]).toEqual([['late'], 'no syncer serves it']);
        // Those of a tenant are what its own API server shows it, and no place in the super cluster.
        const own = await listed('admin-of-blue', 'a/blue');
        expect(names(own)).toEqual(['own-late']);
        expect(problem(own)).toContain('try again later');
        expect(own.body).not.toMatch(/real-node-7|a\/blue|syncer/);
        world.failing.with = undefined;
        expect(names(await listed('admin-of-blue', 'a/blue'))).toEqual(['own-late']);
        // Who may not list them is told what the syncers say, which is nothing.
        world.superCluster.api.inject({ plural: 'pods', verb: 'list', fault: { kind: 'status', code: 403 } });
        const refused = await listed('operator');
        expect(refused.status).toBe(200);
        expect(names(refused)).toBeUndefined();
      } finally {
        world.measured.pods = measured;
        world.failing.with = undefined;
        world.superCluster.api.remove(resources.pods, pod.metadata);
        world.tenantServer.api.remove(resources.pods, { namespace: 'shop', name: 'own-late' });
      }
    });

    it('is no log where they may not get it, and no path in the place of a component', async () => {
      expect((await (await signedIn('reader')).get(`${blue}/logs?component=kube-apiserver`)).status).toBe(
        403,
      );
      const browser = await signedIn('operator');
      for (const component of ['', '..', '..%2f..%2fetc', 'a/b'])
        expect((await browser.get(`${blue}/logs?component=${component}`)).status).toBe(400);
    });

    it('comes from the super cluster by their own token', async () => {
      const before = world.superCluster.asked.length;
      await (await signedIn('reader')).get(`${blue}/events`);
      const asked = world.superCluster.asked.slice(before).filter(({ path }) => path.includes('/events'));
      expect(asked.map(({ headers }) => headers.authorization)).toEqual(['Bearer reader']);
    });
  });

  describe('what a tenant is told', () => {
    it('is its own matters, and nothing of what operators know', async () => {
      const browser = await signedIn('admin-of-blue', 'a/blue');
      const { body } = await browser.request('GET', '/api/own');
      expect(JSON.parse(body)).toMatchObject({
        name: 'blue',
        quota: [{ resource: 'pods', share: 0.25 }],
        snapshots: [{ name: '2026.snapshot' }],
        certificates: [
          { name: 'ca', kind: 'authority', expires: '2036-01-01T00:00:00.000Z' },
          { name: 'kube-apiserver', kind: 'certificate' },
          { name: 'admin', kind: 'certificate' },
        ],
        may: { kubeconfig: true, pods: true },
      });
      expect(Object.keys(JSON.parse(body) as object).sort()).toEqual([
        ...[
          'certificates',
          'certificatesDue',
          'conditions',
          'createdAt',
          'health',
          'jobs',
          'may',
          'name',
          'phase',
        ],
        ...['pods', 'quota', 'snapshots', 'version'],
      ]);
      expect(body).toContain('baseline it is');
      // What became of a change of version and of a move, and nothing of why and where.
      expect(JSON.parse(body)).toMatchObject({
        conditions: expect.arrayContaining([
          expect.objectContaining({ type: 'VersionCurrent', reason: 'RolledBack' }),
        ]),
        jobs: [
          { kind: 'version-change', target: '1.37.0' },
          { kind: 'move', state: 'Succeeded' },
          { kind: 'provision' },
        ],
      });
      const withheld = [
        'what only operators',
        'internal-id',
        '10.9.8.7',
        'manager-0',
        'vc-manager',
        'green',
        'red',
        'kubernetes/own',
        'process/shared',
        'etcd-servers',
      ];
      for (const each of [...withheld, 'DeletionHeld', '"a/', '"namespace"', 'weight'])
        expect(body).not.toContain(each);
    });

    it('holds no name of a node or of the VirtualCluster', async () => {
      const browser = await signedIn('admin-of-blue', 'a/blue');
      for (const path of ['/api/own/pods', '/api/own/pods/shop/web']) {
        const { status, body } = await browser.request('GET', path);
        expect(status).toBe(200);
        expect(body).toContain('web');
        expect(body).not.toMatch(/real-node-7|a\/blue/);
      }
    });

    it('is nothing of syncers that do not answer', async () => {
      const browser = await signedIn('admin-of-blue', 'a/blue');
      for (const [status, error] of [
        [503, new Error('the syncer vc-syncer-0 cannot be asked at http://10.9.8.7:1')],
        [404, new HttpError(404, 'no pod of vc-syncer-0 at http://10.9.8.7:1')],
      ] as const) {
        world.failing.with = error;
        world.tenantServer.api.inject({
          ...{ plural: 'pods', verb: 'list' },
          fault: { kind: 'status', code: 500, message: 'etcd of vc-syncer at 10.9.8.7' },
        });
        for (const path of ['/api/own/pods', '/api/own/pods/shop/web']) {
          const answer = await browser.request('GET', path);
          expect(answer.status).toBe(status);
          expect(answer.body).not.toMatch(/vc-syncer|10\.9\.8\.7/);
        }
      }
      world.failing.with = undefined;
    });

    it('is nothing by the paths of operators', async () => {
      const browser = await signedIn('admin-of-blue', 'a/blue');
      const paths = [
        '/api/tenants',
        blue,
        `${blue}/events`,
        `${blue}/logs?component=etcd`,
        '/api/system',
        '/api/versions',
      ];
      for (const path of paths) expect([path, (await browser.get(path)).status]).toEqual([path, 404]);
      for (const rest of ['act', 'preview', 'kubeconfig'])
        expect((await browser.post(`${blue}/${rest}`, { do: 'sleep' })).status).toBe(404);
      expect(world.acted).toEqual([]);
    });

    it('is a kubeconfig of its admins for its admins alone, and the pods for who may list them', async () => {
      const admin = await signedIn('admin-of-blue', 'a/blue');
      expect((await admin.post('/api/own/kubeconfig', {})).body['kubeconfig']).toContain('clusters:');
      const viewer = await signedIn('viewer-of-blue', 'a/blue');
      expect((await viewer.get('/api/own')).body).toMatchObject({ may: { kubeconfig: false, pods: false } });
      expect((await viewer.post('/api/own/kubeconfig', {})).status).toBe(403);
      expect((await viewer.get('/api/own/pods')).status).toBe(403);
    });

    it('ends when its API server does not know the token any more', async () => {
      world.tenantServer.people.set('short', { name: 'short', may: () => true });
      const browser = await signedIn('short', 'a/blue');
      expect((await browser.get('/api/own/events')).status).toBe(200);
      world.tenantServer.people.delete('short');
      expect((await browser.get('/api/own/events')).status).toBe(401);
    });
  });

  describe('an action', () => {
    it('is done as the person who asks', async () => {
      const browser = await signedIn('operator');
      const answer = await browser.post(`${blue}/act`, { do: 'upgrade', version: '1.36' });
      expect(answer).toEqual({ status: 200, body: { message: 'blue is asked' } });
      expect(world.acted.splice(0)).toEqual([
        { ref: { namespace: 'a', name: 'blue' }, action: { do: 'upgrade', version: '1.36' }, as: 'ann' },
      ]);
    });

    it('is not even tried without the secret of the page, from another page, or as a form', async () => {
      const browser = await signedIn('operator');
      const act = (headers: Record<string, string>) => browser.post(`${blue}/act`, { do: 'sleep' }, headers);
      expect((await act({ 'x-skerry-csrf': 'guessed' })).status).toBe(403);
      expect((await act({ origin: 'https://evil.example' })).status).toBe(403);
      expect((await act({ origin: 'null' })).status).toBe(403);
      expect((await act({ 'sec-fetch-site': 'same-site' })).status).toBe(403);
      expect((await act({ 'content-type': 'text/plain' })).status).toBe(415);
      const crossSite = { origin: 'https://evil.example', 'content-type': 'application/json' };
      const signIn = world.browser().post('/api/sign-in', { token: 'operator' }, crossSite);
      expect((await signIn).status).toBe(403);
      expect(world.acted).toEqual([]);
    });

    it('that deletes needs the name and the UID', async () => {
      const browser = await signedIn('operator');
      const remove = (body: object) => browser.post(`${blue}/act`, { do: 'delete', ...body });
      expect((await remove({ uid: '1', confirm: 'bleu' })).status).toBe(400);
      expect((await remove({ confirm: 'blue' })).status).toBe(400);
      expect(world.acted).toEqual([]);
      expect((await remove({ uid: '1', confirm: 'blue' })).status).toBe(200);
      const withSnapshot = { uid: '1', confirm: 'blue', snapshotFirst: true };
      expect((await remove(withSnapshot)).status).toBe(200);
      expect(world.acted.splice(0).map(({ action }) => action)).toEqual([
        { do: 'delete', uid: '1' },
        { do: 'delete', uid: '1', snapshotFirst: true },
      ]);
    });

    it('that is none, or is too large, is refused', async () => {
      const browser = await signedIn('operator');
      for (const body of [
        {},
        { do: 'explode' },
        { do: 'sleep', more: 1 },
        { do: 'upgrade', version: '$(x)' },
      ])
        expect((await browser.post(`${blue}/act`, body)).status).toBe(400);
      expect((await browser.post(`${blue}/act`, { do: 'x'.repeat(70_000) })).status).toBe(413);
      expect((await browser.request('DELETE', blue)).status).toBe(405);
    });

    it('that is judged by what this program reads is told to nobody who may not do it', async () => {
      const browser = await signedIn('reader');
      for (const what of ['preview', 'act'])
        expect(await browser.post(`${blue}/${what}`, { do: 'upgrade' })).toEqual({
          status: 403,
          body: { message: 'rob may not "patch" virtualclusters in namespace a' },
        });
      expect(world.acted).toEqual([]);
    });

    it('is offered only to those whom the API server would let', async () => {
      const browser = await signedIn('reader');
      expect((await browser.get(blue)).body).toMatchObject({
        may: { change: false, delete: false, logs: false },
      });
      expect((await browser.get('/api/session')).body).toMatchObject({ mayCreate: false });
    });
  });

  it('answers every page with a policy that lets nothing else in, and by no name but its own', async () => {
    const browser = world.browser();
    const { status } = await browser.request('GET', '/');
    expect(status).toBe(200);
    const policy = browser.headers.get('content-security-policy') ?? '';
    expect(policy).toMatch(/default-src 'none'/);
    expect(policy).toMatch(/frame-ancestors 'none'/);
    expect(policy).not.toMatch(/unsafe|\*/);
    expect(browser.headers.get('x-content-type-options')).toBe('nosniff');
    // fetch does not let anybody choose the Host.
    const { request } = await import('node:http');
    const answered = await new Promise<number | undefined>((resolve) => {
      request(
        { host: '127.0.0.1', port: world.port, path: '/', headers: { host: 'evil.example' } },
        (answer) => {
          answer.resume();
          resolve(answer.statusCode);
        },
      ).end();
    });
    expect(answered).toBe(421);
  });

  it('answers by the names in its certificate', async () => {
    const { ca, server: tls } = await createTestCertificates(['dashboard.example', '*.wide.example']);
    const other = await dashboardWorld({ tls });
    const server = { host: '127.0.0.1', servername: 'localhost', port: other.port, ca };
    const { request } = await import('node:https');
    const answered = (host: string) =>
      new Promise<number | undefined>((resolve, reject) => {
        request({ ...server, path: '/', headers: { host } }, (answer) => {
          answer.resume();
          resolve(answer.statusCode);
        })
          .on('error', reject)
          .end();
      });
    try {
      expect(await answered('dashboard.example')).toBe(200);
      expect(await answered('DASHBOARD.example:8443')).toBe(200);
      expect(await answered('one.wide.example')).toBe(200);
      expect(await answered('evil.example')).toBe(421);
      expect(await answered('10.0.0.1')).toBe(421);
    } finally {
      await other.close();
    }
  });

  it('dials the server that the VirtualCluster has, whatever its owner has written into the Secret', async () => {
    const other = await dashboardWorld();
    try {
      other.tenantServer.people.set('admin-of-blue', { name: 'blue-admin', may: () => true });
      await other.dashboard.ready(AbortSignal.timeout(30_000));
      const browser = other.browser();
      expect(await browser.signIn({ token: 'admin-of-blue', tenant: 'a/blue' })).toBe(200);
      const asked = async () => (await browser.get('/api/own/events')).status;
      expect(await asked()).toBe(200);
      const { api } = other.superCluster;
      const blue = api
        .list(resources.virtualClusters)
        .find(({ metadata }) => metadata.name === 'blue') as VirtualCluster;
      const { gateway: _, ...status } = blue.status ?? {};
      api.put(resources.virtualClusters, { ...blue, status } as KubeObject);
      await expect.poll(asked).toBe(503);
    } finally {
      await other.close();
    }
  });

  it('does not listen beyond loopback where tokens would be read on the way', async () => {
    const other = await dashboardWorld();
    await other.close();
    await expect(other.dashboard.listen('0.0.0.0', 0)).rejects.toThrow(UnprotectedError);
  });

  it('tells at once what has changed, and nothing else', async () => {
    const browser = await signedIn('of-a');
    const { version } = (await browser.get<Tenants>('/api/tenants')).body;
    const cookie = [...browser.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const left = new AbortController();
    const stream = await fetch(`${world.origin}/api/stream?since=${version}`, {
      headers: { cookie },
      signal: left.signal,
    });
    expect(stream.headers.get('content-type')).toBe('text/event-stream');
    for (const [namespace, name] of [
      ['b', 'hidden'],
      ['a', 'shown'],
    ] as const)
      world.superCluster.api.put(resources.virtualClusters, { metadata: { namespace, name } });
    let text = '';
    for await (const chunk of stream.body ?? []) {
      text += Buffer.from(chunk).toString();
      if (text.includes('"shown"')) break;
    }
    left.abort();
    expect(text).not.toContain('hidden');
    expect(text).not.toContain('"blue"');
    expect(text).toMatch(/^id: \d+\nevent: tenants\n/m);
  });

  it('has room for the pages of operators whatever a tenant opens', async () => {
    const cookieOf = ({ cookies }: Browser) =>
      [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const left = new AbortController();
    // Whoever drops an answer closes its connection.
    const answers: Response[] = [];
    const open = async (cookie: string): Promise<number> => {
      const { signal } = left;
      answers.push(await fetch(`${world.origin}/api/stream`, { headers: { cookie }, signal }));
      return answers.at(-1)?.status ?? 0;
    };
    try {
      const tenant = cookieOf(await signedIn('admin-of-blue', 'a/blue'));
      const again = cookieOf(await signedIn('viewer-of-blue', 'a/blue'));
      const statuses: number[] = [];
      for (let page = 0; page < 60; page++) statuses.push(await open(page % 2 === 0 ? tenant : again));
      expect(statuses.filter((status) => status === 200)).toHaveLength(50);
      expect(await open(cookieOf(await signedIn('operator')))).toBe(200);
    } finally {
      left.abort();
    }
  });

  it('has room for pages of operators and of other tenants, however many tenants have open what they may', async () => {
    const other = await dashboardWorld({ maxStreams: { all: 5, each: 3 } });
    other.superCluster.people.set('operator', { name: 'ann', may: () => true });
    other.tenantServer.people.set('admin', { name: 'admin', may: () => true });
    // All of them have the API server of one.
    for (const name of ['green', 'pink', 'cyan']) {
      const namespace = 'a';
      other.superCluster.api.put(resources.virtualClusters, {
        metadata: { namespace, name },
        status: { endpoint: other.tenantServer.url },
      } as KubeObject);
      other.superCluster.api.put(resources.secrets, { metadata: { namespace, name: `${name}-kubeconfig` } });
    }
    const left = new AbortController();
    const opened: Response[] = [];
    const open = async (token: string, tenant?: string): Promise<number> => {
      const browser = other.browser();
      expect(await browser.signIn({ token, ...(tenant === undefined ? {} : { tenant }) })).toBe(200);
      const cookie = [...browser.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
      const { signal } = left;
      opened.push(await fetch(`${other.origin}/api/stream`, { headers: { cookie }, signal }));
      return opened.at(-1)?.status ?? 0;
    };
    try {
      await other.dashboard.ready(AbortSignal.timeout(30_000));
      const operator = other.browser();
      await operator.signIn({ token: 'operator' });
      await expect.poll(async () => (await operator.get('/api/tenants/a/cyan')).status).toBe(200);
      for (let page = 0; page < 3; page++) expect(await open('admin', 'a/cyan')).toBe(200);
      expect(await open('admin', 'a/cyan')).toBe(503);
      expect([await open('admin', 'a/blue'), await open('admin', 'a/blue')]).toEqual([200, 503]);
      expect(await open('admin', 'a/green')).toBe(200);
      // One of those that the first has open is ended.
      expect(await open('admin', 'a/pink')).toBe(200);
      expect(await opened[2]?.text()).toContain('event: ended\ndata: {"status":503');
      expect(await open('admin', 'a/cyan')).toBe(503);
      expect(await open('operator')).toBe(200);
    } finally {
      left.abort();
      await other.close();
    }
  });

  it('ends a session whose token has expired, and tells the page why: it has to show the form again', async () => {
    let nowMs = Date.now();
    const other = await dashboardWorld({ now: () => nowMs });
    other.superCluster.people.set('brief', { name: 'eve', may: () => true });
    try {
      const browser = other.browser();
      expect(await browser.signIn({ token: 'brief' })).toBe(200);
      other.superCluster.people.delete('brief');
      nowMs += 21_000;
      const problem = 'the API server does not accept this token any more: sign in again';
      expect((await browser.get('/api/session')).body).toEqual({ oidc: false, problem });
      expect((await browser.get('/api/session')).body).toEqual({ oidc: false });
      expect((await browser.get('/api/tenants')).status).toBe(401);
      const byLink = other.browser();
      await byLink.signIn({ link: /#link=(.+)$/.exec(other.dashboard.link())?.[1] });
      other.superCluster.people.delete('program');
      nowMs += 21_000;
      // Not the session's fault: the page tries again.
      expect((await byLink.get('/api/session')).status).toBe(502);
    } finally {
      await other.close();
    }
  });

  it('reads the kubeconfig of a tenant once in five seconds, whatever its users ask for', async () => {
    let nowMs = Date.now();
    const other = await dashboardWorld({ now: () => nowMs });
    other.tenantServer.people.set('admin', { name: 'admin', may: () => true });
    const { backend } = other.options;
    const read = backend.kubeconfig.bind(backend);
    let reads = 0;
    backend.kubeconfig = (...args) => {
      reads += 1;
      return read(...args);
    };
    try {
      await other.dashboard.ready(AbortSignal.timeout(30_000));
      const browser = other.browser();
      expect(await browser.signIn({ token: 'admin', tenant: 'a/blue' })).toBe(200);
      for (let each = 0; each < 3; each++) expect((await browser.get('/api/own')).status).toBe(200);
      expect((await browser.post('/api/own/kubeconfig', {})).status).toBe(200);
      expect(reads).toBe(1);
      nowMs += 5_000;
      expect((await browser.get('/api/own')).status).toBe(200);
      expect(reads).toBe(2);
    } finally {
      await other.close();
    }
  });

  it('does not tell users of a tenant to sign in again when its own credentials are refused', async () => {
    let nowMs = Date.now();
    const other = await dashboardWorld({ now: () => nowMs });
    other.tenantServer.people.set('admin', { name: 'admin', may: () => true });
    const { backend } = other.options;
    try {
      await other.dashboard.ready(AbortSignal.timeout(30_000));
      const browser = other.browser();
      expect(await browser.signIn({ token: 'admin', tenant: 'a/blue' })).toBe(200);
      backend.kubeconfig = async (client, _, signal) => {
        await client.list(resources.secrets, { signal });
        return '';
      };
      other.superCluster.people.delete('program');
      nowMs += 5_000;
      expect((await browser.get('/api/own')).status).toBe(502);
    } finally {
      await other.close();
    }
  });

  it('keeps so many connections open that nobody has signed in on, and ends those that came first', async () => {
    const other = await dashboardWorld({ maxUnauthenticated: 8 });
    other.superCluster.people.set('operator', { name: 'ann', may: () => true });
    const { hostname: host, port } = new URL(other.origin);
    const left = new AbortController();
    const silent: Socket[] = [];
    const open = async (): Promise<void> => {
      const socket = connect({ host, port: Number(port) });
      silent.push(socket);
      await once(socket, 'connect');
    };
    const closed = (sockets: readonly Socket[]) =>
      Promise.all(sockets.map((socket) => once(socket, 'close')));
    try {
      const browser = other.browser();
      await browser.signIn({ token: 'operator' });
      const cookie = [...browser.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
      const { signal } = left;
      const stream = await fetch(`${other.origin}/api/stream`, { headers: { cookie }, signal });
      const events = stream.body?.getReader();
      for (let each = 0; each < 8; each++) await open();
      const first = closed(silent.slice(0, 8));
      for (let each = 0; each < 8; each++) await open();
      await first;
      expect(silent.slice(8).map(({ readyState }) => readyState)).toEqual(Array(8).fill('open'));
      // What is open for a user stays, and who comes next finds room.
      expect(await other.browser().signIn({ token: 'operator' })).toBe(200);
      expect((await events?.read())?.done).toBe(false);
    } finally {
      left.abort();
      for (const socket of silent) socket.destroy();
      await other.close();
    }
  });

  it('says to who may not list tenants everywhere when not all namespaces were looked through', async () => {
    const other = await dashboardWorld();
    try {
      other.superCluster.people.set('of-a', { name: 'ada', may: ({ namespace }) => namespace === 'a' });
      for (let each = 0; each < 500; each++)
        other.superCluster.api.put(resources.virtualClusters, {
          metadata: { namespace: `n-${each}`, name: 'one' },
        });
      await other.dashboard.ready(AbortSignal.timeout(30_000));
      const [own, all] = [other.browser(), other.browser()];
      await own.signIn({ token: 'of-a' });
      await all.signIn({ token: 'program' });
      expect((await own.get('/api/tenants')).body).toMatchObject({
        rows: [{ name: 'blue' }, { name: 'green' }],
        problem: expect.stringContaining('more than 500 namespaces'),
      });
      expect((await all.get('/api/tenants')).body).not.toHaveProperty('problem');
    } finally {
      await other.close();
    }
  });

  it('asks a tenant no more than so much at once, whatever its pages ask', async () => {
    const other = await dashboardWorld();
    const left = new AbortController();
    try {
      const { api, people } = other.tenantServer;
      await other.dashboard.ready(AbortSignal.timeout(30_000));
      const open: Promise<Response>[] = [];
      api.inject({ plural: 'events', fault: { kind: 'hang' }, times: 100 });
      for (let admin = 0; admin < 10; admin++) {
        people.set(`admin-${admin}`, { name: `admin-${admin}`, may: () => true });
        const browser = other.browser();
        await browser.signIn({ token: `admin-${admin}`, tenant: 'a/blue' });
        const cookie = [...browser.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
        for (let page = 0; page < 3; page++)
          open.push(fetch(`${other.origin}/api/own/events`, { headers: { cookie }, signal: left.signal }));
      }
      const over = Promise.allSettled(open);
      await api.until(() => api.requests.length >= 8);
      const operator = other.browser();
      expect(await operator.signIn({ token: 'program' })).toBe(200);
      expect((await operator.get(blue)).status).toBe(200);
      expect(api.requests).toHaveLength(8);
      left.abort();
      await over;
    } finally {
      await other.close();
    }
  });

  it('takes a new certificate while it runs, and keeps the one it has when the new one is none', async () => {
    const [before, after] = [await createTestCertificates(['old.example']), await createTestCertificates()];
    const given = { tls: after.server };
    const problems: string[] = [];
    const other = await dashboardWorld({
      tls: before.server,
      readTls: async () => given.tls,
      onProblem: (problem) => problems.push(problem),
    });
    const { connect } = await import('node:tls');
    const isTrusted = (ca: string) =>
      new Promise<boolean>((resolve) => {
        const socket = connect({ host: '127.0.0.1', servername: 'localhost', port: other.port, ca }, () => {
          socket.destroy();
          resolve(true);
        }).on('error', () => resolve(false));
      });
    try {
      await other.dashboard.refreshCertificate();
      expect([await isTrusted(before.ca), await isTrusted(after.ca)]).toEqual([false, true]);
      given.tls = { cert: after.server.cert, key: before.server.key };
      await other.dashboard.refreshCertificate();
      await other.dashboard.refreshCertificate();
      expect(problems.filter((each) => each.includes('the one before stays'))).toHaveLength(1);
      expect(await isTrusted(after.ca)).toBe(true);
    } finally {
      await other.close();
    }
  });

  it('tells its log once why a tenant is not told of its pods, and again when that is over and comes back', async () => {
    const problems: string[] = [];
    const other = await dashboardWorld({ onProblem: (problem) => problems.push(problem) });
    try {
      other.tenantServer.people.set('admin-of-blue', { name: 'blue-admin', may: () => true });
      await other.dashboard.ready(AbortSignal.timeout(30_000));
      const browser = other.browser();
      await browser.signIn({ token: 'admin-of-blue', tenant: 'a/blue' });
      const asked = async (error?: Error, path = 'pods/shop/web') => {
        other.failing.with = error;
        return (await browser.get(`/api/own/${path}`)).status;
      };
      const [silent, refused] = [new Error('no answer'), new Error('refused')];
      const errors = [silent, silent, refused, undefined, refused];
      const statuses: number[] = [];
      for (const error of errors) statuses.push(await asked(error));
      expect(statuses).toEqual([503, 503, 503, 200, 503]);
      const told = 'the tenant a/blue was not told of its pods: ';
      expect(problems).toEqual([`${told}no answer`, `${told}refused`, `${told}refused`]);
      for (let n = 0; n < 2; n++) {
        await asked(silent, 'pods');
        await asked(refused);
      }
      expect(problems.slice(3)).toEqual([`${told}no answer`]);
    } finally {
      await other.close();
    }
  });

  it('ends with what it did not expect, and closes everything', async () => {
    const other = await dashboardWorld();
    let isBroken = false;
    const now = () => {
      if (isBroken) throw new Error('odd');
      return Date.now();
    };
    const dashboard = new Dashboard({ ...other.options, now });
    isBroken = true;
    await expect(dashboard.run(new AbortController().signal)).rejects.toThrow('odd');
    await other.close();
  });

  it('refuses a sign-in to a tenant at one time, whether there is such a tenant or not', async () => {
    const gate = Promise.withResolvers<void>();
    const held: number[] = [];
    const other = await dashboardWorld({
      holdBack: (ms) => {
        held.push(ms);
        return gate.promise;
      },
    });
    try {
      const asked = Promise.withResolvers<void>();
      other.tenantServer.people.set('app', {
        name: 'app',
        may: () => {
          asked.resolve();
          return false;
        },
      });
      other.tenantServer.people.set('admin', { name: 'admin', may: () => true });
      await other.dashboard.ready(AbortSignal.timeout(30_000));
      const early: string[] = [];
      const refused = [
        ['app', 'a/blue'],
        ['unheard-of', 'a/blue'],
        ['app', 'a/nowhere'],
      ].map(async ([token, tenant]) => {
        const { status } = await other.browser().post('/api/sign-in', { token, tenant });
        early.push(`${token} ${tenant}`);
        return status;
      });
      await asked.promise;
      expect(await other.browser().signIn({ token: 'admin', tenant: 'a/blue' })).toBe(200);
      expect(early).toEqual([]);
      gate.resolve();
      expect(await Promise.all(refused)).toEqual([401, 401, 401]);
      expect(new Set(held).size).toBe(1);
    } finally {
      await other.close();
    }
  });

  it('counts attempts by who asked a proxy that is trusted, and by nothing that others write', async () => {
    const guess = async (world: DashboardWorld, from: string) =>
      (
        await world
          .browser()
          .post('/api/sign-in', { token: `guess-${Math.random()}` }, { 'x-forwarded-for': from })
      ).status;
    const [behind, open] = [
      await dashboardWorld({ trustedProxies: ['127.0.0.0/8'] }),
      await dashboardWorld(),
    ];
    try {
      for (let attempt = 0; attempt < 20; attempt++) {
        await guess(behind, `203.0.113.${attempt}, 192.0.2.1`);
        await guess(open, `192.0.2.${attempt}`);
      }
      expect(await guess(behind, '203.0.113.99, 192.0.2.1')).toBe(429);
      expect(await guess(behind, '192.0.2.2')).toBe(401);
      expect(await guess(open, '192.0.2.99')).toBe(429);
    } finally {
      await Promise.all([behind.close(), open.close()]);
    }
  });

  it('lets the machine itself and signed-in operators sign in while others guess from many addresses', async () => {
    const other = await dashboardWorld({ trustedProxies: ['127.0.0.0/8'] });
    try {
      other.superCluster.people.set('operator', { name: 'ann', may: () => true });
      const at = (address: string) => ({ 'x-forwarded-for': address });
      const operator = other.browser();
      expect(await operator.signIn({ token: 'operator' })).toBe(200);
      const guesses = Array.from({ length: 300 }, (_, each) =>
        other.browser().post('/api/sign-in', {}, at(`192.0.2.${each % 15}`)),
      );
      expect(new Set((await Promise.all(guesses)).map(({ status }) => status))).toEqual(new Set([400]));
      const signIn = async (browser: Browser, headers = {}): Promise<number> =>
        (await browser.post('/api/sign-in', { token: 'operator' }, headers)).status;
      expect(await signIn(other.browser(), at('203.0.113.1'))).toBe(429);
      expect(await signIn(operator, at('203.0.113.1'))).toBe(200);
      expect(await signIn(other.browser())).toBe(200);
    } finally {
      await other.close();
    }
  });

  it('explains the stages of a pod to operators and to its tenant', async () => {
    const stages = { stages: { queue: expect.stringContaining('worker') } };
    expect((await (await signedIn('operator')).get(`${blue}/pods/shop/web`)).body).toMatchObject(stages);
    const tenant = await signedIn('admin-of-blue', 'a/blue');
    expect((await tenant.get('/api/own/pods/shop/web')).body).toMatchObject(stages);
  });

  it('lets nobody try tokens without end', async () => {
    const other = await dashboardWorld();
    try {
      const browser = other.browser();
      const statuses: number[] = [];
      for (let attempt = 0; attempt < 21; attempt++)
        statuses.push((await browser.post('/api/sign-in', { token: `guess-${attempt}` })).status);
      expect([statuses[0], statuses.at(-2), statuses.at(-1)]).toEqual([401, 401, 429]);
    } finally {
      await other.close();
    }
  });

  it('lets nobody try more tokens by trying them at once, and counts none that was right', async () => {
    const other = await dashboardWorld();
    try {
      const browser = other.browser();
      for (let time = 0; time < 25; time++)
        expect((await browser.post('/api/sign-in', { token: 'program' })).status).toBe(200);
      const guesses = Array.from({ length: 40 }, (_, each) =>
        other.browser().post('/api/sign-in', { token: `guess-${each}` }),
      );
      const statuses = (await Promise.all(guesses)).map(({ status }) => status);
      expect(statuses.filter((status) => status === 401)).toHaveLength(20);
      expect(statuses.filter((status) => status === 429)).toHaveLength(20);
    } finally {
      await other.close();
    }
  });
});
