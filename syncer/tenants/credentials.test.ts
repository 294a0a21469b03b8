import { describe, expect, it } from 'vitest';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { type KubeObject, renderKubeconfig, resources } from '../../kube/index.ts';
import { type FakeCluster, startFakeCluster } from '../../kube/testing/index.ts';
import { readCredentials } from './credentials.ts';

const { signal } = new AbortController();
const vc: VirtualCluster = {
  metadata: { namespace: 'acme', name: 'blue' },
  status: { syncerSecret: { namespace: 'skerry-system', name: 'blue-syncer', key: 'kubeconfig' } },
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

const read = (cluster: FakeCluster, of = vc) => readCredentials(cluster.client, 'skerry-system', of, signal);

async function withSecret(
  data: Record<string, string>,
  { namespace = 'skerry-system', of = 'acme/blue' } = {},
): Promise<FakeCluster> {
  const cluster = await startFakeCluster();
  const secret: KubeObject = {
    metadata: { namespace, name: 'blue-syncer', annotations: { 'skerry.dev/tenant-name': of } },
  };
  secret['data'] = Object.fromEntries(
    Object.entries(data).map(([key, value]) => [key, Buffer.from(value).toString('base64')]),
  );
  cluster.server.put(resources.secrets, secret);
  return cluster;
}

describe('the credentials for a tenant', () => {
  it('are read from the Secret that the VirtualCluster names', async () => {
    await using cluster = await withSecret({ kubeconfig: kubeconfig('a') });
    const { connection } = await read(cluster);
    expect(connection).toEqual({ server: 'https://127.0.0.1:21000', ca: 'CA', cert: 'CERT', key: 'KEY' });
  });

  it("come with what the tenant's API server proves itself with, if the manager tells", async () => {
    const told = { 'kubelet-client-ca.crt': 'KUBELET', 'front-proxy-ca.crt': 'PROXY' };
    await using cluster = await withSecret({ kubeconfig: kubeconfig('a'), ...told });
    const { authorities } = await read(cluster);
    expect(authorities).toEqual({ kubeletClient: 'KUBELET', frontProxy: 'PROXY' });
    await using half = await withSecret({ kubeconfig: kubeconfig('a'), 'front-proxy-ca.crt': 'PROXY' });
    expect((await read(half)).authorities).toBeUndefined();
  });

  it('have a mark that changes when they do', async () => {
    await using cluster = await withSecret({ kubeconfig: kubeconfig('a') });
    await using other = await withSecret({ kubeconfig: kubeconfig('b') });
    const { version } = await read(cluster);
    expect((await read(cluster)).version).toBe(version);
    expect((await read(other)).version).not.toBe(version);
  });

  it('are missed by name', async () => {
    await using cluster = await withSecret({ other: 'x' });
    await expect(read(cluster)).rejects.toThrow('Secret skerry-system/blue-syncer has no key kubeconfig');
    const { status: _status, ...bare } = vc;
    await expect(read(cluster, bare)).rejects.toThrow('acme/blue names no Secret');
  });

  it("are not read where the tenant's owner writes, whatever the status says", async () => {
    await using cluster = await withSecret({ kubeconfig: kubeconfig('a') }, { namespace: 'acme' });
    await expect(read(cluster)).rejects.toThrow('not found');
    const pointing = (syncerSecret: object) =>
      read(cluster, { ...vc, status: { syncerSecret } } as VirtualCluster);
    const reference = { name: 'blue-syncer', key: 'kubeconfig' };
    await expect(pointing(reference)).rejects.toThrow('upgrade vc-manager');
    await expect(pointing({ ...reference, namespace: 'acme' })).rejects.toThrow('--namespace acme');
    expect(cluster.server.requests.map(({ namespace }) => namespace)).toEqual(['skerry-system']);
  });

  it('are refused if they were made for another VirtualCluster', async () => {
    await using cluster = await withSecret({ kubeconfig: kubeconfig('a') }, { of: 'acme/red' });
    await expect(read(cluster)).rejects.toThrow('was not made for VirtualCluster acme/blue');
  });

  it('are refused if they would have us run something', async () => {
    const plugin = kubeconfig('a').replace('client-key-data', 'exec');
    await using cluster = await withSecret({ kubeconfig: plugin });
    await expect(read(cluster)).rejects.toThrow(/exec/);
  });
});
