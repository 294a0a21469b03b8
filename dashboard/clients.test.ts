import { expect, it } from 'vitest';
import { Connection, KubeClient, resources } from '../kube/index.ts';
import { createTestCertificates, FakeApiServer } from '../kube/testing/index.ts';
import { Clients } from './clients.ts';

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
