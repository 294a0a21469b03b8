import { expect, it } from 'vitest';
import { Connection, KubeClient } from '../kube/index.ts';
import { createTestCertificates } from '../kube/testing/index.ts';
import { Clients } from './clients.ts';

it('a connection is kept for a token, but not beyond the authority or the name of its server', async () => {
  const superCluster = { server: 'http://127.0.0.1:1' };
  const program = new KubeClient(new Connection(superCluster));
  const clients = new Clients(superCluster, program);
  const [one, other] = [await createTestCertificates(), await createTestCertificates()];
  const place = { server: 'https://127.0.0.1:2', ca: one.ca };
  const kept = clients.withToken(place, 'token');
  expect(clients.withToken({ ...place }, 'token')).toBe(kept);
  expect(clients.withToken(place, 'another')).not.toBe(kept);
  expect(clients.withToken({ ...place, ca: other.ca }, 'token')).not.toBe(kept);
  expect(clients.withToken({ ...place, tlsServerName: 'blue' }, 'token')).not.toBe(kept);
  await clients.close();
  await program.connection.close();
});
