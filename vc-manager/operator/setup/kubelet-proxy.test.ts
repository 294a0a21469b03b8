import { describe, expect, it } from 'vitest';
import { resources } from '../../../kube/index.ts';
import { startFakeCluster } from '../../../kube/testing/index.ts';
import { testManagerPki } from '../testing/manager-pki.ts';
import { handingOn } from './kubelet-proxy.ts';

describe('the certificate of the kubelet proxy', () => {
  it('is handed on to the syncer at first, and again when it was renewed', async () => {
    await using cluster = await startFakeCluster();
    const { signal } = new AbortController();
    let pki = await testManagerPki();
    const ask = handingOn(async () => pki, cluster.client, 'skerry-system', signal);
    const handedOn = (): string | undefined => {
      const ref = { namespace: 'skerry-system', name: 'skerry-kubelet-proxy' };
      const data = cluster.server.get(resources.secrets, ref)?.['data'] as Record<string, string> | undefined;
      return data && Buffer.from(data['tls.crt'] ?? '', 'base64').toString();
    };
    expect(await ask()).toBe(pki);
    expect(handedOn()).toBe(pki.kubeletProxy.certPem);
    const asked = cluster.server.requests.length;
    await ask();
    expect(cluster.server.requests.length).toBe(asked);

    pki = await testManagerPki();
    await ask();
    expect(handedOn()).toBe(pki.kubeletProxy.certPem);
  });
});
