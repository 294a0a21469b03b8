import { describe, expect, it } from 'vitest';
import { Connection, KubeClient, resources } from '../kube/index.ts';
import { createTestCertificates, FakeApiServer } from '../kube/testing/index.ts';
import { Access, Clients, isAllowed, whoAmI } from './clients.ts';

it('a connection is kept for a token, but not beyond the authority or the name of its server', async () => {
  const superCluster = { server: 'http://127.0.0.1:1' };
  const program = new KubeClient(new Connection(superCluster));
  const clients = new Clients(superCluster, program, () => undefined);
  const [one, other] = [await createTestCertificates(), await createTestCertificates()];
  const place = { server: 'https://127.0.0.1:2', ca: one.ca };
  const kept = clients.ofTenant(place, 'token');
  expect(clients.ofTenant({ ...place }, 'token')).toBe(kept);
  expect(clients.ofTenant(place, 'another')).not.toBe(kept);
  expect(clients.ofTenant({ ...place, ca: other.ca }, 'token')).not.toBe(kept);
  expect(clients.ofTenant({ ...place, tlsServerName: 'blue' }, 'token')).not.toBe(kept);
  await clients.close();
  await program.connection.close();
});

it('reading from one tenant rests, for all of its users together, and from no other', async () => {
  const superCluster = { server: 'http://127.0.0.1:1' };
  const program = new KubeClient(new Connection(superCluster));
  const clients = new Clients(superCluster, program, () => undefined);
  const over = new AbortController();
  const meterOf = (server: string, token: string) => clients.ofTenant({ server }, token).connection.meter;
  meterOf('http://127.0.0.1:2', 'one')?.worked(60_000);
  const turn = meterOf('http://127.0.0.1:2', 'other')?.turn(over.signal);
  over.abort(new Error('it rests'));
  await expect(turn).rejects.toThrow('it rests');
  expect(meterOf('http://127.0.0.1:3', 'one')).toBeDefined();
  expect(meterOf('http://127.0.0.1:3', 'one')?.turn(undefined)).toBeUndefined();
  await clients.close();
  await program.connection.close();
});

it('a connection is kept for a person and their groups, whatever characters these have', async () => {
  const superCluster = { server: 'http://127.0.0.1:1' };
  const program = new KubeClient(new Connection(superCluster));
  const clients = new Clients(superCluster, program, () => undefined);
  const of = (...groups: string[]) => clients.of({ as: { is: 'groups', groups }, user: 'jane' });
  expect(of('team', 'admins')).toBe(of('team', 'admins'));
  expect(of('team admins')).not.toBe(of('team', 'admins'));
  await clients.close();
  await program.connection.close();
});

it('a list of a tenant is read as far as a page can show it, one of the super cluster as a whole', async () => {
  const api = await FakeApiServer.start();
  const superCluster = { server: api.url };
  const program = new KubeClient(new Connection(superCluster));
  const clients = new Clients(superCluster, program, () => undefined);
  for (let index = 0; index < 10; index++)
    api.put(resources.events, {
      metadata: { namespace: 'a', name: `event-${index}` },
      message: 'x'.repeat(1_000_000),
    });
  const operator = clients.of({ as: { is: 'token', token: 'token' }, user: '' });
  expect((await operator.list(resources.events)).items).toHaveLength(10);
  const tenant = clients.ofTenant(superCluster, 'token');
  await expect(tenant.list(resources.events)).rejects.toThrow(/the list of events is larger/);
  await clients.close();
  await program.connection.close();
  await api.stop();
});

it('tokens that are tried take no place of the connections that are kept, and leave none open', async () => {
  const api = await FakeApiServer.start();
  const superCluster = { server: api.url };
  const program = new KubeClient(new Connection(superCluster));
  const clients = new Clients(superCluster, program, () => undefined);
  const kept = clients.ofTenant(superCluster, 'token');
  const tried: KubeClient[] = [];
  for (let attempt = 0; attempt < 150; attempt++) {
    const keep = async (client: KubeClient) => tried.push(client);
    await clients.tryTenant(superCluster, `guess-${attempt}`, keep);
    await clients.tryOperator(`guess-${attempt}`, keep);
  }
  expect(clients.ofTenant(superCluster, 'token')).toBe(kept);
  await expect(tried[0]?.list(resources.events)).rejects.toThrow();
  await clients.close();
  await program.connection.close();
  await api.stop();
});

/** Answers what it is asked to, and keeps what it was asked. */
function clientOf(answer: () => unknown) {
  const asked: unknown[] = [];
  const raw = async (_verb: string, path: string, { body }: { body: unknown }) => {
    asked.push([path, body]);
    return answer();
  };
  return { asked, client: { raw } as unknown as KubeClient };
}

const list = { verb: 'list', resource: 'virtualclusters' };

describe('what somebody may', () => {
  it('is remembered for twenty seconds, for each of them and each question', async () => {
    let now = 0;
    const access = new Access(() => now);
    const { asked, client } = clientOf(() => ({ status: { allowed: true } }));
    expect(await access.may('a', client, list)).toBe(true);
    now = 19_999;
    await access.may('a', client, { ...list });
    expect(asked).toHaveLength(1);
    await access.may('b', client, list);
    await access.may('a', client, { ...list, namespace: 'x' });
    expect(asked).toHaveLength(3);
    now = 20_000;
    await access.may('a', client, list);
    expect(asked).toHaveLength(4);
  });

  it('is asked for again when the question has failed', async () => {
    const access = new Access(() => 0);
    const answers: (() => unknown)[] = [
      () => {
        throw new Error('401');
      },
      () => ({ status: { allowed: true } }),
    ];
    const { client } = clientOf(() => answers.shift()?.());
    await expect(access.may('a', client, list)).rejects.toThrow('401');
    expect(await access.may('a', client, list)).toBe(true);
  });

  it.each([
    null,
    'yes',
    {},
    { status: null },
    { status: { allowed: 'true' } },
    { status: { denied: false } },
  ])('is nothing by the answer %j', async (answer) =>
    expect(await isAllowed(clientOf(() => answer).client, list)).toBe(false),
  );

  it('is about objects of Skerry unless another group is named', async () => {
    const { asked, client } = clientOf(() => ({}));
    await isAllowed(client, list);
    await isAllowed(client, { ...list, group: '' });
    expect(asked).toMatchObject([
      [expect.any(String), { spec: { resourceAttributes: { group: 'skerry.dev', verb: 'list' } } }],
      [expect.any(String), { spec: { resourceAttributes: { group: '' } } }],
    ]);
  });
});

describe('who somebody is', () => {
  const answering = (username: unknown) => clientOf(() => ({ status: { userInfo: { username } } })).client;

  it('is what the API server says, as far as a page can show it', async () => {
    expect(await whoAmI(answering('jane'))).toBe('jane');
    expect(await whoAmI(answering('x'.repeat(300)))).toHaveLength(256);
  });

  it.each(['', 'system:anonymous', undefined, 7])('is nobody for %j', async (username) => {
    await expect(whoAmI(answering(username))).rejects.toThrow('does not know whose token');
  });

  it('is nobody for an answer of another shape', async () => {
    for (const answer of [undefined, {}, { status: [] }, { status: { userInfo: null } }])
      await expect(whoAmI(clientOf(() => answer).client)).rejects.toThrow('does not know whose token');
  });
});
