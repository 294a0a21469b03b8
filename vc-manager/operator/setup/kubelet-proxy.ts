import { labelKeys } from '../../../api/labels.ts';
import { type KubeClient, type KubeObject, resources } from '../../../kube/index.ts';
import type { ManagerPki } from '../../pki/index.ts';
import { ensureObject } from '../objects.ts';

const name = 'skerry-kubelet-proxy';

/**
 * The manager's PKI, with the promise that what the syncer presents to tenants is in its Secret: at the first
 * call and whenever it was renewed since.
 */
export function handingOn(
  managerPki: () => Promise<ManagerPki>,
  client: KubeClient,
  namespace: string,
  signal: AbortSignal,
): () => Promise<ManagerPki> {
  let written: string | undefined;
  return async () => {
    const pki = await managerPki();
    if (pki.kubeletProxy.certPem !== written) {
      await ensureKubeletProxySecret(client, namespace, pki, signal);
      written = pki.kubeletProxy.certPem;
    }
    return pki;
  };
}

/** What the syncer presents to tenant API servers that take it for a kubelet, and how it knows them. */
async function ensureKubeletProxySecret(
  client: KubeClient,
  namespace: string,
  { kubeletProxy, kubeletProxyCa }: ManagerPki,
  signal: AbortSignal,
): Promise<void> {
  const data = {
    'tls.crt': kubeletProxy.certPem,
    'tls.key': kubeletProxy.keyPem,
    'ca.crt': kubeletProxyCa.certPem,
  };
  const secret: KubeObject = {
    metadata: { name, namespace, labels: { [labelKeys.managedBy]: 'skerry' } },
    type: 'kubernetes.io/tls',
    data: Object.fromEntries(
      Object.entries(data).map(([key, value]) => [key, Buffer.from(value).toString('base64')]),
    ),
  };
  await ensureObject(client, resources.secrets, secret, { signal });
}
