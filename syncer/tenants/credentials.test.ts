import { describe, expect, it } from 'vitest';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { type KubeObject, renderKubeconfig, resources } from '../../kube/index.ts';
import { type FakeCluster, startFakeCluster } from '../../kube/testing/index.ts';
import { readCredentials } from './credentials.ts';

const { signal } = new AbortController();
const vc: VirtualCluster = {
  metadata: { namespace: 'acme', name: 'blue' },
  status: { syncerSecret: { name: 'blue-syncer', key: 'kubeconfig' } },
};
const kubeconfig = (user: string): string =>
  renderKubeconfig({
    clusterName: 'blue',
    server: 'https://127.0.0.1:21000',
    ca: 'CA',
    user,
    cert: 'CERT',
    key: 'KEY',
  });

async function withSecret(data: Record<string, string>): Promise<FakeCluster> {
  const cluster = await startFakeCluster();
  const secret: KubeObject = { metadata: { namespace: 'acme', name: 'blue-syncer' } };
  secret['data'] = Object.fromEntries(
    Object.entries(data).map(([key, value]) => [key, Buffer.from(value).toString('base64')]),
  );
  cluster.server.put(resources.secrets, secret);
  return cluster;
}

describe('the credentials for a tenant', () => {
  it('are read from the Secret that the VirtualCluster names', async () => {
    await using cluster = await withSecret({ kubeconfig: kubeconfig('a') });
    const { connection } = await readCredentials(cluster.client, vc, signal);
    expect(connection).toEqual({ server: 'https://127.0.0.1:21000', ca: 'CA', cert: 'CERT', key: 'KEY' });
  });

  it("come with what the tenant's API server proves itself with, if the manager tells", async () => {
    const told = { 'kubelet-client-ca.crt': 'KUBELET', 'front-proxy-ca.crt': 'PROXY' };
    await using cluster = await withSecret({ kubeconfig: kubeconfig('a'), ...told });
    const { authorities } = await readCredentials(cluster.client, vc, signal);
    expect(authorities).toEqual({ kubeletClient: 'KUBELET', frontProxy: 'PROXY' });
    await using half = await withSecret({ kubeconfig: kubeconfig('a'), 'front-proxy-ca.crt': 'PROXY' });
    expect((await readCredentials(half.client, vc, signal)).authorities).toBeUndefined();
  });

  it('have a mark that changes when they do', async () => {
    await using cluster = await withSecret({ kubeconfig: kubeconfig('a') });
    await using other = await withSecret({ kubeconfig: kubeconfig('b') });
    const { version } = await readCredentials(cluster.client, vc, signal);
    expect((await readCredentials(cluster.client, vc, signal)).version).toBe(version);
    expect((await readCredentials(other.client, vc, signal)).version).not.toBe(version);
  });

  it('are missed by name', async () => {
    await using cluster = await withSecret({ other: 'x' });
    await expect(readCredentials(cluster.client, vc, signal)).rejects.toThrow(
      'Secret acme/blue-syncer has no key kubeconfig',
    );
    const { status: _status, ...bare } = vc;
    await expect(readCredentials(cluster.client, bare, signal)).rejects.toThrow('acme/blue names no Secret');
  });

  it('are refused if they would have us run something', async () => {
    const plugin = kubeconfig('a').replace('client-key-data', 'exec');
    await using cluster = await withSecret({ kubeconfig: plugin });
    await expect(readCredentials(cluster.client, vc, signal)).rejects.toThrow();
  });
});
