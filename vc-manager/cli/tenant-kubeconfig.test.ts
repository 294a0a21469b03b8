import { X509Certificate } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { Connection, connectionFromSecret, KubeClient, resources } from '../../kube/index.ts';
import { FakeApiServer } from '../../kube/testing/index.ts';
import { type CertificateAuthority, createAuthority } from '../pki/index.ts';
import { tenantKubeconfig } from './tenant-kubeconfig.ts';

const atMs = Date.parse('2026-05-01T12:00:00Z');
const { signal } = new AbortController();

/** The fake knows no users. */
class Client extends KubeClient {
  username = 'jane@example.com';

  override async raw(method: string, path: string): Promise<unknown> {
    expect([method, path]).toEqual(['POST', '/apis/authentication.k8s.io/v1/selfsubjectreviews']);
    return { status: { userInfo: { username: this.username } } };
  }
}

describe('the kubeconfig of an operator', () => {
  let server: FakeApiServer;
  let client: Client;
  let authority: CertificateAuthority;
  let vc: VirtualCluster;

  beforeEach(async () => {
    server = await FakeApiServer.start();
    client = new Client(new Connection(server.connectionOptions));
    authority = await createAuthority({ commonName: 'client CA', now: new Date(atMs) });
    const entries = {
      'client-ca.crt': authority.certPem,
      'client-ca.key': authority.keyPem,
      'serving-ca.crt': 'SERVING',
    };
    server.put(resources.secrets, {
      metadata: { namespace: 'skerry-system', name: 'tenant-blue000001-pki' },
      data: Object.fromEntries(
        Object.entries(entries).map(([key, value]) => [key, Buffer.from(value).toString('base64')]),
      ),
    });
    vc = server.put(resources.virtualClusters, {
      metadata: { namespace: 'team', name: 'blue' },
      status: {
        id: 'blue000001',
        endpoint: 'https://127.0.0.1:21000',
        syncerSecret: { namespace: 'skerry-system', name: 'tenant-blue000001-syncer', key: 'kubeconfig' },
      },
    }) as VirtualCluster;
  });
  afterEach(async () => {
    await client.connection.close();
    await server.stop();
  });

  const made = (of = vc) => tenantKubeconfig(client, of, { clock: { now: () => atMs }, signal }, true);
  const events = () => server.list(resources.events);

  it('is in the name that the super cluster knows, for an hour, and leaves an event', async () => {
    const { server: address, ca, cert = '' } = connectionFromSecret(await made());
    expect([address, ca]).toEqual(['https://127.0.0.1:21000', 'SERVING']);
    const certificate = new X509Certificate(cert);
    expect(certificate.subject).toBe('O=skerry:cluster-admins\nCN=skerry:operator:jane@example.com');
    expect(certificate.verify(new X509Certificate(authority.certPem).publicKey)).toBe(true);
    expect(certificate.validToDate.toISOString()).toBe('2026-05-01T13:00:00.000Z');
    expect(events()).toEqual([
      expect.objectContaining({
        involvedObject: expect.objectContaining({ kind: 'VirtualCluster', namespace: 'team', name: 'blue' }),
        reason: 'AdminAccess',
        message:
          'jane@example.com has a kubeconfig as skerry:operator:jane@example.com, until 2026-05-01T13:00:00Z.',
        firstTimestamp: '2026-05-01T12:00:00Z',
      }),
    ]);
    expect(events()[0]?.metadata.namespace).toBe('team');
  });

  it('is not given out without the event', async () => {
    server.inject({
      verb: 'create',
      plural: 'events',
      times: 1,
      fault: { kind: 'status', code: 403, reason: 'Forbidden' },
    });
    await expect(made()).rejects.toThrow();
    await expect(made()).resolves.toContain('skerry:operator:jane@example.com');
  });

  it('makes one user of a name that looks like several parts', async () => {
    client.username = 'jane,O=system:masters\nCN=x+O=system:masters';
    const { cert = '' } = connectionFromSecret(await made());
    expect(new X509Certificate(cert).toLegacyObject().subject).toEqual({
      O: 'skerry:cluster-admins',
      CN: `skerry:operator:${client.username}`,
    });
    expect(events()[0]?.['message']).not.toContain('\n');
  });

  it('that is stored is given out with an event as well, one for each who takes it, and without where none may be written', async () => {
    const text = await made();
    server.put(resources.secrets, {
      metadata: { namespace: 'team', name: 'blue-kubeconfig' },
      data: { kubeconfig: Buffer.from(text).toString('base64') },
    });
    const kubeconfigSecret = { name: 'blue-kubeconfig', key: 'kubeconfig' };
    const of = { ...vc, status: { ...vc.status, kubeconfigSecret } };
    const clock = { now: () => atMs };
    const stored = () => tenantKubeconfig(client, of, { clock, signal });
    const [first, second] = [await stored(), await stored()];
    expect(first).toBe(second);
    expect(first).toContain('https://127.0.0.1:21000');
    client.username = 'joe@example.com';
    await stored();
    const taken = () => events().filter(({ message }) => String(message).includes('stored'));
    expect(
      taken()
        .map(({ message, count }) => [message, count])
        .sort(),
    ).toEqual([
      ["jane@example.com has taken the stored kubeconfig of the tenant's administrators.", 2],
      ["joe@example.com has taken the stored kubeconfig of the tenant's administrators.", 1],
    ]);
    server.inject({
      verb: 'create',
      plural: 'events',
      fault: { kind: 'status', code: 403, reason: 'Forbidden' },
    });
    client.username = 'jim@example.com';
    expect(await stored()).toBe(first);
    expect(taken()).toHaveLength(2);
  });

  it('needs a control plane, and to know who asks', async () => {
    await expect(made({ ...vc, status: {} })).rejects.toMatchObject({ code: 'NotReady' });
    client.username = '';
    await expect(made()).rejects.toMatchObject({ code: 'NotReady' });
    expect(events()).toEqual([]);
  });
});
