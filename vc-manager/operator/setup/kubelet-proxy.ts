import { type KubeClient, type KubeObject, resources } from '../../../kube/index.ts';
import { keys } from '../../api/index.ts';
import type { ManagerPki } from '../../pki/index.ts';
import { ensureObject } from '../objects.ts';

const name = 'skerry-kubelet-proxy';

/** What the syncer presents to tenant API servers that take it for a kubelet, and how it knows them. */
export async function ensureKubeletProxySecret(
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
    metadata: { name, namespace, labels: { [keys.managedBy]: 'skerry' } },
    type: 'kubernetes.io/tls',
    data: Object.fromEntries(
      Object.entries(data).map(([key, value]) => [key, Buffer.from(value).toString('base64')]),
    ),
  };
  await ensureObject(client, resources.secrets, secret, { signal });
}
